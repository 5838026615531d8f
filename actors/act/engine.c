/* engine.c - device threads, and how a run begins and ends on them.
 *
 *   session thread                       device thread t
 *   job = run; START -> all              begins the run's actors (also when a
 *   works as device thread 0               message of the run comes before START)
 *   FAIL <- anybody, or interrupt        acts; END -> 0 when all its acts are done
 *   STOP -> all                          acts no more; END -> 0
 *   waits for every END                  sleeps
 *
 * A message that belongs to an earlier run is dropped by its number. After the
 * last END nobody touches the run: buffers and arenas are the session's again. */
#include "actors/act/actor.h"
#include "actors/plan/stuck.h"

#include "runtime/device.h"
#include "runtime/error.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREAD = 64, BATCH = 32 };

struct engine {
    struct engine_options options;
    struct bus *bus;
    int nstarted; /* threads beyond the session's that exist */
    pthread_t thread[MAX_THREAD];
    struct worker worker[MAX_THREAD];
    const struct run *job; /* written before START is sent */
    uint32_t run_id;
    int nended;
    int64_t begin_ns, elapsed_ns, runs;
    atomic_int interrupted;
    const struct op *slow_op;
    int64_t slow_ns;
    atomic_llong fail_in; /* acts until one is made to fail; 0: none */
};

static int64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void
worker_send(struct worker *w, int to, const struct msg *m)
{
    w->thread_messages++;
    if (w->plant == PLANT_LOST && m->kind == MSG_FULL) return;
    int status = w->engine->options.bus->send(w->engine->bus, w->id, to, m);
    if (status == 0 || w->stopped) return;
    w->status = status;
    w->stopped = true;
    strncpy(w->text, err_text(), sizeof w->text - 1);
}

static void
tell(struct worker *w, int to, enum msg_kind kind)
{
    struct msg m = {.kind = (uint8_t)kind,
                    .status = (uint8_t)w->status,
                    .run = w->run_id,
                    .src = id_of(0, w->id, 0),
                    .dst = id_of(0, to, 0)};
    worker_send(w, to, &m);
}

/* ---- one worker ---- */

/* The worker has nothing more to do in this run. */
static void
end(struct worker *w)
{
    if (!w->active) return;
    w->active = false;
    w->allocations += must_count() - w->asked;
    if (w->id != 0) tell(w, 0, w->status ? MSG_FAIL : MSG_END);
}

static void
stop_all(struct engine *e)
{
    struct worker *w = &e->worker[0];
    for (int t = 1; t < w->plan->nthread; t++) tell(w, t, MSG_STOP);
    w->stopped = true;
}

static void
take_message(struct worker *w, const struct msg *m)
{
    struct engine *e = w->engine;
    if (m->kind == MSG_QUIT) {
        w->quit = true;
        return;
    }
    if (w->id == 0 && (m->kind == MSG_END || m->kind == MSG_FAIL)) {
        if (m->run != w->run_id) return;
        e->nended++;
        if (m->kind == MSG_FAIL && !w->stopped) stop_all(e);
        return;
    }
    if (m->run > w->run_id) worker_begin(w, e->job, m->run);
    if (m->run != w->run_id || !w->active) return;
    if (m->kind == MSG_STOP)
        w->stopped = true;
    else if (!w->stopped)
        worker_receive(w, m);
}

/* Takes what has come and does one act. True when something happened. */
static bool
step(struct worker *w, bool wait, int choice)
{
    struct msg m[BATCH];
    int n = w->engine->bus ? w->engine->options.bus->recv(w->engine->bus, w->id, m, BATCH, wait) : 0;
    for (int i = 0; i < n; i++) take_message(w, &m[i]);
    if (!w->active) return n > 0;
    if (w->stopped || w->todo == 0) {
        end(w);
        return true;
    }
    if (w->nready > 0) {
        worker_act(w, choice < w->nready ? choice : 0);
    } else if (w->nstream > 0) {
        worker_complete(w);
    } else {
        return n > 0;
    }
    if (w->stopped || w->todo == 0) end(w);
    return true;
}

static bool
busy(const struct worker *w)
{
    return w->active && (w->stopped || w->todo == 0 || w->nready > 0 || w->nstream > 0);
}

static void *
device_thread(void *arg)
{
    struct worker *w = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    while (!w->quit) step(w, !busy(w), 0);
    return NULL;
}

/* ---- the engine ---- */

static void
quit_threads(struct engine *e)
{
    for (int t = 1; t <= e->nstarted; t++) {
        struct msg m = {.kind = MSG_QUIT};
        e->options.bus->send(e->bus, 0, t, &m);
    }
    for (int t = 1; t <= e->nstarted; t++) pthread_join(e->thread[t], NULL);
    e->nstarted = 0;
}

int
engine_new(const struct engine_options *o, struct engine **out)
{
    struct engine *e = must_alloc(sizeof *e);
    e->options = *o;
    if (e->options.threads > MAX_THREAD) e->options.threads = MAX_THREAD;
    for (int t = 0; t < MAX_THREAD; t++) {
        e->worker[t].engine = e;
        e->worker[t].id = t;
    }
    if (e->options.threads > 1) {
        int status = o->bus->open(e->options.threads, o->spin_ns, o->seed, &e->bus);
        if (status) {
            free(e);
            return status;
        }
    }
    *out = e;
    return 0;
}

void
engine_free(struct engine **ep)
{
    struct engine *e = *ep;
    if (!e) return;
    if (e->bus) {
        quit_threads(e);
        e->options.bus->close(&e->bus);
    }
    for (int t = 0; t < MAX_THREAD; t++) {
        struct worker *w = &e->worker[t];
        free(w->ready);
        free(w->ready_key);
        free(w->stream);
        free(w->act);
    }
    free(e);
    *ep = NULL;
}

int
engine_threads(const struct engine *e)
{
    return e->options.threads;
}

void
engine_interrupt(struct engine *e)
{
    atomic_store(&e->interrupted, 1);
}

static int
start_threads(struct engine *e, int nthread)
{
    if (!e->options.bus->threaded) return 0;
    for (; e->nstarted + 1 < nthread; e->nstarted++) {
        struct worker *w = &e->worker[e->nstarted + 1];
        w->quit = false;
        if (pthread_create(&e->thread[e->nstarted + 1], NULL, device_thread, w))
            return fail(E_BUS, "a device thread could not be started");
    }
    return 0;
}

/* The worker acts no more, for the reason that was just said. */
static void
give_up(struct worker *w, int status)
{
    w->status = status;
    strncpy(w->text, err_text(), sizeof w->text - 1);
    w->stopped = true;
}

/* The user wants the run to stop. */
static void
cancel(struct worker *w)
{
    give_up(w, fail(E_CANCEL, "interrupted"));
}

/* ---- one thread: nothing can happen unless it does it ---- */

static int32_t
begun(const void *actors, int32_t task)
{
    return ((const struct actors *)actors)->actor[task].begun;
}

static bool
in_waits(const void *actors, int32_t task, int32_t port)
{
    const struct actors *a = actors;
    return a->actor[task].in[port].tokens < a->plan->task[task].in[port].need;
}

static bool
out_waits(const void *actors, int32_t task, int32_t port)
{
    const struct out_state *o = &((const struct actors *)actors)->actor[task].out[port];
    return o->readers[o->write] > 0;
}

/* The run will not end: no plan that was proved does this. */
static void
get_stuck(struct worker *w)
{
    struct stuck who = {
        .plan = w->plan, .state = w->actors, .begun = begun, .in_waits = in_waits, .out_waits = out_waits};
    struct str text = {0};
    stuck_print(&who, &text);
    give_up(w, fail(E_PLAN, "the run is stuck: no actor can act, no message is under way and no work is unfinished: %s",
                    str_text(&text)));
    str_free(&text);
}

static bool
nothing_left(const struct engine *e, int nthread)
{
    for (int t = 0; t < nthread; t++)
        if (busy(&e->worker[t])) return false;
    return bus_sim_quiet(e->bus);
}

/* One turn of a worker of the simulator: what is done late may be done now, or any ready actor acts. */
static bool
turn(struct engine *e, struct worker *w)
{
    if (!w->active || w->stopped || w->nstream == 0 || !bus_sim_choose(e->bus, 2))
        return step(w, false, w->nready > 1 ? (int)bus_sim_choose(e->bus, (uint64_t)w->nready) : 0);
    worker_complete(w);
    return true;
}

/* The simulator: the seed says whose turn it is, until every worker has said END. */
static void
play(struct engine *e, int nthread)
{
    struct worker *w = &e->worker[0];
    while (e->nended < nthread - 1 || w->active) {
        bool was = w->stopped;
        if (atomic_load(&e->interrupted) && !was)
            cancel(w);
        else if (!turn(e, &e->worker[bus_sim_choose(e->bus, (uint64_t)nthread)]) && nothing_left(e, nthread))
            get_stuck(w);
        if (w->stopped && !was && w->status) stop_all(e);
    }
}

/* The session thread as device thread 0, until every thread has said END. */
static void
attend(struct engine *e, int nthread)
{
    struct worker *w = &e->worker[0];
    while (e->nended < nthread - 1 || w->active) {
        bool was = w->stopped;
        if (atomic_load(&e->interrupted) && !was)
            cancel(w);
        else
            step(w, !busy(w), 0);
        if (w->stopped && !was && w->status) stop_all(e);
    }
}

/* The failure to report: the first by thread that has a text. */
static int
outcome(struct engine *e, int nthread)
{
    for (int t = 0; t < nthread; t++) {
        struct worker *w = &e->worker[t];
        if (w->status) return fail((enum err_code)w->status, "%s", w->text);
    }
    return 0;
}

int
engine_run(struct engine *e, struct run *r)
{
    int nthread = r->plan->nthread;
    assert(nthread <= e->options.threads);
    struct worker *w = &e->worker[0];
    e->job = r;
    e->nended = 0;
    e->runs++;
    uint32_t id = ++e->run_id;
    e->begin_ns = now_ns();
    atomic_store(&e->interrupted, 0);
    if (nthread > 1) TRY(start_threads(e, nthread));
    for (int t = 0; t < nthread; t++) worker_room(&e->worker[t], r->plan, r->timed);
    worker_begin(w, r, id);
    for (int t = 1; t < nthread; t++) tell(w, t, MSG_START);
    if (nthread == 1) {
        while (w->active) {
            if (atomic_load(&e->interrupted)) cancel(w);
            if (w->stopped || w->todo == 0)
                end(w);
            else if (w->nready > 0)
                worker_act(w, 0);
            else if (w->nstream > 0)
                worker_complete(w);
            else
                get_stuck(w);
        }
    } else if (e->options.bus->threaded) {
        attend(e, nthread);
    } else {
        play(e, nthread);
    }
    e->elapsed_ns = now_ns() - e->begin_ns;
    return outcome(e, nthread);
}

int64_t
engine_acts(const struct engine *e, int thread, const struct act_time **acts)
{
    *acts = e->worker[thread].act;
    return e->worker[thread].nact;
}

int64_t
engine_elapsed_ns(const struct engine *e)
{
    return e->elapsed_ns;
}

int64_t
engine_begin_ns(const struct engine *e)
{
    return e->begin_ns;
}

struct engine_count
engine_count(const struct engine *e)
{
    struct engine_count c = {.runs = e->runs};
    for (int t = 0; t < e->options.threads; t++) {
        c.acts += e->worker[t].acts;
        c.messages += e->worker[t].messages;
        c.thread_messages += e->worker[t].thread_messages;
        c.allocations += e->worker[t].allocations;
    }
    return c;
}

void
engine_plant(struct engine *e, enum plant plant)
{
    for (int t = 0; t < MAX_THREAD; t++) e->worker[t].plant = plant;
}

void
engine_fail_act(struct engine *e, int64_t k)
{
    atomic_store(&e->fail_in, k);
}

void
engine_slow(struct engine *e, const struct op *op, int64_t ns)
{
    e->slow_op = op;
    e->slow_ns = ns;
}

int
engine_trouble(struct engine *e, const struct op *op)
{
    if (e->slow_ns > 0 && op && op == e->slow_op) {
        struct timespec t = {e->slow_ns / 1000000000, e->slow_ns % 1000000000};
        nanosleep(&t, NULL);
    }
    if (atomic_load_explicit(&e->fail_in, memory_order_relaxed) > 0 && atomic_fetch_sub(&e->fail_in, 1) == 1)
        return fail(E_KERNEL, "made to fail by a test");
    return 0;
}
