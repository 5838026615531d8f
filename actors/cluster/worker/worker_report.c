/* worker_report.c - reads the flight recorders of a worker's device threads (recorder.h), for heartbeats and
 * reports.
 *
 * The run's plan is valid while `shared.run.plan` is set, and the recorders are valid while `shared.bus_end` is set.
 * Task numbers from a recorder are checked against the plan, because recorders are read while they change. */
#include "actors/cluster/worker/worker_report.h"

#include "actors/act/bus/message.h"
#include "actors/plan/model/plan.h"
#include "runtime/data/arena.h"
#include "runtime/device/device.h"

/* Returns the task of the k-th last act of a thread in the current run (k = 0: the last act); NULL: there is none.
 * Sets *over to true if the kernel call of the act has returned. */
static const struct task *
last_task(const struct worker_process *w, int thread, uint64_t k, bool *over)
{
    const struct plan *p = w->shared.run.plan;
    int32_t task;
    bool any = p && recorder_last(w->main.recorder[thread], w->shared.run.id, k, &task, over);
    return any && task >= 0 && task < p->ntask ? &p->task[task] : NULL;
}

void
worker_report_progress(struct worker_process *w)
{
    uint32_t done = w->shared.ndone;
    int32_t node = -1;
    for (int t = 0; w->shared.bus_end && t < w->main.nlocal; t++) {
        struct recorder *r = w->main.recorder[t];
        bool over = true;
        const struct task *task = last_task(w, t, 0, &over);
        done += (uint32_t)(atomic_load_explicit(&r->nbegun, memory_order_relaxed) +
                           atomic_load_explicit(&r->nended, memory_order_relaxed));
        if (task && !over) node = task->blame_node;
    }
    member_progress(w->member, done, node);
}

/* ---- the report ---- */

struct account { /* the answer to ASK, while it is written */
    struct str lines;
    bool works;
    int rank; /* worker for which a thread waits; -1: none */
};

static const char *
task_text(const struct task *t)
{
    return t->name ? t->name : "a move";
}

static void
print_device_of(const struct plan *p, int32_t device, struct str *out)
{
    str_addf(out, "%s:%d", device_kind_text(p->device[device].kind), (int)p->device[device].rank);
}

/* Writes the task for which a thread waits, and the worker of that task. */
static void
report_wait(const struct worker_process *w, uint64_t wait, struct account *a)
{
    const struct plan *p = w->shared.run.plan;
    int32_t task = (int32_t)(wait >> 32) - 1, by = (int32_t)wait - 1;
    if (task < 0 || task >= p->ntask || by < 0 || by >= p->ntask) {
        str_add(&a->lines, " waits for messages\n");
        return;
    }
    int rank = addr_process(w->main.route[p->task[by].thread]);
    str_addf(&a->lines, " waits with %s for %s on ", task_text(&p->task[task]), task_text(&p->task[by]));
    print_device_of(p, p->task[by].device, &a->lines);
    str_addf(&a->lines, " of worker %d\n", rank);
    if (a->rank < 0 && rank != member_rank(w->member)) a->rank = rank;
}

/* Writes what a thread does: running an act, waiting for its stream, or waiting for another thread. */
static void
report_state(const struct worker_process *w, int thread, struct account *a)
{
    struct recorder *r = w->main.recorder[thread];
    bool over = true;
    const struct task *t = last_task(w, thread, 0, &over);
    uint64_t left = atomic_load(&r->nbegun) - atomic_load(&r->nended);
    bool streams = t && left && device_kind(w->shared.run.plan->device[t->device].kind)->stream_new;
    a->works |= t && (!over || streams);
    if (t && !over)
        str_addf(&a->lines, " runs %s\n", task_text(t));
    else if (streams)
        str_addf(&a->lines, " waits for its stream, the last act is %s\n", task_text(t));
    else
        report_wait(w, atomic_load(&r->wait), a);
}

static void
report_thread(const struct worker_process *w, int thread, struct account *a)
{
    const struct plan *p = w->shared.run.plan;
    const struct task *t;
    bool over = true;
    int32_t d = 0;
    while (d < p->ndevice && w->main.route[p->device[d].thread] != addr_of(member_rank(w->member), thread)) d++;
    if (d == p->ndevice) return;
    t = last_task(w, thread, 0, &over);
    str_addf(&a->lines, "%d ", t && !over ? (int)t->blame_node : -1);
    print_device_of(p, d, &a->lines);
    report_state(w, thread, a);
    for (uint64_t k = !over; k < RECORDER_ACTS && (t = last_task(w, thread, k, &over)); k++)
        str_addf(&a->lines, "%d   before: %s\n", (int)t->blame_node, task_text(t));
}

/* Writes what the main thread does when no run is in progress. */
static void
report_work(const struct worker_process *w, struct account *a)
{
    static const char *const text[NWORK] = {[WORK_MAKE] = "makes memory for its host",
                                            [WORK_FORM] = "maps the memory of its host",
                                            [WORK_PROGRAM] = "compiles a program",
                                            [WORK_START] = "begins or ends a run"};
    const char *idle = w->shared.orders.first ? "does not begin its work" : "waits for messages";
    const char *what = w->shared.busy ? text[w->shared.work] : idle;
    a->works |= w->shared.busy;
    str_addf(&a->lines, "-1 the worker %s\n", what ? what : "handles a message");
}

void
worker_report(struct worker_process *w)
{
    struct account a = {.rank = -1};
    if (w->files.current) {
        a.works = true;
        str_addf(&a.lines, "-1 %s the file ", w->files.current->packet.kind == PACKET_SAVE ? "writes" : "reads");
        span_print(w->files.current->packet.text, &a.lines);
        str_add(&a.lines, "\n");
    }
    if (!w->shared.run.plan) report_work(w, &a);
    for (int t = 0; w->shared.run.plan && w->shared.bus_end && t < w->main.nlocal; t++) report_thread(w, t, &a);
    member_report(w->member, a.works, a.rank, &a.lines);
    str_free(&a.lines);
}
