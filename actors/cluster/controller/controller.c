/* controller.c - connects the coordinator's state machine to sockets, a clock and processes.
 *
 * Before the cluster continues, the controller kills the process of each lost member, because a late write of this
 * process would change memory that other processes use. On Linux the controller kills through a pidfd, which can never
 * name a later process with the same pid. */

#include "actors/cluster/controller/files.h"
#include "actors/cluster/controller/memories.h"
#include "actors/cluster/controller/watch.h"
#include "actors/act/run/engine.h"
#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/wire/machine.h"
#include "actors/plan/model/plan.h"
#include "kernels/exec/identity.h"
#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "runtime/base/system.h"
#include "runtime/base/thread.h"
#include "actors/cluster/coordinator/coordinator_admit.h"
#include "actors/cluster/coordinator/coordinator_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

/* FILES: number of open files that each worker costs the controller: connections, pipes and a pidfd. OWN_FILES:
 * number of files that the controller needs besides. HANG_S, SILENCE_S, LINK_S: defaults of cluster_options */
enum { HANG_S = 600, DIRECT = 16, BYE_MS = 2000, REMIND_MS = 5000, FILES = 8, OWN_FILES = 128 };
static const double SILENCE_S = 0.8, LINK_S = 3;

/* ---- callbacks of the coordinator ---- */

static void
send_to_member(void *arg, int peer, const struct packet *p)
{
    struct cluster *c = arg;
    str_clear(&c->packet);
    packet_write(p, &c->packet);
    /* Ignores a failed send. The peer is gone, so it sends no heartbeats and is soon declared lost. The coordinator
     * calls this function, so the function must not call the coordinator. */
    if (link_send(c->link, LINK_CONTROL, peer, c->packet.text, c->packet.len)) err_clear();
}

static void
on_cut(void *arg, int peer)
{
    const struct cluster *c = arg;
    link_release(c->link, LINK_CONTROL, peer); /* ZeroMQ's ROUTER socket drops the connection when the process ends */
}

static void
wake_cluster(struct cluster *c, enum cluster_sleeper who)
{
    system_raise(&c->wait.wake[who]);
}

/* Wakes the session's thread, if that thread waits and is not the caller. */
static void
wake_session(struct cluster *c)
{
    if (atomic_load(&c->wait.attended) && !pthread_equal(c->wait.attendant, pthread_self()))
        wake_cluster(c, SLEEPS_SESSION);
}

/* Sets the link on which a process's heartbeats arrive; -1: none. */
static void
set_beat_peer(const struct cluster *c, struct process *p, int peer)
{
    if (p->beat_peer >= 0 && p->beat_peer != peer) link_release(c->link, LINK_BEAT, p->beat_peer);
    p->beat_peer = peer;
}

static void
watch_process(struct cluster *c, int rank, int pid, bool child)
{
    struct process *p = &c->process[rank];
    if (p->ends.pid) return;
    p->pid = pid;
    p->child = child;
    system_process_open(&p->ends, pid);
}

/* Kills a worker's process and waits until it has ended. Reports a process that does not end within BYE_MS. */
static void
kill_process(struct cluster *c, int rank)
{
    struct process *p = &c->process[rank];
    char text[128];
    if (!p->ends.pid) return;
    system_process_kill(&p->ends);
    bool ended = system_process_ended(&p->ends, BYE_MS);
    if (!ended && c->options.say) {
        snprintf(text, sizeof text, "worker %d (pid %d) was killed and has not ended within %d s", rank, p->pid,
                 BYE_MS / 1000);
        c->options.say(c->options.arg, text);
    }
    if (p->child) waitpid(p->pid, NULL, WNOHANG); /* does not wait for a debugger, which may keep the ended process */
    system_process_close(&p->ends);
    set_beat_peer(c, p, -1);
    *p = (struct process){.ends.fd = -1, .beat_peer = -1};
}

/* Returns the task that the lost worker was running, read from the status words of its slots (device threads); -1:
 * no status word is about the current run. */
static int32_t
task_of(const struct cluster *c, int rank)
{
    int32_t task;
    for (int s = 0, k = 0; c->hosts.bus && s < c->table.nslot; s++) {
        if (!coordinator_memory(c->c, (int)c->table.slot[s].memory)->own) continue;
        int local = k++;
        if (coordinator_slot(c->c, s) != (uint32_t)rank) continue;
        bool over;
        if (recorder_last(bus_host_recorder(segment_base(c->hosts.bus), local), c->run.id, 0, &task, &over))
            return task;
    }
    return -1;
}

bool
cluster_is_running(const struct cluster *c)
{
    return c->run.job;
}

bool
cluster_doing(const struct cluster *c, int thread, int32_t *task)
{
    *task = -1;
    if (thread < 0 || thread >= c->hosts.memory[c->hosts.home].map.nslot ||
        !coordinator_memory(c->c, c->hosts.home)->own)
        return false;
    /* between runs the message bus may be replaced, and its status words with it, so they cannot be read */
    if (!c->run.job) return true;
    bool over, any = recorder_last(bus_host_recorder(segment_base(c->hosts.bus), thread), c->run.id, 0, task, &over);
    if (!any || over) *task = -1;
    return true;
}

static const char *
started_on(const struct cluster *c, int rank)
{
    const char *host = c->options.host ? c->options.host(c->options.arg, rank) : NULL;
    return host ? host : "this host";
}

/* Writes how a member was lost. If the member was silent, adds the time of silence and the option with its limit. */
static void
print_loss(const struct cluster *c, const struct notice *n, char *out, size_t size)
{
    double silent_s = coordinator_member(c->c, n->rank)->missed * TICK_MS * 1e-3;
    if (silent_s > c->options.silence_s)
        snprintf(out, size, "%s: no heartbeat for %.1f s (--silence %g)", n->text, silent_s, c->options.silence_s);
    else
        snprintf(out, size, "%s", n->text);
}

static void
note_lost_member(struct cluster *c, const struct notice *n)
{
    const struct member_info *m = coordinator_member(c->c, n->rank);
    bool again = m->stayed || n->rank >= c->options.started;
    c->epoch.vain |= !again && !c->epoch.formed;
    if (c->epoch.nloss < LOSSES) {
        struct cluster_loss *l = &c->epoch.loss[c->epoch.nloss++];
        *l = (struct cluster_loss){
            .rank = n->rank, .pid = (int)m->pid, .task = -1, .node = -1, .again = again || c->options.least};
        /* without a reported pid, uses the pid of the launcher (ssh) */
        if (!l->pid) l->pid = c->process[n->rank].pid;
        snprintf(l->host, sizeof l->host, "%s", m->host ? m->host : started_on(c, n->rank));
        print_loss(c, n, l->how, sizeof l->how);
        if (c->run.job) {
            l->run = c->run.id;
            l->task = task_of(c, n->rank);
            if (m->still > 1) l->node = (int32_t)(uint32_t)m->progress - 1;
        }
    }
    c->epoch.say_ns = now_ns() + MEET_MS * 1000000ll;
    c->epoch.full = false; /* the epoch is incomplete again: cancels a NOTICE_FULL that has not been handled */
    loss_times_add(&c->epoch.lost, now_ns());
    pthread_cond_broadcast(&c->files.changed);
    remote_access_forget(c->reach, n->rank);
    kill_process(c, n->rank);
}

static void
take_have(struct cluster *c, int rank, const struct packet *p)
{
    struct str arenas = {0}; /* copy of the arenas' sizes, because numbers of 8 bytes must be aligned */
    str_addn(&arenas, p->arenas.bytes, p->arenas.n);
    struct cluster_part part = {.arena = (const void *)str_text(&arenas),
                                .narena = (int)(p->arenas.n / 8),
                                .replaces = p->replaces.bytes,
                                .nreplace = (int)p->replaces.n};
    if (c->run.job && c->run.job->have)
        c->run.job->have(c->run.job->arg, coordinator_member(c->c, rank)->memory, &part);
    str_free(&arenas);
}

static void
take_end(struct cluster *c, int rank, const struct packet *p)
{
    if (!c->run.job) return;
    int memory = coordinator_member(c->c, rank)->memory;
    if (p->kind == PACKET_ACTS) {
        if (c->run.job->acts) c->run.job->acts(c->run.job->arg, memory, (int64_t)p->count, p->bytes.bytes, p->bytes.n);
        return;
    }
    c->run.job->nact += (int64_t)p->count;
    for (uint32_t i = 0; c->run.job->begun && i < p->begun.n; i += 4) {
        int32_t root;
        memcpy(&root, p->begun.bytes + i, 4);
        c->run.job->begun(c->run.job->arg, root);
    }
    for (uint32_t i = 0; c->run.job->acted && i + 8 <= p->acted.n; i += 8) {
        int32_t pair[2];
        memcpy(pair, p->acted.bytes + i, 8);
        c->run.job->acted(c->run.job->arg, memory, pair[0], pair[1]);
    }
    for (uint32_t i = 0; c->run.job->busy && i + 16 <= p->busy.n; i += 16) {
        uint64_t pair[2];
        memcpy(pair, p->busy.bytes + i, 16);
        c->run.job->busy(c->run.job->arg, memory, pair[0], pair[1]);
    }
}

static void
on_tell(void *arg, const struct notice *n)
{
    struct cluster *c = arg;
    switch (n->kind) {
    case NOTICE_FULL: c->epoch.full = true; break;
    case NOTICE_FORMED: c->epoch.formed = true; break;
    case NOTICE_REFUSED:
        if (c->options.say) c->options.say(c->options.arg, n->text);
        break;
    case NOTICE_LOST: note_lost_member(c, n); break;
    case NOTICE_ACTS: take_end(c, n->rank, n->packet); break;
    case NOTICE_SLOW: control_say_slow(c, n); break;
    case NOTICE_FILED: control_filed(c, n); break;
    case NOTICE_HAVE: take_have(c, n->rank, n->packet); break;
    case NOTICE_HANG: control_hang(c, n); break;
    case NOTICE_REPORT: control_report(c, n); break;
    case NOTICE_SIGNAL:
        if (!c->signal.number) c->signal.number = n->status, c->signal.rank = n->rank;
        break;
    case NOTICE_ENDED:
        c->run.ended = true;
        c->run.status = n->status;
        c->run.blame = n->rank;
        c->run.node = n->node;
        snprintf(c->run.text, sizeof c->run.text, "%s", n->text);
        break;
    }
    wake_session(c);
}

/* ---- receiving ---- */

/* Watches the process of the worker that this HELLO packet gave a rank, if the process is on this host. */
static void
watch_member(struct cluster *c, int peer, const struct packet *p)
{
    bool here = machine_is_same((const char *)p->machine.bytes, p->machine.n, str_text(&c->machine));
    for (int r = 0; r < c->options.world; r++) {
        const struct member_info *m = coordinator_member(c->c, r);
        if (m->peer != peer) continue;
        c->process[r].heard_ns = now_ns();
        if (here && system_process_runs_us((int)m->pid)) watch_process(c, r, (int)m->pid, false);
    }
}

static void
take_packet(struct cluster *c, int peer, const void *bytes, size_t n)
{
    struct packet p;
    if (packet_read(bytes, n, &p)) {
        int protocol = packet_protocol(bytes, n);
        if (protocol && protocol != WIRE_VERSION) coordinator_foreign(c->c, peer, protocol);
        coordinator_cut(c->c, peer, "sent a malformed packet");
        return;
    }
    if (p.kind == PACKET_HELLO) coordinator_vouch(c->c, peer, link_rank(c->link, LINK_CONTROL, peer));
    coordinator_receive(c->c, peer, &p);
    if (p.kind == PACKET_HELLO) watch_member(c, peer, &p);
}

static void
take_control(struct cluster *c)
{
    const void *bytes;
    size_t n;
    int peer;
    while (link_receive(c->link, LINK_CONTROL, &peer, &bytes, &n)) {
        take_packet(c, peer, bytes, n);
        if (!coordinator_uses(c->c, peer)) link_release(c->link, LINK_CONTROL, peer);
    }
}

void
control_look(struct cluster *c)
{
    take_control(c);
    wake_cluster(c, SLEEPS_CLUSTER);
}

static void
note_heard(struct cluster *c, const struct packet *p)
{
    int64_t now = now_ns();
    c->process[p->rank].heard_ns = now;
    for (uint32_t i = 0; i + 4 * NBEAT <= p->others.n; i += 4 * NBEAT) {
        uint32_t rank;
        memcpy(&rank, p->others.bytes + i, sizeof rank);
        if (rank < (uint32_t)c->options.world && !coordinator_member(c->c, (int)rank)->missed)
            c->process[rank].heard_ns = now;
    }
}

static void
controller_take_beats(struct cluster *c)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (link_receive(c->link, LINK_BEAT, &peer, &bytes, &n)) {
        if (packet_read(bytes, n, &p) || !link_is_of(c->link, LINK_BEAT, peer, p.rank) || !coordinator_beat(c->c, &p)) {
            link_release(c->link, LINK_BEAT, peer);
            continue;
        }
        set_beat_peer(c, &c->process[p.rank], peer);
        note_heard(c, &p);
    }
}

static void
how_it_ended(struct process *p, char how[64])
{
    siginfo_t info = {0};
    bool known = p->child && !waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOWAIT) && info.si_pid;
    if (!known)
        snprintf(how, 64, "ended");
    else if (info.si_code == CLD_EXITED)
        snprintf(how, 64, "ended with exit code %d", info.si_status);
    else
        snprintf(how, 64, "was killed by signal %d", info.si_status);
}

static void
take_ends(struct cluster *c)
{
    char how[64];
    for (int r = 0; r < c->options.world; r++) {
        struct process *p = &c->process[r];
        if (!p->ends.pid || !system_process_ended(&p->ends, 0)) continue;
        take_control(c); /* receives the packets that the process sent before it ended */
        if (!p->ends.pid) continue;
        how_it_ended(p, how);
        coordinator_gone(c->c, r, how);
        kill_process(c, r);
        take_control(c); /* receives packets, because the send may have consumed their edge-triggered event */
    }
}

static void
cluster_tick(struct cluster *c)
{
    struct packet p;
    coordinator_tick(c->c);
    control_say_absent(c);
    control_say_unmet(c);
    for (int r = 0; r < c->options.world; r++) {
        if (c->process[r].beat_peer < 0 || !coordinator_pulse(c->c, r, &p)) continue;
        str_clear(&c->packet);
        packet_write(&p, &c->packet);
        if (link_send(c->link, LINK_BEAT, c->process[r].beat_peer, c->packet.text, c->packet.len)) err_clear();
    }
    c->wait.tick_ns = now_ns() + TICK_MS * 1000000ll;
    controller_take_beats(c); /* receives packets, because the send may have consumed their edge-triggered event */
    take_control(c);
}

/* ---- waiting ---- */

static void
cluster_pump(struct cluster *c)
{
    controller_take_beats(c);
    take_control(c);
    take_ends(c);
    if (now_ns() >= c->wait.tick_ns) cluster_tick(c);
}

/* Sleeps until an event may have arrived, at most until the next tick. Releases the lock during the sleep, so the
 * descriptors to poll are collected before the sleep. */
static void
cluster_sleep(struct cluster *c, enum cluster_sleeper who)
{
    struct pollfd fd[3 + 64];
    nfds_t n = 0;
    bool attends = who == SLEEPS_SESSION || !atomic_load(&c->wait.attended);
    fd[n++] = (struct pollfd){.fd = c->wait.wake[who].fd, .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_fd(c->link, LINK_BEAT), .events = POLLIN};
    if (attends) fd[n++] = (struct pollfd){.fd = link_fd(c->link, LINK_CONTROL), .events = POLLIN};
    for (int r = 0; attends && r < c->options.world && n < countof(fd); r++)
        if (c->process[r].ends.fd >= 0) fd[n++] = (struct pollfd){.fd = c->process[r].ends.fd, .events = POLLIN};
    int64_t left = (c->wait.tick_ns - now_ns()) / 1000000;
    pthread_mutex_unlock(&c->lock);
    poll(fd, n, (int)MAX(1, MIN(left + 1, TICK_MS)));
    if (fd[0].revents) system_lower(&c->wait.wake[who]);
    pthread_mutex_lock(&c->lock);
}

static void *
cluster_thread(void *arg)
{
    struct cluster *c = arg;
    pthread_mutex_lock(&c->lock);
    while (!c->wait.quit) {
        cluster_pump(c);
        /* Wakes threads that wait for files. cluster_interrupt() cannot wake them, because it is called by signal
         * handlers. */
        if (atomic_load(&c->wait.interrupted)) pthread_cond_broadcast(&c->files.changed);
        cluster_sleep(c, SLEEPS_CLUSTER);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Drives the coordinator on the session's thread until *done is true. E_LOST: a member is lost; E_CANCEL: the user
 * interrupts. If *done is true at the call, still handles the events that have arrived. */
static int
attend(struct cluster *c, const bool *done)
{
    int status = 0;
    c->wait.attendant = pthread_self();
    atomic_store(&c->wait.attended, true);
    while (!status) {
        cluster_pump(c);
        if (c->epoch.full && (status = control_begin(c))) break;
        if (*done) break;
        if (c->epoch.nloss && coordinator_phase(c->c) == CLUSTER_BROKEN) status = E_LOST;
        if (!status && atomic_load(&c->wait.interrupted)) status = E_CANCEL;
        if (status) break;
        cluster_sleep(c, SLEEPS_SESSION);
    }
    atomic_store(&c->wait.attended, false);
    return status;
}

int
control_gather(struct cluster *c)
{
    c->epoch.formed = false;
    c->wait.remind_after_ns = REMIND_MS * 1000000ll;
    c->wait.remind_ns = now_ns() + c->wait.remind_after_ns;
    int status = attend(c, &c->epoch.formed);
    c->wait.remind_ns = 0;
    if (status == E_LOST) return control_say_lost(c);
    if (status == E_CANCEL) return fail(E_CANCEL, "interrupted while waiting for workers");
    return status ? status : control_renew(c);
}

/* ---- opening and closing ---- */

static int
random_bytes(void *p, size_t n)
{
    return !getentropy(p, n) ? 0 : fail(E_IO, "cannot read random bytes: %s", strerror(errno));
}

static int
start_worker(struct cluster *c, int rank)
{
    int pid = 0;
    TRY(random_bytes(c->secret[rank], CLUSTER_ID));
    if (c->options.start(c->options.arg, rank, link_endpoint(c->link, LINK_CONTROL), c->secret[rank], &pid))
        return fail(E_BUS, "the job lacks worker %d, which could not be started", rank);
    watch_process(c, rank, pid, true);
    return 0;
}

int
control_start_absent(struct cluster *c)
{
    for (int r = 0; r < c->options.started; r++) {
        if (coordinator_member(c->c, r)->state != MEMBER_ABSENT || c->process[r].ends.pid) continue;
        TRY(start_worker(c, r));
        cluster_pump(c); /* answers the workers that run already: to start many takes longer than a worker waits */
    }
    return 0;
}

static int
open_link(struct cluster *c)
{
    struct key key = {0};
    const char *file = c->options.key_file;
    if (file) TRY(key_read(file, KEY_COORDINATORS, &key));
    bool few = file && key.nrank && key.nrank < c->options.world;
    int status =
        few ? fail(E_ARG, "%s: expected keys for at least %d workers, found %d; rille keys --world N FOLDER makes them",
                   file, c->options.world, key.nrank)
            : link_serve(c->options.bind, file ? &key : NULL, &c->link);
    key_forget(&key);
    return status;
}

/* Returns the rank that answers for a host's memory: the lowest rank that has it mapped. Without such a rank,
 * returns -1 and sets the error E_LOST. */
static int
keeper(void *of, int memory)
{
    struct cluster *c = of;
    pthread_mutex_lock(&c->lock);
    int rank = coordinator_keeper(c->c, memory);
    if (rank < 0 && c->epoch.nloss)
        control_say_lost(c);
    else if (rank < 0)
        fail(E_LOST, "all workers of a host were lost, and with them the values stored there");
    pthread_mutex_unlock(&c->lock);
    return rank;
}

static int
open_coordinator(struct cluster *c)
{
    struct coordinator_env env = {c, send_to_member, on_cut, on_tell};
    segment_path(c->hosts.own, c->hosts.path);
    machine_text(NULL, &c->machine);
    kernels_print(&c->kernels);
    struct coordinator_options o = {.world = c->options.world,
                                    .least = c->options.least,
                                    .started = c->options.started,
                                    .silence = (int)(c->options.silence_s * 1000 / TICK_MS),
                                    .link = (int)(c->options.link_s * 1000 / TICK_MS),
                                    .hang = (int)(c->options.hang_s * 1000 / TICK_MS),
                                    .direct = DIRECT,
                                    .version = c->options.version,
                                    .machine = str_text(&c->machine),
                                    .name = c->options.job,
                                    .kernels = str_text(&c->kernels),
                                    .isa = c->isa,
                                    .beat = link_endpoint(c->link, LINK_BEAT),
                                    .bulk = link_endpoint(c->link, LINK_BULK),
                                    .secret = (const unsigned char(*)[CLUSTER_ID])c->secret};
    TRY(random_bytes(c->job_id, sizeof c->job_id));
    memcpy(o.job, c->job_id, sizeof o.job);
    c->c = coordinator_new(&o, &env);
    const int64_t tick_ns = TICK_MS * 1000000ll;
    struct remote_access_options ro = {.link = c->link,
                                       .job = c->job_id,
                                       .world = c->options.world,
                                       .of = c,
                                       .keeper = keeper,
                                       .broken = control_broken,
                                       .deadline_ns = o.hang * tick_ns,
                                       .link_ns = (o.link ? o.link : LINK_TICKS) * tick_ns,
                                       .connect = control_connect,
                                       .lose = control_lose};
    c->reach = remote_access_new(&ro);
    return 0;
}

static int
open_all(struct cluster *c)
{
    TRY(roots_read(c->options.root, &c->roots));
    TRY(open_link(c));
    TRY(segment_new(limits_shared_memory(), &c->hosts.own));
    TRY(open_coordinator(c));
    c->wait.tick_ns = now_ns() + TICK_MS * 1000000ll;
    if (c->options.start && !c->options.takes_over) TRY(control_start_absent(c));
    TRY(thread_start(&c->thread, cluster_thread, c));
    c->started = true;
    return 0;
}

/* Waits TAKE_OVER_MS for workers that an earlier coordinator left, then starts processes for the missing ranks. */
static int
replace_controller(struct cluster *c)
{
    int64_t until = now_ns() + TAKE_OVER_MS * 1000000ll;
    while (now_ns() < until && !c->epoch.full && !atomic_load(&c->wait.interrupted)) {
        pthread_mutex_unlock(&c->lock);
        poll(NULL, 0, TICK_MS / 10);
        pthread_mutex_lock(&c->lock);
    }
    int status = control_check_kept(c);
    c->passes_on = status != 0;
    return status ? status : control_start_absent(c);
}

int
cluster_open(const struct cluster_options *o, struct cluster **out)
{
    *out = NULL;
    if (o->world < 1 || o->world > CLUSTER_WORLD)
        return fail(E_ARG, "a job must have 1 to %d workers, found %d", CLUSTER_WORLD, o->world);
    if (o->least < 0 || o->least > o->world)
        return fail(E_ARG, "the smallest number of workers must be 0 to %d, the largest number, found %d", o->world,
                    o->least);
    if (o->restarts < 0 || o->restarts > RESTARTS_MOST)
        return fail(E_ARG, "the number of restarts must be 0 to %d, found %d", RESTARTS_MOST, o->restarts);
    TRY(limits_open_files(OWN_FILES + FILES * (size_t)o->world));
    struct cluster *c = must_alloc(sizeof *c);
    c->options = *o;
    if (!o->silence_s) c->options.silence_s = SILENCE_S;
    if (!o->hang_s) c->options.hang_s = HANG_S;
    if (!o->link_s) c->options.link_s = LINK_S;
    c->isa = kernels_isa();
    c->process = must_alloc(sizeof *c->process * (size_t)o->world);
    c->secret = must_alloc(sizeof *c->secret * (size_t)o->world);
    for (int r = 0; r < o->world; r++) c->process[r] = (struct process){.ends.fd = -1, .beat_peer = -1};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->files.changed, NULL);
    bool opened = true;
    for (int k = 0; k < NSLEEPS; k++) opened = !system_event_open(&c->wait.wake[k]) && opened;
    int status = !opened ? fail(E_IO, "cannot create an event descriptor: %s", strerror(errno)) : open_all(c);
    pthread_mutex_lock(&c->lock);
    if (!status && o->start && o->takes_over) status = replace_controller(c);
    if (!status) status = control_gather(c);
    pthread_mutex_unlock(&c->lock);
    *out = c;
    if (status) c->code = 1;
    if (status) cluster_close(out);
    return status;
}

static bool
anybody(const struct cluster *c)
{
    for (int r = 0; r < c->options.world; r++) {
        const struct system_process *ends = &c->process[r].ends;
        if (ends->pid && !system_process_ended(ends, 0)) return true;
    }
    return false;
}

/* Dismisses the workers: sends BYE, waits for at most BYE_MS, then kills the processes that have not ended. */
static void
dismiss(struct cluster *c)
{
    int64_t until = now_ns() + BYE_MS * 1000000ll;
    if (c->link) link_hide(c->link);
    coordinator_bye(c->c, (uint32_t)c->code);
    while (anybody(c) && now_ns() < until) {
        take_control(c);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    for (int r = 0; r < c->options.world; r++) kill_process(c, r);
}

void
cluster_close(struct cluster **cp)
{
    struct cluster *c = *cp;
    char text[WIRE_TEXT];
    int code = err_last();
    *cp = NULL;
    if (!c) return;
    snprintf(text, sizeof text, "%s", err_text());
    if (c->started) {
        pthread_mutex_lock(&c->lock);
        c->wait.quit = true;
        pthread_mutex_unlock(&c->lock);
        wake_cluster(c, SLEEPS_CLUSTER);
        pthread_join(c->thread, NULL);
    }
    if (c->c && !c->passes_on) dismiss(c);
    coordinator_free(&c->c);
    link_free(&c->link);
    remote_access_free(&c->reach);
    control_free(c);
    for (int k = 0; k < NSLEEPS; k++) system_event_close(&c->wait.wake[k]);
    roots_free(&c->roots);
    str_free(&c->machine);
    str_free(&c->kernels);
    str_free(&c->packet);
    str_free(&c->hang);
    system_erase(c->secret, sizeof *c->secret * (size_t)c->options.world);
    free(c->secret);
    free(c->process);
    pthread_cond_destroy(&c->files.changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
    /* restores the error from before the call, which closing may have replaced */
    if (code) fail((enum err_code)code, "%s", text);
}

/* ---- runs ---- */

static int
finish_run(struct cluster *c, struct cluster_job *job)
{
    job->rank = c->run.blame;
    job->node = c->run.node;
    return c->run.status ? fail((enum err_code)c->run.status, "%s", c->run.text) : 0;
}

/* After an interrupt, stops the run on all workers and waits for its end. */
static int
stop_and_wait(struct cluster *c)
{
    atomic_store(&c->wait.interrupted, 0);
    coordinator_stop(c->c);
    return attend(c, &c->run.ended);
}

int
cluster_run(struct cluster *c, struct cluster_job *job)
{
    int status;
    job->rank = job->node = -1;
    pthread_mutex_lock(&c->lock);
    if (coordinator_phase(c->c) != CLUSTER_IDLE) {
        status = c->epoch.nloss ? control_say_lost(c)
                                : fail(E_STATE, "the cluster must be idle to begin a run, but it is %s",
                                       coordinator_phase_text(coordinator_phase(c->c)));
        pthread_mutex_unlock(&c->lock);
        return status;
    }
    c->run.job = job;
    c->run.ended = false;
    job->start.run = ++c->run.id;
    atomic_store(&c->wait.interrupted, 0);
    coordinator_start(c->c, &job->start);
    status = attend(c, &c->run.ended);
    while (status == E_CANCEL) status = stop_and_wait(c);
    c->run.job = NULL;
    status = status == E_LOST ? control_say_lost(c) : status ? status : finish_run(c, job);
    pthread_mutex_unlock(&c->lock);
    return status;
}

void
cluster_interrupt(struct cluster *c)
{
    atomic_store(&c->wait.interrupted, 1);
    for (int k = 0; k < NSLEEPS; k++) wake_cluster(c, k);
}

void
cluster_hear(struct cluster *c, uint64_t signals)
{
    pthread_mutex_lock(&c->lock);
    coordinator_hear(c->c, signals);
    pthread_mutex_unlock(&c->lock);
}

void
cluster_end_with(struct cluster *c, int code)
{
    c->code = code;
}

int
cluster_heard(struct cluster *c, int *rank)
{
    pthread_mutex_lock(&c->lock);
    int number = c->signal.number;
    if (number) *rank = c->signal.rank;
    pthread_mutex_unlock(&c->lock);
    return number;
}

void
cluster_forget(struct cluster *c, uint64_t program)
{
    pthread_mutex_lock(&c->lock);
    coordinator_forget(c->c, program);
    control_look(c);
    pthread_mutex_unlock(&c->lock);
}
