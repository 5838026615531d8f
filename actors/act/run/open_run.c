/* open_run.c - runs that end while their work is still on streams, and the run that follows.
 *
 *   run n     begins . . . ends                        its last acts are in flight: it is open
 *   host               |      reads none of their results, begins n + 1
 *   run n + 1                 begins . . . . . . . ends
 *   streams   n n n n n n n n n n n n n n n|n+1 n+1 n+1 n+1 ...
 *
 * When run n ends, each flow still holds at most FLOW_ACTS of its acts, ahead of all other work on the stream. Run n
 * does not wait for these acts, so no actor is notified of their completion. Run n + 1 may use the same plan,
 * because the actors are already reset. Run n ends only when run n - OPEN_RUNS is complete.
 *
 * The streams of run n + 1 synchronise before their first work. One stream waits for the device's other streams, and
 * copies the live numbers of run n + 1 over those of run n. The other streams wait until these numbers are copied. */
#include "actors/act/run/open_run.h"

#include "actors/act/run/activity.h"
#include "actors/act/run/actor.h"
#include "actors/act/run/address.h"
#include "actors/act/run/engine_inner.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/tensor/view.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#ifndef FAULT /* t/lib/plan/faults.h compiles this file with deliberate bugs, which the tests must detect */
#define FAULT(mistake) false
#endif

bool
run_may_stay_open(const struct run *r)
{
    const struct plan *p = r->plan;
    bool alone = p->ndevice == 1 && p->nthread == 1 && p->nchannel == 0 && r->actors->ncommunicator == 0;
    return alone && device_kind(p->device[0].kind)->stream_new && !r->timed && !r->poison;
}

/* ---- leave acts in flight at the end of a run ---- */

/* Saves the source lines of acts in flight, because the next run of the plan may have been called from other lines. */
static void
keep_lines(const struct worker *w, const struct flow *f)
{
    for (int64_t i = f->first; i < f->next; i++) {
        struct under_way *u = &f->act[i % FLOW_ACTS];
        if (u->run < w->number) continue; /* the act is of an earlier run; its line was saved at the end of that run */
        int32_t node = u->act.task->blame_node;
        u->at = node >= 0 ? w->run->line[node] : (struct line){0};
    }
}

void
open_run_leave(struct worker *w)
{
    for (int i = 0; i < w->flows.nflow; i++) {
        if (flow_empty(&w->flows.flow[i])) continue;
        keep_lines(w, &w->flows.flow[i]);
        stream_show(w->flows.flow[i].stream);
    }
    w->flows.nleft = w->flows.nunder;
}

/* Returns an act of the oldest earlier run whose work is still on streams; NULL: there is no such run. */
static const struct under_way *
first_left(const struct worker *w)
{
    const struct under_way *first = NULL;
    for (int i = 0; i < w->flows.nflow; i++) {
        const struct under_way *u = flow_empty(&w->flows.flow[i]) ? NULL : flow_oldest(&w->flows.flow[i]);
        if (u && open_run_has(w, u) && (!first || u->run < first->run)) first = u;
    }
    return first;
}

uint64_t
open_run_first(const struct worker *w)
{
    const struct under_way *u = w->flows.nleft > 0 ? first_left(w) : NULL;
    return u ? u->run : w->number;
}

/* Charge device time to runs. Each moment is charged to one run, the oldest run with work in flight: time_begins()
 * begins a run's busy time, and time_ends() ends it. busy_ns is reduced by the begin time and increased by the end
 * time, so it is negative while work is in flight. Both functions do nothing if the struct run is used for a later
 * run now. */
static void
time_ends(struct run *r, uint64_t number, int64_t now)
{
    if (r->nth != number) return;
    if (r->actors->busy_ns[0] < 0) r->actors->busy_ns[0] += now;
    r->elapsed_ns = now - r->begin_ns;
}

static void
time_begins(struct run *r, uint64_t number, int64_t now, bool works)
{
    if (r->nth != number) return;
    if (works) r->actors->busy_ns[0] -= now;
    r->begin_ns = now;
}

/* Stores the error of an open run, which has ended but whose work has failed on a stream. The current run, if there
 * is one, ends with this error, because it reads invalid results. If no run is active, the next wait for open runs
 * reports the error. */
static void
keep_run_failure(struct worker *w, const struct under_way *u, int status)
{
    struct open_runs *l = &w->open;
    bool first = l->failed == 0;
    l->failed = first ? u->run : MIN(l->failed, u->run);
    if (!first) return;
    if (status != E_CANCEL) line_blame(&u->at, status);
    snprintf(l->text, sizeof l->text, "%s", err_text());
    if (w->active && !w->stopped) {
        w->outcome.status = status;
        w->stopped = true;
        w->outcome.module = u->at.module;
        memcpy(w->outcome.text, l->text, sizeof w->outcome.text);
    } else {
        l->status = status;
    }
}

void
open_run_finish(struct worker *w, struct flow *f)
{
    struct under_way u = *flow_oldest(f);
    int status = stream_trouble(f->stream, u.mark);
    int64_t now = now_ns();
    if (status) keep_run_failure(w, &u, status);
    f->first++;
    f->until_ns = now;
    w->flows.nunder--;
    w->flows.nleft--;
    const struct under_way *next = first_left(w);
    if (next && next->run <= u.run) return; /* the run of u, or an earlier run, still has work in flight */
    time_ends(u.of, u.run, now);
    if (next)
        time_begins(next->of, next->run, now, true);
    else if (w->active)
        time_begins(w->run, w->number, now, w->flows.nunder > 0);
}

void
open_run_check(struct worker *w, const struct flow *f)
{
    for (int64_t i = f->first; i < f->next; i++) {
        const struct under_way *u = &f->act[i % FLOW_ACTS];
        if (!open_run_has(w, u)) continue;
        int status = stream_trouble(f->stream, u->mark);
        if (status) keep_run_failure(w, u, status);
        time_ends(u->of, u->run, now_ns());
    }
}

/* ---- order the next run behind open runs ---- */

static int
put_numbers(const struct stream_work *w, const struct stream *s)
{
    const struct put *p = w->of;
    struct view_rows row = {.nrow = 1, .row = p->bytes, .to = p->bytes, .from = p->bytes};
    bool begun = false;
    if (s->kind->carry) TRY(s->kind->carry(s->device, p->to, p->from, &row, &begun));
    return begun ? 0 : s->kind->copy(p->to, p->from, p->bytes);
}

/* Reserves host memory for the live numbers that a stream will copy to the device. The memory is pinned if the host
 * has GPUs. */
static int
put_room(struct put *p, size_t bytes)
{
    const struct device_kind *host = device_kind(DEV_CPU);
    if (bytes <= p->capacity) return 0;
    host->give(0, p->from, p->capacity);
    p->capacity = MAX(bytes, (size_t)PINNED);
    p->from = host->take(0, p->capacity);
    if (p->from) return 0;
    p->capacity = 0;
    return fail(E_MEMORY, "out of memory for the live numbers of a run: %zu bytes on the host", bytes);
}

void
open_run_free(struct worker *w)
{
    for (size_t i = 0; i < countof(w->open.put); i++)
        device_kind(DEV_CPU)->give(0, w->open.put[i].from, w->open.put[i].capacity);
}

/* Enqueues the copy of a run's live numbers. Every run has a buffer for this, because copies of open runs may still
 * be in flight. */
static int
enqueue_numbers(struct worker *w, const struct run *r, struct stream *s)
{
    struct put *p = &w->open.put[w->open.nput++ % countof(w->open.put)];
    p->bytes = run_numbers(r, 0, &p->to);
    if (p->bytes == 0) return 0;
    TRY(put_room(p, p->bytes));
    memcpy(p->from, r->number, p->bytes);
    struct stream_work work = {.run = put_numbers, .of = p, .launches = true};
    return FAULT(EARLY_NUMBERS) ? s->kind->copy(p->to, p->from, p->bytes) : stream_enqueue(s, &work);
}

static void
wait_for_left(const struct worker *w, struct stream *s)
{
    for (int i = 0; i < w->flows.nflow; i++) {
        const struct flow *f = &w->flows.flow[i];
        int64_t all = stream_mark(f->stream);
        if (f->stream != s && !flow_empty(f) && !stream_passed(f->stream, all)) stream_wait(s, f->stream, all);
    }
}

static int
order_behind(struct worker *w, const struct run *r)
{
    struct stream *first = NULL;
    for (int role = 0; role < NSTREAM; role++) {
        const struct flow *f = w->flows.of_device[role];
        if (!f) continue;
        if (first) {
            stream_wait(f->stream, first, stream_mark(first));
            continue;
        }
        first = f->stream;
        if (!FAULT(NO_ORDER)) wait_for_left(w, first);
        TRY(enqueue_numbers(w, r, first));
        stream_show(first);
    }
    return 0;
}

int
open_run_put_numbers(struct worker *w, const struct run *r)
{
    if (w->flows.nleft > 0) return order_behind(w, r);
    for (int32_t d = 0; d < r->plan->ndevice; d++) {
        void *at;
        size_t n = run_numbers(r, d, &at);
        if (n) TRY(device_kind(r->plan->device[d].kind)->copy(at, r->number, n));
    }
    return 0;
}

/* ---- waiting ---- */

uint64_t
engine_done(const struct engine *e)
{
    const struct worker *w = engine_first(e);
    return w->flows.nleft > 0 ? open_run_first(w) - 1 : engine_last(e);
}

bool
engine_follows(const struct engine *e, const struct run *r)
{
    const struct worker *w = engine_first(e);
    const struct plan_device *d = &r->plan->device[0];
    bool same = true;
    for (int i = 0; i < w->flows.nflow && w->flows.nleft > 0; i++) {
        const struct flow *f = &w->flows.flow[i];
        bool its = f->kind == d->kind && f->rank == d->rank;
        same = same && (its ? r->actors->naddress <= f->naddress : flow_empty(f));
    }
    return w->flows.nleft == 0 || (r->stays_open && same);
}

/* Waits until open runs, which left work on streams, are complete: those up to run `number` or, after a failure,
 * all. */
static int
await_left(struct engine *e, uint64_t number, bool must)
{
    struct worker *w = engine_first(e);
    while (w->flows.nleft > 0 && (engine_done(e) < number || w->open.failed)) {
        if (worker_complete(w) || worker_drive(w)) continue;
        if (!must && atomic_load(engine_interrupts(e))) return fail(E_CANCEL, "interrupted");
        activity_await(w, NULL);
        worker_rest(w, 0);
    }
    for (int i = 0; i < w->flows.nflow && w->flows.nleft == 0; i++) {
        int64_t all = stream_mark(w->flows.flow[i].stream);
        flow_await(w, &w->flows.flow[i], all);
        if (w->open.failed) stream_trouble(w->flows.flow[i].stream, all);
    }
    return 0;
}

int
engine_await(struct engine *e, uint64_t number, bool must)
{
    assert(!engine_first(e)->active);
    atomic_store_explicit(engine_interrupts(e), 0, memory_order_relaxed);
    int status = await_left(e, number, must);
    activity_await_nothing(engine_first(e));
    return status;
}

int
engine_left(struct engine *e)
{
    struct open_runs *l = &engine_first(e)->open;
    int status = l->status;
    l->status = 0;
    return status ? fail((enum err_code)status, "%s", l->text) : 0;
}

uint64_t
engine_left_failed(struct engine *e)
{
    struct open_runs *l = &engine_first(e)->open;
    uint64_t failed = l->failed;
    l->failed = 0;
    return failed;
}
