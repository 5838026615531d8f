/* simulated.h - simulates a complete cluster in one thread, driven by a seed. For t/cluster/sim.c and bench/sim.c.
 *
 * Packets travel as bytes, in one queue per worker and direction. The seed decides which queue delivers next, when
 * an executor runs its next job, and when the clock ticks. It also decides the faults: packets are lost or duplicated;
 * connections end, and new ones follow; connections carry nothing although both ends believe that they are up; workers
 * crash, fall silent or hang; a coordinator is killed, and its workers end or join the next coordinator.
 *
 * The simulated program is a training loop. Every run changes one number per worker, and a snapshot follows every
 * second run. After a loss the program recovers, with the same number of workers or fewer. Workers save snapshots to
 * disk while runs continue. When the program goes back to a snapshot, workers load it in some cases. The simulated
 * user interrupts some saves and loads. In some trials a run needs a communicator, which its workers create before
 * the run begins.
 *
 * Workers are on one to three hosts. The ranks' numbers are in memory segments. The coordinator makes the segment of
 * its own host. A worker makes the segment of another host, and the other workers there map it. When no worker
 * maps that segment any more, the next worker makes a fresh one. A worker that was cut off still writes into the old
 * segment. A hung worker sends heartbeats and receives packets, but completes no work.
 *
 * An elastic job starts no worker for a lost one. Newcomers arrive on any host. If a host has no workers, its devices
 * move to another host, and the program goes back to the snapshot.
 *
 * The test checks three facts: every trial ends; the numbers equal those of a run without faults; and no worker that
 * progresses is lost as a hung one. */
#ifndef RILLE_T_SIMULATED_H
#define RILLE_T_SIMULATED_H

#include "t/lib/plan/simulated_kept.h"
#include "actors/cluster/coordinator/coordinator_admit.h"
#include "actors/cluster/coordinator/coordinator_run.h"
#include "actors/cluster/coordinator/coordinator_epoch.h"

/* ---- the worker's side ---- */

static void
worker_send(void *arg, const struct packet *p)
{
    struct sim_worker *w = arg;
    if (w->alive && !w->broken && !w->mute_up && !queue_put(&w->up, p)) wrong(w->of, "a queue grows without end");
}

static void
worker_work(void *arg, const struct work *work)
{
    struct sim_worker *w = arg;
    struct cluster *s = w->of;
    const struct packet *p = work->packet;
    if (work->kind == WORK_STOP) {
        w->stop = p->run;
        if (p->flags == STOP_LOST) w->over = p->epoch;
    } else if (work->kind == WORK_ASK) {
        const struct str none = {0};
        member_report(w->member, (w->njob || w->nfile) && !w->waits, w->waits ? (int32_t)w->slot[0].owner : -1, &none);
    } else if (work->kind == WORK_CONNECT) {
        w->reconnects = true;
    } else if (work->kind == WORK_UNITE) {
        w->reported_run = p->run;
        memcpy(&w->told_id, p->bytes.bytes, sizeof w->told_id);
    } else if (work->kind == WORK_FILE && w->nfile < QUEUE) {
        struct file_job *j = &w->file[w->nfile++];
        *j = (struct file_job){.epoch = work->epoch, .count = p->count, .loads = p->kind == PACKET_LOAD};
        memcpy(j->part, p->places.bytes, sizeof j->part);
    } else if (work->kind == WORK_CANCEL) {
        for (int i = 0; i < w->nfile; i++) w->file[i].cancelled |= w->file[i].count == p->count;
    } else if (work->kind == WORK_FORM && work->packet->slots.n > sizeof w->slot) {
        wrong(s, "too many slots");
    } else if (work->kind == WORK_MAKE && work->packet->lost.n > sizeof w->job->lost) {
        wrong(s, "too many lost workers");
    } else if (work->kind == WORK_LEAVE) {
        w->left = true;
        w->status = work->status;
    } else if (w->njob < QUEUE) {
        struct job *j = &w->job[w->njob++];
        *j = (struct job){.kind = work->kind, .epoch = work->epoch, .program = work->program, .memory = -1};
        if (work->kind == WORK_START) j->run = work->packet->run, j->anew = work->packet->anew;
        if (work->kind == WORK_MAKE) j->flags = work->packet->flags;
        if (work->kind == WORK_MAKE) memcpy(j->lost, work->packet->lost.bytes, work->packet->lost.n);
        if (work->kind == WORK_MAKE) j->nlost = (int)(work->packet->lost.n / 4);
        if (work->kind == WORK_FORM) check_isa(w->of, w, work->packet->isa);
        if (work->kind == WORK_FORM) w->bus = -1;
        if (work->kind == WORK_FORM) j->bus = (int)work->packet->threads;
        if (work->kind == WORK_FORM) memcpy(j->slot, work->packet->slots.bytes, work->packet->slots.n);
        if (work->kind == WORK_FORM && work->packet->segment.n == 2 && work->packet->bus.n > 0)
            j->memory = memory_of((const char *)work->packet->segment.bytes), j->made = work->packet->made;
    } else {
        wrong(s, "work without end");
    }
}

static _Atomic uint64_t *
worker_word(void *arg, int rank, enum beat_word which)
{
    struct sim_worker *w = arg;
    if (w->bus < 0 || rank < 0 || rank >= w->of->world) return NULL;
    bool last = w->bus == w->of->nbus - 1; /* false if the worker has not mapped the bus of the last epoch yet */
    if (last && w->of->host[w->bus % EPOCHS][rank] != w->host) wrong(w->of, "a heartbeat is left on another host");
    return &w->of->word[w->bus % EPOCHS][rank][which];
}

/* Starts a worker process on a host. The worker asks for the rank; -1: any rank. */
static struct sim_worker *
worker_start(struct cluster *s, int rank, int host, const unsigned char secret[CLUSTER_ID])
{
    struct sim_worker *w = new_worker(s);
    if (!w) return NULL;
    struct member_env env = {w, worker_send, worker_work, worker_word};
    struct member_options o = {.hello = {.kind = PACKET_HELLO,
                                         .protocol = WIRE_VERSION,
                                         .version = span_text("1"),
                                         .host = span_text("h"),
                                         .machine = span_text(machine_of(host)),
                                         .devices = span_text("cpu:1"),
                                         .name = span_text("sim"),
                                         .kernels = span_text("1"),
                                         .isa = isa_of(s, s->nstart - 1),
                                         .pid = (uint32_t)w->pid,
                                         .rank = rank,
                                         .link = {w->link, CLUSTER_ID},
                                         .secret = {w->secret, CLUSTER_ID}},
                               .silence = 60};
    memcpy(w->link, &s->nstart, sizeof s->nstart);
    memcpy(w->secret, secret, CLUSTER_ID);
    w->life = s->life;
    w->alive = true;
    w->rank = rank;
    w->host = host;
    w->memory = w->bus = -1;
    w->member = member_new(&o, &env);
    member_linked(w->member);
    return w;
}

/* Starts a worker with the rank's secret, as the coordinator does. */
static void
start_for(struct cluster *s, int rank)
{
    memcpy(s->secret[rank], &s->nstart, sizeof s->nstart);
    s->secret[rank][CLUSTER_ID - 1] = 1;
    const struct sim_worker *w = worker_start(s, rank, rank % s->trial.hosts, s->secret[rank]);
    s->started[rank] = w ? w->index : -1;
}

/* Prepares the communicator of a run. The owner of slot 0 makes an id and sends it to the other workers, which
 * wait for the id. Returns false if the id has not arrived yet. Checks that all workers of a run use the same id. */
static bool
worker_unites(struct cluster *s, struct sim_worker *w, const struct job *j)
{
    static const uint32_t memory[WORLD] = {0, 1, 2, 3, 4};
    unsigned char id[COMMUNICATOR_ID] = {0};
    bool leads = w->slot[0].owner == (uint32_t)member_rank(w->member);
    if (!s->trial.unites || w->stop == j->run) return true;
    if (w->anew != j->anew) w->id = 0;
    w->anew = j->anew;
    if (!w->id && leads) {
        w->id = ++s->nid;
        memcpy(id, &w->id, sizeof w->id);
        const struct unite u = {j->run, 1, memory, coordinator_memories(s->c), id};
        member_unite(w->member, j->epoch, &u);
        s->united++;
    } else if (!w->id) {
        if (w->reported_run != j->run) return false;
        w->id = w->told_id;
    }
    /* a run of another coordinator may have the same number, because each coordinator counts its runs from 1 */
    if (w->life != s->life) return true;
    if (s->united_run == j->run && s->run_id != w->id) wrong(s, "ranks of one run have two communicators");
    s->united_run = j->run;
    s->run_id = w->id;
    return true;
}

/* Runs the executor's oldest job. */
static void
worker_execute(struct cluster *s, struct sim_worker *w)
{
    static const unsigned char digest[CLUSTER_ID] = "plan";
    struct job j = w->job[0];
    w->waits = j.kind == WORK_START && !worker_unites(s, w, &j);
    if (w->waits) return;
    memmove(w->job, w->job + 1, sizeof j * (size_t)--w->njob);
    uint32_t rank = (uint32_t)member_rank(w->member);
    struct have have = {.program = j.program, .text = "", .digest = digest, .outline = digest};
    struct made made = {.text = "", .port = "port"};
    char name[3] = "";
    for (int i = 0; i < j.nlost; i++) kill_pid(s, j.lost[i]);
    if (j.kind == WORK_MAKE && j.flags & MAKE_MEMORY) {
        if (j.flags & MAKE_FRESH) w->memory = make_memory(s), w->made = j.epoch;
        if (w->memory < 0) wrong(s, "a worker is to keep a memory that it has not");
        name_memory(w->memory, name);
        made.segment = made.bus = name;
    }
    if (j.kind == WORK_MAKE) member_made(w->member, j.epoch, &made);
    if (j.kind == WORK_FORM && j.memory < 0) wrong(s, "a FORM packet names no memory");
    if (j.kind == WORK_FORM) map_memory(s, w, &j);
    if (j.kind == WORK_FORM) memcpy(w->slot, j.slot, sizeof w->slot);
    if (j.kind == WORK_FORM) w->bus = j.bus, w->id = 0;
    if (j.kind == WORK_FORM) member_ready(w->member, j.epoch, 0, "");
    if (j.kind == WORK_PROGRAM) member_have(w->member, j.epoch, &have);
    if (j.kind != WORK_START) return;
    bool stop = w->stop == j.run, fails = !stop && s->trial.may_fail && pick(s, 40) == 0;
    uint64_t *value = s->memory[w->memory];
    for (int i = 0; i < s->world && !stop && !fails; i++)
        if (w->slot[i].owner == rank) value[i] = after_step(value[i], s->step, i);
    if (fails) s->failing = true;
    struct run_end e = {.epoch = j.epoch,
                        .run = j.run,
                        .status = fails  ? E_KERNEL
                                  : stop ? E_CANCEL
                                         : 0,
                        .node = -1,
                        .text = fails ? "made to fail" : "",
                        .times = digest,
                        .ntime = pick(s, 2) ? sizeof digest : 0};
    member_ended(w->member, &e);
}

/* Runs the oldest job of the file thread, independently of the executor. Loads nothing for an ended epoch. */
static void
worker_file(struct cluster *s, struct sim_worker *w)
{
    struct file_job j = w->file[0];
    struct str digests = {0};
    memmove(w->file, w->file + 1, sizeof j * (size_t)--w->nfile);
    bool over = (int32_t)(w->over - j.epoch) >= 0;
    if (j.loads && !over && !j.cancelled) s->memory[w->memory][j.part[0]] = j.part[1];
    str_addn(&digests, j.part, sizeof j.part);
    member_filed(w->member, j.epoch, j.count, over ? E_LOST : j.cancelled ? E_CANCEL : 0, "", &digests);
    str_free(&digests);
}

/* ---- the controller's side ---- */

static void
on_send(void *arg, int peer, const struct packet *p)
{
    struct cluster *s = arg;
    struct sim_worker *w = worker_of(s, peer);
    bool present = id_of(s, peer).pid == w->pid &&
                   id_of(s, peer).connection == w->connection; /* peer is the worker's current connection */
    if (present && !w->broken && !w->mute_down && w->alive && !w->cut && !queue_put(&w->down, p))
        wrong(s, "a queue grows without end");
}

static void
on_cut(void *arg, int peer)
{
    struct cluster *s = arg;
    struct sim_worker *w = worker_of(s, peer);
    peers_release(&s->peers, peer);
    if (id_of(s, peer).pid != w->pid || is_replaced(s, peer)) return;
    /* The controller kills a lost worker of its own host before it continues. A lost worker of the other host is
     * killed by the workers that map the same segment; `others` is true if such workers exist. */
    bool others = false;
    for (int i = 0; i < s->nworker; i++)
        others |= i != w->index && s->worker[i].alive && !s->worker[i].cut && s->worker[i].memory >= 0 &&
                  s->worker[i].host == w->host;
    if (w->host > 0 && w->memory >= 0 && others) {
        w->cut = true;
        queue_clear(&w->down);
    } else {
        worker_kill(w);
    }
}

/* Handles a reply about a file. Drops replies to earlier requests, as the controller does. */
static void
take_filed(struct cluster *s, const struct notice *n)
{
    uint64_t i = n->packet->count - s->filing.first;
    if (!s->filing.on || i >= (uint64_t)s->world) return;
    if (n->rank != s->filing.owner[i] || s->filing.done[i]) wrong(s, "a file is another one's");
    bool given_up = s->filing.cancelled && n->packet->status == E_CANCEL;
    if (n->packet->status && !given_up) wrong(s, "a file of this epoch is refused");
    if (memcmp(n->packet->digests.bytes, s->filing.part[i], sizeof s->filing.part[i])) wrong(s, "another file");
    s->filing.done[i] = true;
    s->filing.torn |= given_up;
    for (int r = 0; r < s->world; r++)
        if (!s->filing.done[r]) return;
    s->filing.on = false;
    s->filed += !s->filing.torn;
    s->given_up += s->filing.torn;
    if (s->filing.loads && !s->filing.torn) s->step = s->saved_step, s->restore = s->failing = false;
}

/* Asks the owner of each rank's slot to save the rank's number, or to load the saved one. */
static void
begin_files(struct cluster *s, bool loads)
{
    memset(&s->filing, 0, sizeof s->filing);
    s->filing.first = s->nfile + 1;
    s->filing.loads = loads;
    s->slow_disk = pick(s, 4) == 0;
    s->filing.on = true;
    for (int r = 0; r < s->world; r++) {
        uint64_t *part = s->filing.part[r];
        part[0] = (uint64_t)r;
        part[1] = s->saved[r];
        s->filing.owner[r] = (int)coordinator_slot(s->c, r);
        const struct packet p = {.kind = loads ? PACKET_LOAD : PACKET_SAVE,
                                 .count = ++s->nfile,
                                 .places = {(const void *)part, sizeof s->filing.part[r]}};
        if (!coordinator_file(s->c, s->filing.owner[r], &p)) wrong(s, "a file is rejected in a formed epoch");
    }
}

/* Cancels the saves and loads under way, as the controller does after an interrupt. A partly loaded file is loaded
 * again. */
static void
cancel_files(struct cluster *s)
{
    s->filing.cancelled = true;
    for (int r = 0; r < s->world; r++) {
        const struct packet p = {.kind = PACKET_CANCEL, .count = s->filing.first + (uint64_t)r};
        if (!s->filing.done[r]) coordinator_file(s->c, s->filing.owner[r], &p);
    }
}

static void
on_tell(void *arg, const struct notice *n)
{
    struct cluster *s = arg;
    if (n->kind == NOTICE_FILED) take_filed(s, n);
    if (n->kind == NOTICE_HANG && n->rank >= 0) {
        s->hung++;
        s->hung_in[coordinator_phase(s->c)]++;
        if (!worker_of(s, coordinator_member(s->c, n->rank)->peer)->hung) wrong(s, "a worker is lost that progresses");
    }
    if (n->kind == NOTICE_FORMED) {
        s->formed = true;
        s->grows = false;
        s->elsewhere += count_ready(s) < s->trial.least;
        for (int r = 0; r < s->world; r++) {
            int peer = coordinator_member(s->c, r)->peer;
            s->taken += peer >= 0 && worker_of(s, peer)->kept;
        }
    }
    if (n->kind == NOTICE_LOST) {
        if (strstr(n->text, "unexpected")) wrong(s, "an answer of a worker is not expected");
        s->lost++;
        note_loss(s);
        s->interrupted += s->grows;
        s->grows = false;
        s->filing.on = false;
        s->running = s->formed = s->keeping.on = false;
    }
    if (n->kind != NOTICE_ENDED) return;
    if (!s->running) wrong(s, "a run ended that did not run");
    s->running = false;
    if (n->status && !s->failing) wrong(s, "a run failed without an injected fault");
    if (n->status && strcmp(n->text, "made to fail")) wrong(s, "the reported failure is not the first");
    if (n->status) {
        s->restore = true; /* numbers are undefined after a failed run, so the program goes back to the snapshot */
        return;
    }
    s->step++;
    if (s->step % 2) return;
    s->saved_step = s->step;
    read_values(s, s->saved);
    if (s->trial.ticks) check_saved(s);
    kept_begin(s);
}

/* Starts a worker that an elastic job did not ask for. Starts none if enough workers of its host wait for any rank, or
 * if as many workers wait as the coordinator lets wait; but the coordinator's host may need one. */
static void
start_newcomer(struct cluster *s)
{
    static const unsigned char none[CLUSTER_ID];
    int nwaiting = 0, nhere = 0, host = any_host(s);
    for (int i = 0; i < s->nworker; i++) {
        const struct sim_worker *w = &s->worker[i];
        bool waits = w->alive && w->rank < 0 && member_rank(w->member) < 0;
        nwaiting += waits;
        nhere += waits && w->host == host;
    }
    if (s->ticks - s->newcomer < 3) return; /* the coordinator notices only after a while that a waiting worker ended */
    s->newcomer = s->ticks;
    if (nhere < MAX(2, s->trial.least) && (nwaiting < s->world || (!host && !nhere)) && has_room(s, 1))
        worker_start(s, -1, host, none);
}

/* Starts a worker for every absent rank. */
static void
start_absent(struct cluster *s)
{
    s->takes_over = false;
    if (s->trial.least) return;
    for (int r = 0; r < s->world; r++)
        if (coordinator_member(s->c, r)->state == MEMBER_ABSENT && !on_its_way(s, r)) start_for(s, r);
}

/* Recovers as the session does: with all ranks, or sometimes without the lost ones. */
static void
recover(struct cluster *s)
{
    int alive = 0, lost = 0;
    s->ended = exceeds_losses(s);
    for (int r = 0; r < s->world; r++) {
        enum member_state state = coordinator_member(s->c, r)->state;
        alive += state >= MEMBER_PRESENT && state <= MEMBER_BUSY;
        lost += state == MEMBER_LOST || state == MEMBER_ABSENT || (state == MEMBER_RETIRED && s->trial.least);
    }
    bool fewer = s->trial.fewer && alive > 0 && coordinator_memories(s->c) && pick(s, 2);
    int workers = fewer ? alive : alive + lost;
    if (!has_room(s, lost)) workers = MAX(alive, 1);
    while (coordinator_recover(s->c, workers)) /* at least one worker per memory segment is needed */
        if (++workers > alive + lost) {
            wrong(s, "recovery is refused");
            return;
        }
    s->restore = true;
    start_absent(s);
}

static void
program_turn(struct cluster *s)
{
    static const char program[] = "program";
    static const struct places places[WORLD];
    enum coordinator_phase phase = coordinator_phase(s->c);
    if (s->filing.on && !s->filing.cancelled && pick(s, 30) == 0) cancel_files(s);
    if (s->trial.least && pick(s, phase == CLUSTER_GATHER ? 10 : 60) == 0) start_newcomer(s);
    if (phase == CLUSTER_BROKEN) {
        recover(s);
    } else if (phase == CLUSTER_GATHER && all_here(s)) {
        begin_epoch(s);
    } else if (s->takes_over && pick(s, 20) == 0) {
        start_absent(s);
    } else if (phase == CLUSTER_IDLE && s->formed && !s->running && (s->trial.ticks || s->step < RUNS)) {
        if (s->filing.on && s->filing.loads) return;
        if (kept_turn(s)) return;
        bool few = count_ready(s) < s->trial.least; /* waiting workers must be admitted before the next step */
        if (few && !coordinator_can_grow(s->c)) wrong(s, "too few workers, and none is awaited");
        if (few && s->filing.on) return;
        if (!s->filing.on && coordinator_can_grow(s->c) && (few || pick(s, 2))) {
            s->grown++;
            s->grows = true;
            s->formed = false;
            if (coordinator_recover(s->c, s->world)) wrong(s, "an elastic job does not grow");
            return;
        }
        if (s->trial.files && !s->filing.on && pick(s, 2)) {
            begin_files(s, s->restore);
            if (s->restore) return;
        }
        if (s->restore) {
            for (int r = 0; r < s->world; r++) *value_of(s, r) = s->saved[r];
            s->step = s->saved_step;
        }
        s->restore = s->failing = false;
        s->running = true;
        s->fewest = s->fewest ? MIN(s->fewest, count_ready(s)) : count_ready(s);
        s->most = MAX(s->most, count_ready(s));
        struct start start = {.program = 7 + (uint64_t)(s->step % 2),
                              .bytes = program,
                              .nbyte = sizeof program,
                              .digest = "plan",
                              .outline = "plan",
                              .places = places,
                              .run = ++s->run};
        coordinator_start(s->c, &start);
    }
}

/* ---- faults ---- */

static bool
fault(struct cluster *s, uint64_t one_in)
{
    if (s->faults == 0 || pick(s, one_in)) return false;
    s->faults--;
    return true;
}

static void
deliver(struct cluster *s, struct sim_worker *w, struct queue *q)
{
    int connection = w->connection - (q == &w->stale);
    struct packet p;
    struct str *item = &q->item[q->head];
    q->head = (q->head + 1) % QUEUE;
    q->n--;
    if (fault(s, 300)) return;
    int times = fault(s, 300) ? 2 : 1;
    for (int i = 0; i < times && w->alive; i++) {
        if (packet_read(item->text, item->len, &p)) wrong(s, "a packet cannot be read");
        if (q == &w->down) {
            member_receive(w->member, &p);
            continue;
        }
        int peer = peer_of(s, w, connection);
        coordinator_receive(s->c, peer, &p);
        if (!coordinator_uses(s->c, peer)) peers_release(&s->peers, peer);
    }
}

/* Ends a worker's connection. Of the packets on their way, the oldest still arrive (a random number of them). */
static void
break_connection(struct cluster *s, struct sim_worker *w)
{
    struct queue stale = w->stale;
    w->stale = w->up;
    w->up = stale;
    queue_clear(&w->up);
    w->stale.n = (int)pick(s, (uint64_t)w->stale.n + 1);
    w->down.n = (int)pick(s, (uint64_t)w->down.n + 1);
    w->broken = true;
    w->lasts = !s->trial.only_flaps && pick(s, 8) == 0;
    w->connection++;
    member_down(w->member);
}

/* Makes a member's connection carry nothing more in one direction or in both. Without mutes_again, the next connection
 * of this worker works for at least 2 * LINK_TICKS. If it carried nothing, too, the worker might be lost. */
static void
mute_connection(struct cluster *s, struct sim_worker *w)
{
    uint64_t how = 1 + pick(s, 3);
    w->mute_up |= how & 1;
    w->mute_down |= how & 2;
    w->muted = s->ticks;
    s->muted++;
}

/* Connects a worker again: to its coordinator, or to the next one, which does not know the worker. The worker first
 * handles the packets that it received over the former connection, as worker.c does. */
static void
connect_again(struct cluster *s, struct sim_worker *w)
{
    bool again = s->trial.mutes_again && (w->mute_up || w->mute_down) && s->flaps > 0 && pick(s, 2);
    while (w->down.n) deliver(s, w, &w->down);
    w->broken = w->lasts = w->mute_up = w->mute_down = w->reconnects = false;
    s->resumed++;
    member_linked(w->member);
    if (!again || !w->alive) return;
    s->flaps--;
    s->muted_again++;
    mute_connection(s, w);
}

/* Reports the end of a process to the coordinator, as the operating system does. The coordinator must know the rank
 * of the process. */
static void
gone(struct cluster *s, struct sim_worker *w, const char *how)
{
    int rank = w->rank >= 0 ? w->rank : member_rank(w->member);
    if (rank < 0 || w->life != s->life) return;
    const struct member_info *m = coordinator_member(s->c, rank);
    if ((m->peer >= 0 && worker_of(s, m->peer) == w) || (m->state == MEMBER_ABSENT && s->started[rank] == w->index))
        coordinator_gone(s->c, rank, how);
}

/* Starts a new coordinator. Packets on their way to the old coordinator are lost. */
static void
coordinator_begin(struct cluster *s)
{
    struct coordinator_env env = {s, on_send, on_cut, on_tell};
    struct coordinator_options o = {.world = s->world,
                                    .least = s->trial.least,
                                    .silence = SILENCE,
                                    .hang = STILL,
                                    .direct = s->trial.speaks ? 1 : WORLD,
                                    .version = "1",
                                    .machine = "m",
                                    .name = "sim",
                                    .kernels = "1",
                                    .isa = 0x67,
                                    .beat = "beat",
                                    .bulk = "bulk",
                                    .job = "a job of the sim",
                                    .secret = (const unsigned char(*)[CLUSTER_ID])s->secret};
    coordinator_free(&s->c);
    peers_free(&s->peers);
    o.job[0] = (unsigned char)s->life++;
    memset(s->secret, 0, sizeof s->secret);
    for (int r = 0; r < WORLD; r++) s->started[r] = -1;
    for (int i = 0; i < s->nworker; i++) {
        queue_clear(&s->worker[i].up);
        queue_clear(&s->worker[i].stale);
    }
    s->c = coordinator_new(&o, &env);
    s->own = make_memory(s);
    s->run = s->united_run = 0;
    s->restore = true; /* the program begins with the numbers of the checkpoint, or with the initial numbers */
    s->formed = s->grows = s->running = s->failing = s->filing.on = s->keeping.on = s->keeping.looked = false;
    s->takes_over = s->life > 1;
    s->table = 0;
    s->losses = (struct loss_times){0};
    s->nloss = 0;
}

static void
misfortune(struct cluster *s)
{
    if (s->trial.restarts && has_room(s, 2 * s->world) && fault(s, 1000)) {
        coordinator_begin(s);
        return;
    }
    struct sim_worker *w = &s->worker[pick(s, (uint64_t)s->nworker)];
    if (s->flaps > 0 && w->alive && !w->cut && !w->broken && pick(s, s->trial.only_flaps ? 60 : 400) == 0) {
        s->flaps--;
        bool may = s->trial.mutes && member_rank(w->member) >= 0 && (!w->muted || s->ticks - w->muted > 2 * LINK_TICKS);
        if (may && pick(s, 2))
            mute_connection(s, w);
        else
            break_connection(s, w);
        return;
    }
    if (s->trial.least && w->alive && member_rank(w->member) < 0 && fault(s, 400)) {
        worker_kill(w); /* a worker that waits; the coordinator does not notice its end */
        return;
    }
    if (!w->alive || w->cut || member_rank(w->member) < 0)
        return; /* spares a worker without a rank: only the code that starts workers notices its end */
    if (fault(s, 4000)) {
        worker_kill(w);
        int peer = peer_of(s, w, w->connection);
        coordinator_cut(s->c, peer, "was killed");
        peers_release(&s->peers, peer);
        gone(s, w, "was killed by signal 9");
    } else if (fault(s, 4000)) {
        w->silent = true;
    } else if (fault(s, 4000)) { /* kills the worker as on another host: the coordinator notices only its silence */
        worker_kill(w);
        if (pick(s, 2) && has_room(s, 1)) worker_start(s, member_rank(w->member), w->host, w->secret);
    } else if (s->trial.hangs && fault(s, 4000)) {
        w->hung = true;
    }
}

static void
tick(struct cluster *s)
{
    struct packet p;
    s->ticks++;
    for (int i = 0; i < s->nworker; i++) {
        struct sim_worker *w = &s->worker[i];
        if (!w->alive || w->silent || w->cut) continue;
        if (w->broken && s->trial.only_flaps) connect_again(s, w);
        if (w->lasts) {
            member_tick(w->member);
            continue;
        }
        w->done += (w->njob || w->nfile) && !w->hung && !w->waits;
        member_progress(w->member, w->done, -1);
        if (member_beat(w->member, &p) && coordinator_beat(s->c, &p) && coordinator_pulse(s->c, p.rank, &p))
            member_heard(w->member, &p);
        member_tick(w->member);
    }
    coordinator_tick(s->c);
}

/* Ends a worker whose coordinator was killed. If the trial permits, starts the worker again for the next
 * coordinator. */
static void
worker_end(struct cluster *s, struct sim_worker *w)
{
    int rank = MAX(w->rank, member_rank(w->member));
    bool orphan = w->status == LEAVE_ORPHAN, again = orphan && (s->trial.keep || member_rank(w->member) < 0);
    worker_kill(w);
    if (!s->trial.keep || !orphan) gone(s, w, "ended");
    if (!again || !has_room(s, 1)) return;
    struct sim_worker *next = worker_start(s, rank, w->host, w->secret);
    next->kept = w->life != s->life;
    kept_pass_on(s, w, next->keeps);
}

static void
worker_turn(struct cluster *s)
{
    struct sim_worker *w = &s->worker[pick(s, (uint64_t)s->nworker)];
    if (w->left && w->alive) worker_end(s, w);
    if (!w->alive) return;
    if (w->cut) { /* a worker that was cut off still runs its jobs, after it wakes up */
        queue_clear(&w->up);
        queue_clear(&w->stale);
        if (w->njob && pick(s, 60) == 0) worker_execute(s, w);
        if (w->nfile && pick(s, 60) == 0) worker_file(s, w);
        if (s->trial.ticks && pick(s, 4000) == 0) worker_kill(w);
        return;
    }
    if (w->life != s->life && !w->silent && pick(s, 8) == 0) {
        if (s->trial.flaps && !w->broken && pick(s, 2))
            break_connection(s, w);
        else
            member_cut(w->member, "the connection ended");
    }
    if (w->reconnects && !w->broken) break_connection(s, w);
    if (w->broken && !w->silent && pick(s, w->lasts ? 2000 : 8) == 0) connect_again(s, w);
    if (w->stale.n && pick(s, 4) == 0) deliver(s, w, &w->stale);
    if (!w->alive) return;
    bool slow = s->slow_disk && !w->file[0].cancelled; /* a cancelled file does not wait for the disk */
    if (w->nfile && !w->silent && !w->hung && pick(s, slow ? 300 : 8) == 0) worker_file(s, w);
    int what = (int)pick(s, 3);
    if (what == 0 && w->up.n) deliver(s, w, &w->up);
    if (what == 1 && w->down.n && !w->silent) deliver(s, w, &w->down);
    if (what == 2 && w->njob && !w->silent && !w->hung) worker_execute(s, w);
}

/* ---- trials ---- */

static void
sim_begin(struct cluster *s, uint64_t seed, struct trial trial)
{
    static const unsigned char none[CLUSTER_ID];
    s->trial = trial;
    s->random = seed;
    s->world = trial.world;
    s->faults = trial.faults;
    s->flaps = trial.flaps;
    coordinator_begin(s);
    /* asks for a particular rank if there are several hosts, because any other rank may belong to the other host */
    bool named = (trial.hosts > 1 && !trial.least) || pick(s, 2);
    for (int r = 0; r < s->world; r++)
        worker_start(s, named ? r : -1, trial.least ? any_host(s) : r % trial.hosts, none);
    for (int i = 0; i < MIN(trial.spares, trial.world); i++) worker_start(s, -1, any_host(s), none);
}

/* Returns true if the clock may tick now. If many workers have ended, the clock ticks less often, so that each
 * living worker runs as often between two ticks as before. */
static bool
may_tick(struct cluster *s)
{
    int usual = 4 * s->world;
    return s->nworker <= usual || pick(s, (uint64_t)s->nworker) < (uint64_t)usual;
}

static void
sim_step(struct cluster *s)
{
    uint64_t what = pick(s, 64);
    if (what == 0 && may_tick(s))
        tick(s);
    else if (what < 8)
        program_turn(s);
    else
        worker_turn(s);
    misfortune(s);
}

static void
sim_end(struct cluster *s)
{
    coordinator_free(&s->c);
    peers_free(&s->peers);
    for (int i = 0; i < s->nworker; i++) {
        member_free(&s->worker[i].member);
        queue_free(&s->worker[i].up);
        queue_free(&s->worker[i].stale);
        queue_free(&s->worker[i].down);
    }
    free(s);
}

static bool
play(uint64_t seed, struct trial trial, uint64_t want[WORLD], struct outcome *out)
{
    struct cluster *s = must_alloc(sizeof *s);
    sim_begin(s, seed, trial);
    int k = 0;
    for (; k < STEPS && s->step < RUNS && !s->wrong && !s->ended; sim_step(s))
        if (++k == trial.hangs_at) s->worker[trial.hanging].hung = true;
    if (s->step < RUNS && !s->ended) wrong(s, "it does not end");
    bool fits = !s->wrong && (!want[0] || s->ended || !memcmp(want, s->saved, sizeof s->saved));
    if (!s->wrong && !fits) s->why = "the numbers are others than without faults";
    if (!want[0]) memcpy(want, s->saved, sizeof s->saved);
    *out = (struct outcome){.lost = s->lost,
                            .restarts = s->life - 1,
                            .taken = s->taken,
                            .found = s->found,
                            .filed = s->filed,
                            .given_up = s->given_up,
                            .united = s->united,
                            .resumed = s->resumed,
                            .muted = s->muted,
                            .muted_again = s->muted_again,
                            .grown = s->grown,
                            .interrupted = s->interrupted,
                            .moved = s->moved,
                            .deserted = s->deserted,
                            .ended = s->ended,
                            .elsewhere = s->elsewhere,
                            .fewest = s->fewest,
                            .most = s->most,
                            .hung = s->hung,
                            .steps = k,
                            .ticks = s->ticks,
                            .why = s->why};
    memcpy(out->hung_in, s->hung_in, sizeof out->hung_in);
    sim_end(s);
    return fits;
}

#endif
