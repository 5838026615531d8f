/* engine.c - device threads, and how a run begins and ends on them.
 *
 *   session thread                       device thread t
 *   job = run; START -> all              begins the run's actors (also if another
 *   works as device thread 0               message of the run arrives before START)
 *   END with an error <- any thread,     acts; END -> 0 when all its acts are done,
 *     or an interrupt                      or with its error after a failure
 *   STOP -> all                          starts no more acts; END -> 0
 *   waits for every END                  sleeps
 *
 * A message of an earlier run is dropped by its run number. After the last END no thread touches the run: its
 * buffers and arenas belong to the session again. */
#include "actors/act/run/engine.h"

#include "actors/act/run/activity.h"
#include "actors/act/run/actor.h"
#include "actors/act/run/address.h"
#include "actors/act/run/engine_inner.h"
#include "actors/act/run/inspect.h"
#include "actors/act/run/open_run.h"
#include "actors/act/run/poison.h"
#include "actors/plan/model/deadlock.h"

#include "runtime/base/stop.h"
#include "runtime/base/clock.h"
#include "runtime/base/denormal.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/base/signals.h"
#include "runtime/base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 32 };

/* Says whether the run may overwrite variables. GATE_SHUT: not decided yet; the run can still be cancelled.
 * GATE_OPEN: updates may begin and will complete, so no variable is left half written. GATE_STOPPED: no update will
 * begin. The first request, to update or to stop, decides between GATE_OPEN and GATE_STOPPED. */
enum gate { GATE_SHUT, GATE_OPEN, GATE_STOPPED, GATE_BITS = 2 };

struct engine {
    struct engine_options options;
    struct bus *bus;
    int nstarted; /* number of device threads that exist, not counting the session's thread */
    pthread_t thread[MOST_THREADS];
    struct worker worker[MOST_THREADS];
    struct run *job; /* the current run, set before START is sent; NULL between runs */
    int nthread;     /* number of threads of this process that take part in the run */
    uint32_t run_id;
    int nended;
    int status;   /* error of the first thread that reported a failure; 0: none */
    bool stopped; /* true if all threads were told to stop */
    int64_t runs;
    atomic_int interrupted;
    atomic_int cut; /* true: a running kernel was told to stop, so results are invalid even if `status` is 0 */
    atomic_int aborted;
    /* own_gate: run << GATE_BITS | enum gate; a value of an earlier run means GATE_SHUT. gate: the word in use */
    _Atomic uint64_t own_gate, *gate;
    struct slow {
        const struct op *op;
        int64_t ns;
    } slow[4];            /* tests: operators whose acts sleep for ns; ns 0: unused entry */
    atomic_llong fail_in; /* tests: number of acts until the act that is made to fail; 0: no act fails */
};

void
worker_fail(struct worker *w, int status)
{
    w->outcome.status = status;
    snprintf(w->outcome.text, sizeof w->outcome.text, "%s", err_text());
    w->stopped = true;
}

void
worker_send(struct worker *w, int to, struct msg m)
{
    const uint32_t *route = w->engine->options.route;
    worker_send_to(w, route ? route[to] : addr_of(addr_process(w->addr), to), m);
}

void
worker_send_to(struct worker *w, uint32_t addr, struct msg m)
{
    w->counts.thread_messages++;
    m.from = w->addr;
    m.to = addr;
    m.run = w->run_id;
    int status = bus_send(w->engine->bus, &m);
    if (status && !w->stopped) worker_fail(w, status);
}

void
worker_told(void *of)
{
    struct worker *w = of;
    const struct engine *e = w->engine;
    waker_wake(&w->rest);
    if (e->bus && e->bus->kind->nudge) e->bus->kind->nudge(e->bus, w->addr);
}

static void
worker_tell(struct worker *w, int to, enum msg_kind kind)
{
    worker_send(w, to, (struct msg){.kind = (uint8_t)kind, .status = (uint8_t)w->outcome.status});
}

/* ---- one worker ---- */

static void
end_worker_run(struct worker *w)
{
    if (!w->active) return;
    if (w->stopped) flows_cut(w);
    if (!w->stopped && w->run->stays_open && w->flows.nunder > 0)
        open_run_leave(w);
    else
        worker_drain(w);
    activity_await_nothing(w);
    activity_bill_at(w, -1, now_ns());
    w->active = false;
    w->counts.allocations += must_count() - w->counts.asked;
    if (w != w->engine->worker) worker_tell(w, w->engine->worker[0].id, MSG_END);
}

/* Stops this process's threads. Also stops one thread on each host to which this host has a channel; that thread
 * then stops the other threads of its host. */
static void
engine_stop_all(struct engine *e)
{
    struct worker *w = &e->worker[0];
    const struct actors *a = w->actors;
    for (int t = 1; t < e->nthread; t++) worker_tell(w, e->worker[t].id, MSG_STOP);
    for (int32_t i = 0; i < a->npeer; i++)
        worker_send_to(w, w->run->far[a->peer[i]].addr, (struct msg){.kind = MSG_STOP, .out = MSG_FAR});
    w->stopped = e->stopped = true;
}

/* Handles a STOP from the plan partition of another host: fails the run on worker 0, even if worker 0 has no work
 * left. */
static void
stop_for(struct worker *w, const struct msg *m)
{
    struct worker *first = &w->engine->worker[0];
    if (m->run != w->run_id || w->stopped) return;
    if (w != first) {
        struct msg on = *m;
        worker_send_to(w, first->addr, on);
        return;
    }
    worker_fail(w, fail(E_CANCEL, "the run was cancelled by another host"));
}

static void
worker_take_message(struct worker *w, const struct msg *m)
{
    struct engine *e = w->engine;
    if (m->kind == MSG_QUIT) {
        w->quit = true;
        return;
    }
    if (m->kind == MSG_END) {
        if (m->run != w->run_id) return;
        e->nended++;
        if (m->status && !e->status) e->status = m->status;
        if (m->status && !e->stopped) engine_stop_all(e);
        return;
    }
    if (run_after(m->run, w->run_id)) worker_begin(w, e->job, m->run);
    if (m->kind == MSG_STOP && m->out == MSG_FAR) {
        stop_for(w, m);
        return;
    }
    if (m->run != w->run_id || !w->active) return;
    if (m->kind == MSG_STOP)
        w->stopped = true;
    else if (!w->stopped)
        worker_receive(w, m);
}

/* A thread that waits for the next task of a schedule row does not sleep during the last BRIEF_NS ns, because waking
 * up takes about that long. */
enum { BRIEF_NS = 20000 };

static bool
busy(const void *of)
{
    const struct worker *w = of;
    bool acts = w->lanes.nready > 0 && (w->lanes.until_ns == 0 || now_ns() >= w->lanes.until_ns - BRIEF_NS);
    return w->active && (w->stopped || worker_is_over(w) || acts || worker_may_complete(w));
}

static int64_t
waits(const void *of)
{
    const struct worker *w = of;
    bool ends = w->active && w->lanes.until_ns && w->lanes.until_ns < INT64_MAX;
    return ends ? MAX(1, w->lanes.until_ns - BRIEF_NS - now_ns()) : 0;
}

/* Receives the messages that have arrived and handles them. A thread that waits for streams sleeps without spinning,
 * to leave the cores to the streams. */
static bool
take_messages(struct worker *w, bool idle)
{
    enum bus_wait wait = !idle ? BUS_LOOK : w->active && w->flows.nunder > 0 ? BUS_SLEEP : BUS_WAIT;
    struct msg m[BATCH];
    if (wait != BUS_LOOK) signals_pass();
    int n = bus_recv(w->engine->bus, w->addr, m, BATCH, wait);
    for (int i = 0; i < n; i++) worker_take_message(w, &m[i]);
    return n > 0;
}

/* Does one random action, which the simulator's seed selects: runs any ready actor, advances a stream, or completes
 * finished work. */
static bool
engine_play(struct worker *w, struct bus *b)
{
    bool streams = w->flows.nunder > 0;
    uint64_t choice = bus_choose(b, (uint64_t)(w->lanes.nready > 0) + 2 * streams);
    if (streams && choice == 0) return worker_step(w, b->kind->choose, b);
    if (streams && choice == 1) return worker_complete(w);
    int i = (int)bus_choose(b, (uint64_t)w->lanes.nready);
    struct lane *l = lanes_at(w, &i);
    worker_act(w, l, i);
    return true;
}

/* Runs one ready actor, or completes finished stream work. Returns false if neither exists. In a plan of a single
 * thread no message can arrive, so a call runs up to ALONE actors. */
static bool
run_worker(struct worker *w)
{
    enum { ALONE = 8 };
    struct bus *b = w->engine->bus;
    if (b && !b->kind->threaded) return (w->lanes.nready > 0 || w->flows.nunder > 0) && engine_play(w, b);
    bool any = w->flows.nunder > 0 && worker_complete(w);
    if (w->lanes.nready == 0 || w->stopped) return any;
    int n = w->plan->nthread == 1 ? ALONE : 1;
    while (n-- > 0 && w->lanes.nready > 0 && !w->stopped) {
        struct lane *l = w->run->rows ? lanes_next(w) : w->lanes.lane;
        if (!l) break;
        worker_act(w, l, 0);
        any = true;
    }
    if (!any) relax();
    return any;
}

static bool
engine_turn(void *of, bool wait)
{
    struct worker *w = of;
    struct bus *b = w->engine->bus;
    bool idle = !busy(w), came = false;
    if (idle && w->active) {
        activity_bill(w, -1);
        activity_await(w, NULL);
    }
    if (b && (!w->active || w->plan->nthread > 1 || w->plan->nchannel)) came = take_messages(w, wait && idle);
    if (!w->active) return came;
    if (idle && wait && !came && w->recorder) activity_record_wait(w);
    bool did = !w->stopped && !worker_is_over(w) && run_worker(w);
    if (!w->stopped && !worker_is_over(w)) return came || did;
    end_worker_run(w);
    return true;
}

static void *
device_thread(void *arg)
{
    struct worker *w = arg;
    denormals_flush();
    while (!w->quit) engine_turn(w, true);
    return NULL;
}

/* ---- the engine ---- */

static void
quit_threads(struct engine *e)
{
    for (int t = 1; t <= e->nstarted; t++) {
        struct msg m = {.kind = MSG_QUIT, .from = e->worker[0].addr, .to = e->worker[t].addr};
        bus_send(e->bus, &m);
    }
    for (int t = 1; e->bus->kind->threaded && t <= e->nstarted; t++) pthread_join(e->thread[t], NULL);
    e->nstarted = 0;
}

static void
attach(struct engine *e, int thread)
{
    struct worker *w = &e->worker[thread];
    e->bus->kind->attach(e->bus, w->addr,
                         (struct bus_user){.of = w, .turn = engine_turn, .busy = busy, .waits = waits});
}

int
engine_new(const struct engine_options *o, struct engine **out)
{
    struct engine *e = must_alloc(sizeof *e);
    e->options = *o;
    e->gate = o->gate ? o->gate : &e->own_gate;
    if (e->options.threads > MOST_THREADS) e->options.threads = MOST_THREADS;
    for (int t = 0; t < MOST_THREADS; t++) {
        struct worker *w = &e->worker[t];
        *w = (struct worker){.engine = e, .id = t, .addr = addr_of(o->process, t)};
        if (o->recorder && t < o->threads) w->recorder = o->recorder[t];
    }
    for (int t = 0; t < o->nroute; t++)
        if (addr_process(o->route[t]) == o->process) e->worker[addr_thread(o->route[t])].id = t;
    if (e->options.threads > 1 || o->with) {
        struct bus_options b = {.process = o->process,
                                .nthread = e->options.threads,
                                .spin_ns = o->spin_ns,
                                .seed = o->seed,
                                .with = o->with};
        int status = o->bus->open(&b, &e->bus);
        if (status) {
            free(e);
            return status;
        }
        attach(e, 0);
    }
    *out = e;
    return 0;
}

void
engine_free(struct engine **ep)
{
    struct engine *e = *ep;
    if (!e) return;
    if (e->bus) quit_threads(e);
    for (int t = 0; t < MOST_THREADS; t++) worker_free(&e->worker[t]);
    if (e->bus) e->options.bus->close(&e->bus); /* closed last, because streams call the bus when they progress */
    free(e);
    *ep = NULL;
}

void
engine_interrupt(struct engine *e)
{
    atomic_store(&e->interrupted, 1);
}

bool
engine_is_running(const struct engine *e)
{
    return e->job;
}

bool
engine_doing_thread(const struct engine *e, int thread, char *text, size_t size)
{
    *text = '\0';
    if (thread < 0 || thread >= e->nthread) return false;
    activity_thread(&e->worker[thread], text, size);
    return true;
}

bool
engine_waiting_thread(const struct engine *e, int thread, char *text, size_t size)
{
    if (!engine_doing_thread(e, thread, text, size)) return false;
    bool idle = !*text;
    *text = '\0';
    if (e->job && idle) activity_waiting(e->job, thread, text, size);
    return true;
}

void
engine_abort(struct engine *e)
{
    atomic_store(&e->aborted, 1);
}

/* Starts the threads that a run needs and that do not exist yet. */
static int
start_threads(struct engine *e, int nthread)
{
    if (e->nstarted + 1 < nthread) TRY(e->bus->kind->grow(e->bus, nthread));
    for (; e->nstarted + 1 < nthread; e->nstarted++) {
        int t = e->nstarted + 1;
        e->worker[t].quit = false;
        attach(e, t);
        int status = e->bus->kind->threaded ? thread_start(&e->thread[t], device_thread, &e->worker[t]) : 0;
        if (status) err_note("device thread %d of %d", t + 1, nthread);
        TRY(status);
    }
    return 0;
}

static bool
gate_turn(struct engine *e, int to)
{
    uint64_t is = atomic_load(e->gate), wanted = (uint64_t)e->run_id << GATE_BITS | (uint64_t)to;
    while (is >> GATE_BITS != e->run_id)
        if (atomic_compare_exchange_weak(e->gate, &is, wanted)) return true;
    return is == wanted;
}

bool
worker_may_update(struct worker *w)
{
    return gate_turn(w->engine, GATE_OPEN);
}

/* Returns true if the run was asked to stop and can still be stopped. */
static bool
engine_stops(struct engine *e)
{
    return atomic_load(&e->aborted) || (atomic_load(&e->interrupted) && gate_turn(e, GATE_STOPPED));
}

/* Returns true if the kernel that is running must stop. Long kernels poll this function. */
static bool
wants_stop(void *engine)
{
    struct engine *e = engine;
    signals_pass_in_time(); /* handles pending signals, which may ask to stop */
    if (!engine_stops(e)) return false;
    atomic_store(&e->cut, 1);
    return true;
}

void
worker_ask(struct worker *w)
{
    stop_ask(wants_stop, w->engine);
}

static void
cancel_run(struct worker *w)
{
    worker_fail(w, fail(E_CANCEL, "interrupted"));
}

/* ---- a run ---- */

/* Fails a deadlocked run, in which no thread can act. A run of a verified plan never deadlocks. */
static void
report_deadlock(struct worker *w)
{
    struct deadlock who = {
        .plan = w->plan, .state = w->actors, .begun = inspect_begun, .in_waits = inspect_in, .out_waits = inspect_out};
    struct str text = {0};
    deadlock_print(&who, &text);
    worker_fail(w, fail(E_PLAN, "deadlock: no actor can act, no message is under way and all work is complete: %s",
                        str_text(&text)));
    str_free(&text);
}

/* Returns true if messages of this thread are still unsent. Other threads may wait for these messages, so the run
 * cannot end. */
static bool
unsettled(const struct worker *w)
{
    const struct bus *b = w->engine->bus;
    return b && b->kind->settled && !b->kind->settled(b, w->addr);
}

/* Makes progress in a plan with a single thread: runs actors, or waits for streams. Returns false if nothing can
 * happen any more. */
static bool
go_alone(struct worker *w)
{
    if (engine_turn(w, false) || busy(w)) return true;
    if (w->flows.nunder == 0) return false;
    worker_rest(w, waits(w));
    return true;
}

/* Makes progress in a run: on the only thread of a plan, or by the bus, which drives several threads. Returns false
 * if nothing can happen any more. */
static bool
engine_goes_on(struct engine *e)
{
    struct worker *w = &e->worker[0];
    bool alone = w->plan->nthread == 1 && !w->plan->nchannel;
    return alone ? go_alone(w) : e->bus->kind->drive(e->bus, w->addr);
}

/* Takes one step of a run; the session's thread works as device thread 0. Returns false after every thread has sent
 * END. */
bool
engine_step(struct engine *e)
{
    struct worker *w = &e->worker[0];
    if (e->nended >= e->nthread - 1 && !w->active && !unsettled(w)) return false;
    if (!w->stopped && engine_stops(e))
        cancel_run(w);
    else if (!engine_goes_on(e))
        report_deadlock(w);
    if (e->stopped || !w->stopped || !w->outcome.status) return true;
    if (!e->status) e->status = w->outcome.status;
    engine_stop_all(e);
    return true;
}

/* Returns the first worker, by thread number, that failed. A worker that was only cancelled (E_CANCEL) is returned
 * only if no other worker failed. NULL: no failure. */
static const struct worker *
failed_worker(const struct engine *e)
{
    const struct worker *found = NULL;
    for (int t = 0; t < e->nthread; t++) {
        const struct worker *w = &e->worker[t];
        if (w->outcome.status && (!found || (found->outcome.status == E_CANCEL && w->outcome.status != E_CANCEL)))
            found = w;
    }
    return found;
}

static int
outcome(struct engine *e)
{
    const struct worker *w = failed_worker(e);
    if (w) {
        fail((enum err_code)w->outcome.status, "%s", w->outcome.text);
        err_in_module(w->outcome.module);
        return w->outcome.status;
    }
    return atomic_load(&e->cut) ? fail(E_CANCEL, "interrupted") : 0;
}

/* Returns how long tests make an act of this operator sleep, ns. op NULL: the sum over all operators. */
static int64_t
slowness(const struct engine *e, const struct op *op)
{
    int64_t ns = 0;
    for (size_t i = 0; i < countof(e->slow); i++)
        if (!op || e->slow[i].op == op) ns += e->slow[i].ns;
    return ns;
}

/* Returns how long tests make an act of the task sleep, ns. An act of a fused chain sleeps once for each operator of
 * the chain. */
static int64_t
task_slowness(const struct engine *e, const struct plan *p, const struct task *t)
{
    const struct plan_chain *c = t->kind->flags & KIND_NODE ? t->chain : NULL;
    const struct op *op = c ? NULL : task_op(p, t);
    int64_t ns = op ? slowness(e, op) : 0;
    for (int i = 0; c && i < c->nstep; i++) ns += slowness(e, p->program->node[c->member[i]].op);
    return ns;
}

static int
nap(const struct stream_work *w, const struct stream *s)
{
    struct timespec t = {(time_t)(w->piece / 1000000000), (long)(w->piece % 1000000000)};
    UNUSED(s);
    /* sleeps the remaining time after a signal, because a signal does not shorten a kernel */
    while (nanosleep(&t, &t) && errno == EINTR) {
    }
    return 0;
}

/* Makes an act fail or sleep, for tests. If the act runs on a stream, the stream sleeps. */
static int
engine_trouble(void *engine, const struct act *a)
{
    struct engine *e = engine;
    int64_t ns = task_slowness(e, a->plan, a->task);
    if (ns > 0) TRY(stream_enqueue(a->stream, &(struct stream_work){.run = nap, .piece = (uint64_t)ns}));
    if (atomic_load_explicit(&e->fail_in, memory_order_relaxed) > 0 && atomic_fetch_sub(&e->fail_in, 1) == 1)
        return fail(E_KERNEL, "act made to fail by a test");
    return 0;
}

static bool
has_trouble(struct engine *e)
{
    return slowness(e, NULL) > 0 || atomic_load_explicit(&e->fail_in, memory_order_relaxed) > 0;
}

/* Prepares what a run needs and what may be unavailable: threads, communicators, memory, streams and live numbers.
 * After the run has begun, nothing of this can fail. */
static int
prepare_run(struct engine *e, struct run *r)
{
    bool driven = e->bus && !e->bus->kind->threaded;
    assert(engine_follows(e, r));
    if (e->nthread > 1) TRY(start_threads(e, e->nthread));
    TRY(run_connect(r, NULL));
    if (r->poison) poison_begin(r);
    for (int t = 0; t < e->nthread; t++) TRY(worker_capacity(&e->worker[t], r, driven));
    return open_run_put_numbers(&e->worker[0], r);
}

int
engine_begin(struct engine *e, struct run *r)
{
    int nthread = e->options.route ? e->options.threads : r->plan->nthread;
    assert(nthread <= e->options.threads && (!e->options.route || r->plan->nthread == e->options.nroute));
    struct worker *w = &e->worker[0];
    e->nthread = nthread;
    e->nended = 0;
    e->status = 0;
    e->stopped = false;
    r->nth = (uint64_t)++e->runs;
    uint32_t id = e->run_id = r->id ? r->id : e->run_id + 1;
    r->begin_ns = now_ns();
    /* relaxed, because no other store needs an order with these; a full barrier takes 6 ns */
    atomic_store_explicit(&e->interrupted, 0, memory_order_relaxed);
    atomic_store_explicit(&e->aborted, 0, memory_order_relaxed);
    atomic_store_explicit(&e->cut, 0, memory_order_relaxed);
    r->before_act = has_trouble(e) ? engine_trouble : NULL;
    r->hook = e;
    TRY(prepare_run(e, r));
    e->job = r;
    worker_begin(w, r, id);
    if (e->bus && e->bus->kind->admit) e->bus->kind->admit(e->bus, id);
    for (int t = 1; t < nthread; t++) worker_tell(w, e->worker[t].id, MSG_START);
    return 0;
}

int
engine_end(struct engine *e)
{
    stop_ask(NULL, NULL);
    signals_pass();
    /* with one thread, the run ended when the thread last read the clock to charge its time */
    if (e->job) e->job->elapsed_ns = (e->nthread == 1 ? e->worker[0].bill.since_ns : now_ns()) - e->job->begin_ns;
    e->job = NULL;
    return outcome(e);
}

int
engine_run(struct engine *e, struct run *r)
{
    TRY(engine_begin(e, r));
    while (engine_step(e)) {
    }
    return engine_end(e);
}

/* ---- open runs ---- */

uint64_t
engine_last(const struct engine *e)
{
    return (uint64_t)e->runs;
}

struct worker *
engine_first(const struct engine *e)
{
    return (struct worker *)(uintptr_t)&e->worker[0];
}

atomic_int *
engine_interrupts(struct engine *e)
{
    return &e->interrupted;
}

int64_t
engine_acts(const struct engine *e, int thread, const struct act_time **acts)
{
    *acts = e->worker[thread].log.act;
    return e->worker[thread].log.nact;
}

int32_t
engine_blame(const struct engine *e)
{
    const struct worker *w = failed_worker(e);
    return w ? w->outcome.blame : -1;
}

struct engine_count
engine_count(const struct engine *e)
{
    struct engine_count c = {.runs = e->runs};
    for (int t = 0; t < e->options.threads; t++) {
        c.acts += e->worker[t].counts.acts;
        c.messages += e->worker[t].counts.messages;
        c.thread_messages += e->worker[t].counts.thread_messages;
        c.allocations += e->worker[t].counts.allocations;
    }
    return c;
}

void
engine_fail_act(struct engine *e, int64_t k)
{
    atomic_store(&e->fail_in, k);
}

void
engine_slow(struct engine *e, const struct op *op, int64_t ns)
{
    size_t i = 0;
    while (i < countof(e->slow) - 1 && e->slow[i].ns > 0 && e->slow[i].op != op) i++;
    e->slow[i] = (struct slow){op, ns};
}
