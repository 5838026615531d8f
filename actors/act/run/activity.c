/* activity.c - reports, for signal handlers, what a device thread computes and waits for.
 *
 * In worker.shown.acting, a thread publishes the task whose kernel it computes. While the thread only waits for
 * streams, it publishes in worker.shown.awaited the first task whose stream work is incomplete; the task may belong
 * to an open run. Both words are atomic. A thread sets `awaited` before it waits, and clears `awaited` before the
 * run returns, or before the wait for open runs returns. No plan is freed before that, so a handler never reads a
 * freed plan. */
#include "actors/act/run/activity.h"

#include "actors/act/run/actor.h"
#include "actors/act/run/engine_inner.h"
#include "actors/act/run/inspect.h"
#include "actors/act/run/open_run.h"

#include "runtime/base/clock.h"
#include "runtime/device/device.h"

#include <stdatomic.h>

/* Returns the first act in flight on stream f whose work is not complete; NULL: none. If f is NULL, searches all
 * streams of the thread. */
static const struct under_way *
first_under_way(const struct worker *w, const struct flow *f)
{
    const struct under_way *first = NULL;
    for (int i = 0; i < w->flows.nflow; i++) {
        const struct flow *at = &w->flows.flow[i];
        int64_t k = at->first;
        if (f && f != at) continue;
        while (k < at->next && stream_passed(at->stream, at->act[k % FLOW_ACTS].mark)) k++;
        if (k == at->next) continue;
        const struct under_way *u = &at->act[k % FLOW_ACTS];
        if (!first || u->order < first->order) first = u;
    }
    return first;
}

static struct line
act_line(const struct run *r, const struct task *t)
{
    return t->blame_node >= 0 ? r->line[t->blame_node] : (struct line){0};
}

/* Publishes the task that the thread waits for. A concurrent reader sees the previous task, no task, or the new
 * task. */
static void
set_awaited(struct awaited *a, const struct act *act, struct line at)
{
    if (atomic_load(&a->task) == act->task && atomic_load(&a->file) == at.file && atomic_load(&a->line) == at.line)
        return;
    atomic_store(&a->task, NULL);
    atomic_store(&a->plan, act->plan);
    atomic_store(&a->file, at.file);
    atomic_store(&a->line, at.line);
    atomic_store(&a->task, act->task);
}

void
activity_await(struct worker *w, const struct flow *f)
{
    const struct under_way *u = first_under_way(w, f);
    if (!u) {
        activity_await_nothing(w);
        return;
    }
    set_awaited(&w->shown.awaited, &u->act, open_run_has(w, u) ? u->at : act_line(w->run, u->act.task));
}

void
activity_await_nothing(struct worker *w)
{
    if (atomic_load(&w->shown.awaited.task)) atomic_store(&w->shown.awaited.task, NULL);
}

/* ---- text ---- */

/* Appends text to a buffer that ends at `end`, and returns the end of the text. Signal handlers must not call
 * printf, so this file has functions for text. */
static char *
put_status_text(char *at, const char *end, const char *text)
{
    while (*text && at < end) *at++ = *text++;
    return at;
}

static char *
put_number(char *at, const char *end, int n)
{
    char digit[12];
    int k = 0;
    do digit[k++] = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    while (k > 0 && at < end) *at++ = digit[--k];
    return at;
}

/* Appends the name of a task and its source line to the text, and returns the new end. */
static char *
put_task(char *at, const char *end, const struct task *t, struct line line)
{
    at = put_status_text(at, end, t->name ? t->name : "a move");
    if (!line.file) return at;
    at = put_status_text(put_status_text(at, end, " ("), end, line.file);
    return put_status_text(put_number(put_status_text(at, end, ":"), end, line.line), end, ")");
}

static char *
put_device(char *at, const char *end, const struct plan_device *d)
{
    at = put_status_text(put_status_text(at, end, " on "), end, device_kind_text(d->kind));
    return put_number(put_status_text(at, end, ":"), end, d->rank);
}

/* Prints the name and source line of a task, and its device if the device has streams. */
static void
print_doing_task(const struct plan *p, const struct task *t, struct line line, char *text, size_t size)
{
    const struct plan_device *d = &p->device[t->device];
    char *end = text + size - 1, *at = put_task(text, end, t, line);
    if (device_kind(d->kind)->stream_new) at = put_device(at, end, d);
    *at = '\0';
}

void
activity_print(const struct plan *p, const struct run *r, int32_t i, char *text, size_t size)
{
    print_doing_task(p, &p->task[i], act_line(r, &p->task[i]), text, size);
}

void
activity_thread(const struct worker *w, char *text, size_t size)
{
    const struct awaited *a = &w->shown.awaited;
    const struct task *t = atomic_load(&a->task);
    int acting = atomic_load(&w->shown.acting);
    *text = '\0';
    if (acting)
        activity_print(w->plan, w->run, acting - 1, text, size);
    else if (t)
        print_doing_task(atomic_load(&a->plan), t,
                         (struct line){.file = atomic_load(&a->file), .line = atomic_load(&a->line)}, text, size);
}

/* Returns the task on another thread that blocks task i: the producer of a missing input, or a reader that still
 * uses an output register. *reads: set to true if the result is such a reader. -1: none. */
static int32_t
waited_for(const struct actors *a, int32_t i, bool *reads)
{
    const struct task *task = a->plan->task, *t = &task[i];
    for (int32_t k = 0; k < t->nin; k++) {
        int32_t by = t->in[k].task;
        if (task[by].thread != t->thread && inspect_in(a, i, k)) return *reads = false, by;
    }
    for (int32_t k = 0; k < t->nresult; k++) {
        int32_t by = inspect_reader(a, i, k);
        if (by >= 0 && task[by].thread != t->thread) return *reads = true, by;
    }
    return -1;
}

void
activity_record_wait(struct worker *w)
{
    const struct plan *p = w->plan;
    bool reads;
    for (int32_t k = 0; k < p->nlocal[w->id]; k++) {
        int32_t i = p->local[w->id][k];
        int32_t by = inspect_begun(w->actors, i) < p->task[i].nact ? waited_for(w->actors, i, &reads) : -1;
        if (by < 0) continue;
        recorder_wait(w->recorder, i, by);
        return;
    }
    recorder_wait(w->recorder, -1, -1);
}

/* Prints the first blocked task of a thread. Other threads may change their state meanwhile, so the text may be
 * slightly out of date, but every value in the text was once valid. */
void
activity_waiting(const struct run *r, int thread, char *text, size_t size)
{
    const struct plan *p = r->plan;
    const char *end = text + size - 1;
    *text = '\0';
    for (int32_t i = 0, by; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        bool reads;
        if (t->thread != thread || inspect_begun(r->actors, i) >= t->nact) continue;
        if ((by = waited_for(r->actors, i, &reads)) < 0) continue;
        const struct task *other = &p->task[by];
        char *at = put_status_text(put_task(text, end, t, act_line(r, t)), end, " waits for ");
        at = put_device(put_task(at, end, other, act_line(r, other)), end, &p->device[other->device]);
        *put_status_text(at, end, reads ? " to read" : "") = '\0';
        return;
    }
}

/* ---- busy time ---- */

/* Returns the device to which the session's thread is charged at the start of a run: its first device. -1: it is
 * another thread, or a thread with streams, whose devices are charged when their work begins. */
static int32_t
device_at_start(const struct worker *w)
{
    if (w != engine_first(w->engine) || w->flows.nflow > 0) return -1;
    int32_t d = 0;
    while (d < w->plan->ndevice && w->plan->device[d].thread != w->id) d++;
    return d < w->plan->ndevice ? d : -1;
}

void
activity_bill_start(struct worker *w)
{
    w->bill.on = device_at_start(w);
    w->bill.since_ns = w->run->begin_ns;
}

void
activity_bill_at(struct worker *w, int32_t device, int64_t now)
{
    if (w->bill.on >= 0) w->actors->busy_ns[w->bill.on] += now - w->bill.since_ns;
    w->bill.on = device;
    w->bill.since_ns = now;
}

void
activity_bill(struct worker *w, int32_t device)
{
    if (w->bill.on != device) activity_bill_at(w, device, now_ns());
}
