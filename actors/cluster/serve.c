/* serve.c - a worker process: its link, its memory, its plans, and runs.
 *
 * Two threads take what comes, under one lock. The main thread does the work, and takes packets itself while it has
 * none to do, so that a run begins without a change of threads. The link's thread keeps the heartbeats; while the main
 * thread is at work it takes the packets: STOP goes to the engine at once, everything else waits in a queue. When the
 * worker must leave and the main thread does not come back - a kernel runs on - the link's thread ends the process.
 *
 * Nothing that comes is trusted: programs are read strictly and proved, addresses must lie in the segment whole. */
#include "actors/cluster/serve.h"

#include "actors/act/actor.h"
#include "actors/cluster/bus_host.h"
#include "actors/cluster/link.h"
#include "actors/cluster/machine.h"
#include "actors/cluster/member.h"
#include "actors/cluster/plan_digest.h"
#include "actors/cluster/segment.h"
#include "kernels/kernel.h"
#include "runtime/clock.h"
#include "runtime/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 100, SILENCE_TICKS = 45, LEAVE_MS = 1500, PLANS = 1 << 16 };

struct order { /* a piece of work that waits for the main thread */
    struct order *next;
    struct work work;
    struct packet packet;
    unsigned char *copy; /* of the bytes that the packet or the work names */
};

struct job { /* a program and its plan */
    uint64_t id;
    struct plan *plan;
    struct actors *actors;
    struct run run;
    struct arena arena;
};

struct server {
    struct serve_options options;
    struct link *link;
    struct worker_member *member;
    struct str packet, machine, devices;
    char host[64];
    pthread_mutex_t lock; /* guards what is above and here, but for what is the main thread's */
    pthread_t thread;
    int wake_fd;
    bool busy, quit; /* the main thread is at work; the link's thread is to end */
    struct order *first, **last;
    int status; /* how it leaves */
    bool leaving;
    int64_t leave_ns, tick_ns;
    char text[WIRE_TEXT];
    struct engine *engine; /* of the epoch; STOP interrupts it */
    struct bus *bus_end;
    uint32_t stop, running; /* the run that is to stop; the one in progress, 0: none */
    uint32_t stop_why;
    /* The main thread's own. */
    struct segment *segment, *bus;
    struct atlas *atlas;
    struct plan_map map;
    uint32_t *route;
    _Atomic uint64_t **doing;
    int nslot, nlocal;
    struct job **job;
    int njob, job_capacity;
};

static void
wake(struct server *s)
{
    uint64_t one = 1;
    if (write(s->wake_fd, &one, sizeof one) < 0) return; /* it is awake already */
}

/* ---- what the member wants ---- */

static void
on_send(void *arg, const struct packet *p)
{
    struct server *s = arg;
    str_clear(&s->packet);
    packet_write(p, &s->packet);
    if (link_send(s->link, LINK_CONTROL, 0, s->packet.text, s->packet.len)) err_clear(); /* its silence tells */
}

/* An engine that is about to begin takes an interrupt for an old one; so it is said again with every tick. */
static void
stop_engine(struct server *s)
{
    if (!s->engine || !s->running || (s->stop != s->running && !s->leaving)) return;
    if (s->leaving || s->stop_why == STOP_FAILED)
        engine_abort(s->engine);
    else
        engine_interrupt(s->engine);
    bus_host_nudge(s->bus_end);
}

static void
leave(struct server *s, int status, const char *text)
{
    if (s->leaving) return;
    s->leaving = true;
    s->status = status;
    s->leave_ns = now_ns() + LEAVE_MS * 1000000ll;
    snprintf(s->text, sizeof s->text, "%s", text ? text : "");
    stop_engine(s);
    wake(s);
}

static void
stop(struct server *s, const struct packet *p)
{
    s->stop_why = s->stop == p->run ? MAX(s->stop_why, p->flags) : p->flags;
    s->stop = p->run;
    stop_engine(s);
}

/* The spans of a packet lie in the link's buffer: a copy of all that they name goes with the order. */
static void
keep_spans(struct order *o)
{
    struct packet *p = &o->packet;
    struct span *span[] = {&p->text,   &p->job,   &p->segment, &p->beat,   &p->bus,
                           &p->ranges, &p->slots, &p->places,  &p->numbers};
    size_t n = 0, at = 0;
    for (size_t i = 0; i < countof(span); i++) n += (span[i]->n + 7u) & ~7u;
    if (o->work.bytes) n += o->work.n;
    o->copy = must_alloc(n + 1);
    for (size_t i = 0; i < countof(span); i++) {
        if (span[i]->n) memcpy(o->copy + at, span[i]->bytes, span[i]->n);
        span[i]->bytes = o->copy + at;
        at += (span[i]->n + 7u) & ~7u;
    }
    if (!o->work.bytes) return;
    memcpy(o->copy + at, o->work.bytes, o->work.n);
    o->work.bytes = o->copy + at;
}

static void
on_work(void *arg, const struct work *w)
{
    struct server *s = arg;
    if (w->kind == WORK_LEAVE) {
        leave(s, w->status, w->text);
        return;
    }
    if (w->kind == WORK_STOP) {
        stop(s, w->packet);
        return;
    }
    struct order *o = must_alloc(sizeof *o);
    o->work = *w;
    if (w->packet) o->packet = *w->packet;
    o->work.packet = &o->packet;
    keep_spans(o);
    *s->last = o;
    s->last = &o->next;
    wake(s);
}

/* ---- what comes ---- */

static void
take_control(struct server *s)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (!s->leaving && link_receive(s->link, LINK_CONTROL, &peer, &bytes, &n)) {
        if (packet_read(bytes, n, &p))
            leave(s, 1, err_text());
        else
            member_receive(s->member, &p);
    }
}

static void
take_beats(struct server *s)
{
    const void *bytes;
    size_t n;
    int peer;
    struct packet p;
    while (link_receive(s->link, LINK_BEAT, &peer, &bytes, &n))
        if (!packet_read(bytes, n, &p)) member_heard(s->member, &p);
}

static void
take_state(struct server *s)
{
    switch (link_state(s->link)) {
    case LINK_WAITING: break;
    case LINK_UP: member_linked(s->member); break;
    case LINK_DENIED: leave(s, 1, "the coordinator does not take this worker's key, or one of the two has none"); break;
    case LINK_DOWN: member_cut(s->member, "the link to the coordinator ended"); break;
    }
}

static void
tick(struct server *s)
{
    struct packet p;
    member_tick(s->member);
    stop_engine(s);
    if (member_beat(s->member, &p)) {
        str_clear(&s->packet);
        packet_write(&p, &s->packet);
        if (link_send(s->link, LINK_BEAT, 0, s->packet.text, s->packet.len)) err_clear();
    } else if (s->options.wait_s > 0 && s->tick_ns > s->leave_ns) {
        leave(s, 1, "no coordinator was there in the time that was given");
    }
    s->tick_ns = now_ns() + TICK_MS * 1000000ll;
}

static void
pump(struct server *s)
{
    take_state(s);
    take_control(s);
    take_beats(s);
    if (now_ns() >= s->tick_ns) tick(s);
}

static void
sleep_on(struct server *s, bool control)
{
    struct pollfd fd[4];
    nfds_t n = 0;
    uint64_t count;
    int64_t left = (s->tick_ns - now_ns()) / 1000000;
    if (control) fd[n++] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
    if (control) fd[n++] = (struct pollfd){.fd = link_fd(s->link, LINK_CONTROL), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_fd(s->link, LINK_BEAT), .events = POLLIN};
    fd[n++] = (struct pollfd){.fd = link_state_fd(s->link), .events = POLLIN};
    poll(fd, n, (int)MAX(1, MIN(left + 1, TICK_MS)));
    if (control && fd[0].revents && read(s->wake_fd, &count, sizeof count) < 0) return;
}

/* The main thread had time enough to come back: it is in a kernel, or in a system call. */
static void
end_process(const struct server *s)
{
    if (!s->options.die) return;
    link_sweep(s->options.join);
    s->options.die(s->status ? 1 : 0);
}

static void *
link_thread(void *arg)
{
    struct server *s = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        pump(s);
        if (s->leaving && now_ns() > s->leave_ns) end_process(s);
        bool busy = s->busy;
        pthread_mutex_unlock(&s->lock);
        sleep_on(s, busy);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- work: the epoch ---- */

static char *
text_of(struct span s)
{
    char *text = must_alloc(s.n + 1);
    memcpy(text, s.bytes, s.n);
    return text;
}

static void
do_welcome(struct server *s, const struct order *o)
{
    char *path = text_of(o->packet.segment), *beat = text_of(o->packet.beat);
    int status = segment_open(path, o->packet.memory, &s->segment);
    pthread_mutex_lock(&s->lock);
    if (!status) status = link_join_beat(s->link, beat);
    if (status) {
        member_leave(s->member, err_text());
        leave(s, 1, err_text());
    }
    pthread_mutex_unlock(&s->lock);
    free(path);
    free(beat);
}

/* "PATH BYTES" */
static int
open_bus(struct server *s, struct span text)
{
    char *path = text_of(text), *space = strchr(path, ' ');
    segment_free(&s->bus);
    int status = space ? 0 : fail(E_BUS, "the epoch's bus has no path");
    if (space) *space = '\0';
    if (!status) status = segment_open(path, (size_t)strtoull(space + 1, NULL, 10), &s->bus);
    free(path);
    return status;
}

static uint32_t
u32_at(struct span s, size_t i)
{
    uint32_t v;
    memcpy(&v, s.bytes + 4 * i, 4);
    return v;
}

static int
read_map(struct server *s, const struct packet *p)
{
    enum { RANGE = 5 };
    int nslot = (int)(p->slots.n / 4), nrange = (int)(p->ranges.n / 4 / RANGE);
    if (nslot < 1 || nslot > BUS_HOST_SLOTS || p->ranges.n % (4 * RANGE) || p->threads < 1)
        return fail(E_BUS, "FORM: %d slots, %u numbers of ranges", nslot, p->ranges.n / 4);
    struct plan_range *range = must_realloc(s->map.range, sizeof *range * (size_t)(nrange + 1));
    s->map = (struct plan_map){.nrange = nrange, .nslot = nslot, .range = range};
    for (int i = 0; i < nrange; i++) {
        uint32_t v[RANGE];
        for (int k = 0; k < RANGE; k++) v[k] = u32_at(p->ranges, (size_t)(i * RANGE + k));
        if (v[0] >= NDEVICE_KIND || v[1] > INT32_MAX / 2 || v[2] > INT32_MAX / 2 || v[4] < 1 ||
            v[3] >= (uint32_t)nslot || v[4] > (uint32_t)nslot - v[3])
            return fail(E_BUS, "FORM: range %d is none", i);
        range[i] = (struct plan_range){(int32_t)v[0], (int32_t)v[1], (int32_t)v[2], (int32_t)v[3], (int32_t)v[4], 0};
    }
    s->nslot = nslot;
    return 0;
}

static void
close_engine(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    struct engine *e = s->engine;
    s->engine = NULL;
    s->bus_end = NULL;
    pthread_mutex_unlock(&s->lock);
    engine_free(&e); /* and its bus */
}

/* The slots that this worker runs are its threads, in order. */
static void
read_route(struct server *s, const uint32_t *owner, int rank)
{
    s->route = must_realloc(s->route, sizeof *s->route * (size_t)s->nslot);
    s->doing = must_realloc(s->doing, sizeof *s->doing * (size_t)s->nslot);
    s->nlocal = 0;
    for (int i = 0; i < s->nslot; i++) {
        int thread = 0;
        for (int k = 0; k < i; k++) thread += owner[k] == owner[i];
        s->route[i] = addr_of((int)owner[i], thread);
        if ((int)owner[i] == rank) s->doing[s->nlocal++] = bus_host_doing(segment_base(s->bus), i);
    }
}

static int
open_engine(struct server *s, const struct packet *p, int rank, struct bus **bus, struct engine **out)
{
    uint32_t owner[BUS_HOST_SLOTS];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < s->nslot; i++) owner[i] = u32_at(p->slots, (size_t)i);
    TRY(bus_host_map(segment_base(s->bus), segment_bytes(s->bus), s->nslot, owner, bus));
    read_route(s, owner, rank);
    if (s->nlocal == 0) return fail(E_BUS, "FORM: worker %d has no slot", rank);
    struct engine_options o = {.process = rank,
                               .threads = s->nlocal,
                               .bus = &bus_host,
                               .spin_ns = s->nslot < cores ? 50000 : 0,
                               .with = *bus,
                               .route = s->route,
                               .nroute = s->nslot,
                               .doing = s->doing,
                               .gate = bus_host_gate(segment_base(s->bus))};
    return engine_new(&o, out);
}

static void
do_form(struct server *s, const struct order *o)
{
    struct engine *engine = NULL;
    struct bus *bus = NULL;
    close_engine(s);
    int status = open_bus(s, o->packet.bus);
    if (!status) status = read_map(s, &o->packet);
    if (!status) status = open_engine(s, &o->packet, member_rank(s->member), &bus, &engine);
    pthread_mutex_lock(&s->lock);
    s->engine = engine;
    s->bus_end = engine ? bus : NULL;
    member_ready(s->member, o->work.epoch, status, status ? err_text() : "");
    pthread_mutex_unlock(&s->lock);
}

/* ---- work: programs ---- */

static void
job_free(struct job *j)
{
    actors_free(&j->actors);
    plan_free(&j->plan);
    arena_fini(&j->arena);
    free(j);
}

static struct job **
job_find(struct server *s, uint64_t id)
{
    for (int i = 0; i < s->njob; i++)
        if (s->job[i]->id == id) return &s->job[i];
    return NULL;
}

static void
do_forget(struct server *s, const struct order *o)
{
    struct job **j = job_find(s, o->work.program);
    if (!j) return;
    job_free(*j);
    *j = s->job[--s->njob];
}

static int
make_job(struct server *s, const struct order *o, struct job **out)
{
    struct program *g;
    struct plan *p;
    TRY(program_read(o->work.bytes, o->work.n, s->atlas, &g));
    g->map = &s->map;
    TRY(plan_compile(g, s->atlas, &p));
    struct job *j = must_alloc(sizeof *j);
    j->id = o->work.program;
    j->plan = p;
    j->actors = actors_new(p);
    j->run = (struct run){.plan = p,
                          .actors = j->actors,
                          .leaf = ARENA_ARRAY(&j->arena, void *, p->nleaf_part + 1),
                          .root = ARENA_ARRAY(&j->arena, void *, p->nroot_part + 1),
                          .number = ARENA_ARRAY(&j->arena, uint64_t, g->nnumber + 1),
                          .line = ARENA_ARRAY(&j->arena, struct line, g->nnode + 1),
                          .arena = ARENA_ARRAY(&j->arena, void *, p->ndevice + 1)};
    *out = j;
    return 0;
}

static void
do_program(struct server *s, const struct order *o)
{
    unsigned char digest[CLUSTER_ID];
    struct job *j = NULL;
    do_forget(s, o);
    int status = s->njob < PLANS ? make_job(s, o, &j) : fail(E_MEMORY, "a worker keeps at most %d plans", PLANS);
    if (!status) {
        GROW(s->job, s->njob + 1, s->job_capacity);
        s->job[s->njob++] = j;
        plan_digest(j->plan, digest);
    }
    pthread_mutex_lock(&s->lock);
    member_have(s->member, o->work.epoch, o->work.program, status, status ? err_text() : "", status ? NULL : digest);
    pthread_mutex_unlock(&s->lock);
}

/* ---- work: runs ---- */

/* The address of a place in the segment, which must hold so many bytes; NULL: nothing lies there. */
static int
address(const struct server *s, struct span places, size_t i, int64_t bytes, void **out)
{
    uint64_t at;
    memcpy(&at, places.bytes + 8 * i, 8);
    *out = NULL;
    if (at == UINT64_MAX && bytes == 0) return 0;
    size_t most = segment_bytes(s->segment);
    if (bytes < 0 || (uint64_t)bytes > most || at > most - (uint64_t)bytes || at % 64)
        return fail(E_BUS, "START: place %zu lies outside of the segment", i);
    *out = segment_base(s->segment) + at;
    return 0;
}

static int
bind(const struct server *s, struct job *j, const struct packet *p)
{
    const struct plan *plan = j->plan;
    size_t want = (size_t)plan->nleaf_part + (size_t)plan->nroot_part + (size_t)plan->ndevice, k = 0;
    size_t numbers = (size_t)plan->program->nnumber;
    if (p->places.n != 8 * want || p->numbers.n != 8 * numbers)
        return fail(E_BUS, "START: %u places and %u numbers; the program has %zu and %zu", p->places.n / 8,
                    p->numbers.n / 8, want, numbers);
    for (int32_t i = 0; i < plan->nleaf_part; i++)
        TRY(address(s, p->places, k++, plan->leaf_part[i].bytes, &j->run.leaf[i]));
    for (int32_t i = 0; i < plan->nroot_part; i++)
        TRY(address(s, p->places, k++, plan->root_part[i].bytes, &j->run.root[i]));
    for (int32_t i = 0; i < plan->ndevice; i++)
        TRY(address(s, p->places, k++, plan->device[i].arena_bytes, &j->run.arena[i]));
    if (numbers) memcpy(j->run.number, p->numbers.bytes, 8 * numbers);
    return 0;
}

/* A failure that was told before its run, or an end that is near, stops it before its first act. */
static int
run(struct server *s, struct job *j, const struct packet *p)
{
    j->run.timed = p->flags & START_TIMED;
    j->run.id = p->run;
    pthread_mutex_lock(&s->lock);
    bool late = s->leaving || (s->stop == p->run && s->stop_why == STOP_FAILED);
    s->running = p->run;
    pthread_mutex_unlock(&s->lock);
    return late ? fail(E_CANCEL, "interrupted") : engine_run(s->engine, &j->run);
}

/* Tasks that had begun, and how many acts: updates first, whose variables are half written. */
static int32_t *
list_begun(const struct job *j, int *n)
{
    int32_t *list = must_alloc(sizeof *list * (size_t)(2 * j->plan->ntask + 1));
    *n = 0;
    for (int others = 0; others < 2; others++)
        for (int32_t i = 0; i < j->plan->ntask && *n < WIRE_PIECE / 4; i++) {
            if (j->plan->task[i].updates == others || !actors_acted(j->actors, i)) continue;
            list[(*n)++] = i;
            list[(*n)++] = look_begun(j->actors, i);
        }
    return list;
}

/* Devices whose threads are this worker's. */
static uint64_t *
list_busy(const struct server *s, const struct job *j, int *n)
{
    const struct plan *p = j->plan;
    uint64_t *list = must_alloc(sizeof *list * (size_t)(2 * p->ndevice + 1));
    *n = 0;
    for (int32_t d = 0; d < p->ndevice && *n < WIRE_PIECE / 8; d++) {
        if (addr_process(s->route[p->device[d].thread]) != member_rank(s->member)) continue;
        list[(*n)++] = (uint64_t)d;
        list[(*n)++] = (uint64_t)j->actors->busy_ns[d];
    }
    return list;
}

static struct act_time *
list_times(const struct server *s, size_t *n)
{
    struct act_time *list = NULL;
    *n = 0;
    for (int t = 0; t < s->nlocal; t++) {
        const struct act_time *acts;
        size_t more = (size_t)engine_acts(s->engine, t, &acts);
        if (more == 0) continue;
        list = must_realloc(list, sizeof *list * (*n + more));
        memcpy(list + *n, acts, sizeof *list * more);
        *n += more;
    }
    *n *= sizeof *list;
    return list;
}

static void
do_start(struct server *s, const struct order *o)
{
    struct job **j = job_find(s, o->work.program);
    struct run_end e = {.epoch = o->work.epoch, .run = o->packet.run, .node = -1};
    int64_t before = s->engine ? engine_count(s->engine).acts : 0;
    bool ran = false;
    e.status = j && s->engine ? bind(s, *j, &o->packet) : fail(E_BUS, "START: there is no such program here");
    if (!e.status) {
        e.status = run(s, *j, &o->packet);
        ran = true;
    }
    e.text = e.status ? err_text() : "";
    if (ran && e.status) e.node = engine_blame(s->engine);
    int32_t *begun = ran && e.status ? list_begun(*j, &e.nbegun) : NULL;
    struct act_time *times = ran && !e.status && (*j)->run.timed ? list_times(s, &e.ntime) : NULL;
    uint64_t *busy = ran ? list_busy(s, *j, &e.nbusy) : NULL;
    e.begun = begun;
    e.busy = busy;
    e.times = times;
    e.acts = s->engine ? (uint64_t)(engine_count(s->engine).acts - before) : 0;
    pthread_mutex_lock(&s->lock);
    s->running = 0;
    member_ended(s->member, &e);
    take_control(s); /* sending may have taken note of what came */
    pthread_mutex_unlock(&s->lock);
    free(begun);
    free(busy);
    free(times);
}

static void (*const perform[])(struct server *s, const struct order *o) = {
    [WORK_WELCOME] = do_welcome, [WORK_FORM] = do_form,   [WORK_PROGRAM] = do_program,
    [WORK_FORGET] = do_forget,   [WORK_START] = do_start,
};

/* ---- the main thread ---- */

static struct order *
take_order(struct server *s)
{
    struct order *o = s->first;
    if (!o) return NULL;
    s->first = o->next;
    if (!s->first) s->last = &s->first;
    return o;
}

static void
work(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->leaving) {
        pump(s);
        struct order *o = take_order(s);
        s->busy = o != NULL;
        pthread_mutex_unlock(&s->lock);
        if (o) {
            perform[o->work.kind](s, o);
            free(o->copy);
            free(o);
        } else {
            sleep_on(s, true);
        }
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static int
open_server(struct server *s)
{
    struct key key;
    const char *file = s->options.key_file;
    if (file) TRY(key_read(file, &key));
    int status = link_join(s->options.join, file ? &key : NULL, &s->link);
    key_forget(&key);
    TRY(status);
    machine_text(&s->machine);
    machine_host(s->host);
    device_counts_print(&s->options.devices, &s->devices);
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    struct member_env env = {s, on_send, on_work};
    struct member_options o = {.hello = {.kind = PACKET_HELLO,
                                         .protocol = WIRE_VERSION,
                                         .version = span_text(s->options.version),
                                         .host = span_text(s->host),
                                         .machine = span_text(str_text(&s->machine)),
                                         .devices = span_text(str_text(&s->devices)),
                                         .pid = (uint32_t)getpid(),
                                         .cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
                                         .memory = (uint64_t)pages * (uint64_t)size,
                                         .rank = s->options.rank,
                                         .secret = {s->options.secret, CLUSTER_ID}},
                               .silence = SILENCE_TICKS};
    s->member = member_new(&o, &env);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0) return fail(E_IO, "eventfd: %s", strerror(errno));
    s->tick_ns = now_ns() + TICK_MS * 1000000ll;
    s->leave_ns = now_ns() + s->options.wait_s * 1000000000ll;
    return pthread_create(&s->thread, NULL, link_thread, s) ? fail(E_BUS, "the link's thread could not be started") : 0;
}

static void
close_server(struct server *s)
{
    close_engine(s);
    for (struct order *o; (o = take_order(s)) != NULL; free(o)) free(o->copy);
    for (int i = 0; i < s->njob; i++) job_free(s->job[i]);
    member_free(&s->member);
    link_free(&s->link);
    segment_free(&s->bus);
    segment_free(&s->segment);
    atlas_free(&s->atlas);
    str_free(&s->packet);
    str_free(&s->machine);
    str_free(&s->devices);
    free(s->job);
    free(s->map.range);
    free(s->route);
    free(s->doing);
    if (s->wake_fd >= 0) close(s->wake_fd);
}

int
cluster_serve(const struct serve_options *o)
{
    struct server s = {.options = *o, .wake_fd = -1};
    pthread_mutex_init(&s.lock, NULL);
    s.last = &s.first;
    s.atlas = atlas_new();
    if (o->check_ref || o->check_nan) kernel_check(o->check_ref, o->check_nan);
    int status = open_server(&s);
    if (!status) {
        work(&s);
        pthread_mutex_lock(&s.lock);
        s.quit = true;
        pthread_mutex_unlock(&s.lock);
        pthread_join(s.thread, NULL);
        if (s.status) link_sweep(o->join);
    }
    int end = s.status;
    char text[WIRE_TEXT];
    snprintf(text, sizeof text, "%s", s.text);
    close_server(&s);
    return status ? status : end ? fail(E_BUS, "%s", text) : 0;
}
