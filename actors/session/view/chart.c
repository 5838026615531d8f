/* chart.c - makes the data for a picture of a compiled step's schedule, as planned (simulated) or as measured.
 *
 * With several hosts, the plan is the merged plan of all hosts, and the act times come from the hosts' reports
 * (cluster_view.h).
 *
 * Consecutive acts of one device with equal stage, micro-batch and kind of work form a span. The simulation uses
 * costs from the caller, mean measured times, or estimates. */
#include "actors/plan/outline/estimate.h"
#include "actors/plan/sim/account.h"
#include "actors/plan/sim/lower_bound.h"
#include "actors/session/core/face.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/step/chart_costs.h"
#include "actors/session/step/compiled.h"

#include <stdlib.h>
#include <string.h>

enum work { FORWARD, BACKWARD, WEIGHT, UPDATE, MOVE, NWORK };
static const char *const work_text[NWORK] = {"forward", "backward", "weight", "update", "move"};

static enum work
task_work(const struct plan *p, int32_t task)
{
    const struct task *t = &p->task[task];
    if (t->kind->flags & KIND_MOVE) return MOVE;
    static const enum work of[] = {
        [PHASE_FORWARD] = FORWARD, [PHASE_BACKWARD] = BACKWARD, [PHASE_WEIGHT] = WEIGHT, [PHASE_BATCH] = UPDATE};
    return of[t->phase];
}

static bool
is_once(const struct plan *p, int32_t task)
{
    return p->task[task].nact < p->pieces || p->task[task].phase == PHASE_BATCH;
}

/* Returns the kind of work for which a task has a cost. A task that runs once per batch counts as UPDATE, because it
 * belongs to no micro-batch. */
static enum work
chart_task_cost(const struct plan *p, int32_t task)
{
    return is_once(p, task) ? UPDATE : task_work(p, task);
}

struct charting {
    const struct rille_graph *g;
    const struct plan *p;
    const struct act_time *act; /* act times of the last timed run */
    int64_t nact;
    struct rille_chart *c;
    struct arena *a;
    int64_t *cost;  /* cost by task, ns */
    bool *computes; /* by device: true if some tasks of the device do more than move values */
};

/* ---- costs of tasks ---- */

/* Returns the index of the task's group. The user gives one cost per group: the tasks of one device, stage and
 * kind of work. */
static int32_t
task_group(const struct charting *x, int32_t task)
{
    const struct task *t = &x->p->task[task];
    return (t->device * x->c->nstage + t->stage) * NWORK + (int32_t)chart_task_cost(x->p, task);
}

/* Returns the cost that the user gave for a group of tasks, ns. If the stage's input needs no gradient, all of
 * backward counts as weight gradient. */
static double
given_for(const struct rille_chart_costs *given, const double *weight, int32_t group)
{
    const double of[NWORK] = {given->forward, given->backward, given->weight, given->update, given->move};
    enum work work = (enum work)(group % NWORK);
    bool joint = work == WEIGHT && weight[group - WEIGHT + BACKWARD] == 0;
    return 1e9 * (of[work] + (joint ? given->backward : 0));
}

/* Distributes each group's given cost over its tasks, in proportion to their estimated costs. Carries rounding
 * errors over to the next task, so that the sum is exact. */
static void
given_costs(struct charting *x, const struct rille_chart_costs *given)
{
    int32_t ngroup = x->p->ndevice * x->c->nstage * NWORK;
    double *weight = ARENA_ARRAY(x->a, double, ngroup + 1), *before = ARENA_ARRAY(x->a, double, ngroup + 1);
    for (int32_t i = 0; i < x->p->ntask; i++)
        if (!(x->p->task[i].kind->flags & KIND_ORDER)) weight[task_group(x, i)] += (double)x->cost[i] + 1;
    for (int32_t i = 0; i < x->p->ntask; i++) {
        int32_t k = task_group(x, i);
        double ns = given_for(given, weight, k), share = (double)x->cost[i] + 1;
        x->cost[i] = x->p->task[i].kind->flags & KIND_ORDER ? 0 : (int64_t)ns;
        if (k % NWORK == MOVE || x->cost[i] == 0) continue;
        int64_t until = (int64_t)(ns * (before[k] + share) / weight[k] + 0.5);
        x->cost[i] = until - (int64_t)(ns * before[k] / weight[k] + 0.5);
        before[k] += share;
    }
}

/* Computes mean costs per micro-batch over devices and stages, and the mean cost per move, in seconds. Skips a
 * stage whose backward computes only weight gradients, because the stage's time for input gradients is unknown. */
static void
mean_costs(struct charting *x)
{
    double *const to[NWORK] = {&x->c->forward, &x->c->backward, &x->c->weight, NULL, NULL};
    int32_t ngroup = x->p->ndevice * x->c->nstage * NWORK, nforward = 0, nbackward = 0, nmove = 0;
    double *ns = ARENA_ARRAY(x->a, double, ngroup + 1), moves = 0;
    for (int32_t i = 0; i < x->p->ntask; i++) {
        bool hop = chart_task_cost(x->p, i) == MOVE && x->cost[i] > 0;
        ns[task_group(x, i)] += (double)x->cost[i];
        moves += hop ? (double)x->cost[i] : 0;
        nmove += hop;
    }
    for (int32_t k = 0; k < ngroup; k += NWORK) {
        nforward += ns[k + FORWARD] > 0;
        nbackward += ns[k + BACKWARD] > 0;
    }
    for (int32_t k = 0; k < ngroup; k++) {
        enum work work = (enum work)(k % NWORK);
        bool joint = work == WEIGHT && nbackward && ns[k - WEIGHT + BACKWARD] == 0;
        int32_t n = (work == BACKWARD || work == WEIGHT) && nbackward ? nbackward : nforward;
        if (to[work] && n && !joint) *to[work] += ns[k] * 1e-9 / n;
    }
    x->c->moving = nmove ? moves * 1e-9 / nmove : 0;
}

/* ---- joining acts into spans ---- */

struct placed { /* an act (task execution), and the device in whose row of the picture it is drawn */
    int32_t device;
    struct act_time act;
};

static int
compare_chart_devices(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->act.begin != y->act.begin) return x->act.begin < y->act.begin ? -1 : 1;
    return (x->act.end > y->act.end) - (x->act.end < y->act.end);
}

static struct rille_chart_span
span_of(const struct charting *x, const struct act_time *act, int64_t begin)
{
    const struct task *t = &x->p->task[act->task];
    return (struct rille_chart_span){.device = t->device,
                                     .stage = t->stage,
                                     .piece = is_once(x->p, act->task) ? -1 : act->piece,
                                     .what = work_text[task_work(x->p, act->task)],
                                     .begin = (double)(act->begin - begin) * 1e-9,
                                     .end = (double)(act->end - begin) * 1e-9};
}

static bool
goes_on(const struct rille_chart_span *s, const struct rille_chart_span *t, double slack)
{
    return s->device == t->device && s->stage == t->stage && s->piece == t->piece && s->what == t->what &&
           t->begin - s->end <= slack;
}

static void
find_chart_spans(struct charting *x, const struct act_time *act, int64_t nact, const struct account *o,
                 struct rille_chart_run *r)
{
    struct placed *sorted = must_alloc(sizeof *sorted * (size_t)(nact + 1));
    for (int64_t i = 0; i < nact; i++) sorted[i] = (struct placed){x->p->task[act[i].task].device, act[i]};
    qsort(sorted, (size_t)nact, sizeof *sorted, compare_chart_devices);
    r->span = ARENA_ARRAY(x->a, struct rille_chart_span, nact + 1);
    for (int64_t i = 0; i < nact; i++) {
        struct rille_chart_span s = span_of(x, &sorted[i].act, o->begin);
        if (s.begin == s.end) continue;
        if (r->nspan && goes_on(&r->span[r->nspan - 1], &s, r->time / 500))
            r->span[r->nspan - 1].end = MAX(r->span[r->nspan - 1].end, s.end);
        else
            r->span[r->nspan++] = s;
    }
    free(sorted);
}

/* ---- printing stalls as text ---- */

static void
print_chart_task(const struct charting *x, int32_t task, int32_t stage, struct str *s)
{
    const struct task *t = &x->p->task[task];
    static const char *const of[] = {"", ", backward", ", weight gradients", ""};
    str_add(s, t->name);
    if (t->blame_node >= 0 && x->g->runner->run.line[t->blame_node].file)
        str_addf(s, " (%s:%d)", x->g->runner->run.line[t->blame_node].file,
                 (int)x->g->runner->run.line[t->blame_node].line);
    str_add(s, of[t->phase]);
    if (t->stage != stage && t->phase != PHASE_BATCH) str_addf(s, " of stage %d", (int)t->stage);
}

static void
print_stall(const struct charting *x, const struct stall *t, double share, struct str *s)
{
    str_addf(s, "stage %d ", (int)t->stage);
    switch (t->kind) {
    case STALL_INPUT:
        str_addf(s, "waited %.0f %% for ", 100 * share);
        print_chart_task(x, t->on, t->stage, s);
        break;
    case STALL_REGISTER:
        str_addf(s, "waited %.0f %% for a register of ", 100 * share);
        print_chart_task(x, t->task, t->stage, s);
        str_add(s, ", which was still read by ");
        print_chart_task(x, t->on, t->stage, s);
        break;
    case STALL_TURN:
        str_addf(s, "waited %.0f %% for %s", 100 * share,
                 x->c->natonce < x->c->ncompute ? "its thread, which other devices share"
                                                : "messages or for a free core");
        break;
    case STALL_END: str_addf(s, "had no work for the last %.0f %% of the time", 100 * share); break;
    }
}

static void
tell_stalls(struct charting *x, const struct account *o, struct rille_chart_run *r)
{
    struct str s = {0};
    r->stall = ARENA_ARRAY(x->a, struct rille_chart_stall, o->nstall + 1);
    for (int32_t i = 0; i < o->nstall; i++) {
        const struct stall *t = &o->stall[i];
        double share = (double)t->ns / MAX(1.0, (double)(o->end - o->begin) * t->ndevice);
        if (share < 0.005 || t->stage < 0) continue;
        str_clear(&s);
        print_stall(x, t, share, &s);
        r->stall[r->nstall++] =
            (struct rille_chart_stall){.stage = t->stage, .share = share, .text = arena_strdup(x->a, str_text(&s))};
    }
    str_free(&s);
}

/* ---- filling in the chart ---- */

/* Returns the share of `time` in which the computing devices are idle. */
static double
idle_share(const struct charting *x, const double *busy, double time)
{
    double sum = 0;
    for (int32_t d = 0; d < x->p->ndevice; d++) sum += x->computes[d] ? busy[d] : 0;
    return time > 0 ? MAX(0.0, 1 - sum / (time * x->c->ncompute)) : 0;
}

static void
tell_run(struct charting *x, const struct act_time *act, int64_t nact, struct rille_chart_run *r)
{
    struct account o;
    plan_account(x->p, act, nact, RILLE_CHART_POINTS, x->a, &o);
    r->time = (double)(o.end - o.begin) * 1e-9;
    r->busy = ARENA_ARRAY(x->a, double, x->p->ndevice + 1);
    for (int32_t d = 0; d < x->p->ndevice; d++) r->busy[d] = (double)o.busy[d] * 1e-9;
    r->bubble = idle_share(x, r->busy, r->time);
    r->memory = o.memory;
    find_chart_spans(x, act, nact, &o, r);
    tell_stalls(x, &o, r);
}

/* Marks the devices that do more than move values. If no device does, marks all devices. */
static void
find_computing(struct charting *x)
{
    x->computes = ARENA_ARRAY(x->a, bool, x->p->ndevice + 1);
    for (int32_t i = 0; i < x->p->ntask; i++)
        if (!(x->p->task[i].kind->flags & (KIND_MOVE | KIND_ORDER))) x->computes[x->p->task[i].device] = true;
    for (int32_t d = 0; d < x->p->ndevice; d++) x->c->ncompute += x->computes[d];
    if (x->c->ncompute) return;
    x->c->ncompute = x->p->ndevice;
    for (int32_t d = 0; d < x->p->ndevice; d++) x->computes[d] = true;
}

static void
tell_devices(struct charting *x)
{
    struct rille_chart *c = x->c;
    c->device = ARENA_ARRAY(x->a, struct rille_chart_device, x->p->ndevice + 1);
    c->nstage = 1;
    for (int32_t i = 0; i < x->p->ntask; i++) c->nstage = MAX(c->nstage, x->p->task[i].stage + 1);
    c->ndevice = x->p->ndevice;
    c->nthread = x->p->nthread;
    c->pieces = x->p->pieces;
    find_computing(x);
    c->natonce = MIN(plan_at_once(x->p), c->ncompute);
    c->split = x->p->program->split;
    c->lag = x->p->program->lag;
    for (int32_t d = 0; d < c->ndevice; d++)
        c->device[d] = (struct rille_chart_device){.kind = device_kind_text(x->p->device[d].kind),
                                                   .device = x->p->device[d].rank,
                                                   .thread = x->p->device[d].thread,
                                                   .arena = x->p->device[d].arena_bytes};
}

/* Fills in the memory for activations of the schedule and of 1F1B, and the share of results that is recomputed. */
static void
report_search(struct charting *x)
{
    struct rille_chart *c = x->c;
    struct schedule_search_costs costs = {1e9 * c->forward, 1e9 * c->backward, 1e9 * c->weight, 1e9 * c->moving, false};
    struct schedule_search_result d;
    if (c->forward <= 0 || !schedule_search_read(x->p->program, &costs, &d)) return;
    c->activations = d.bytes;
    c->activations_1f1b = d.base;
    c->again = d.again;
}

/* Sets a lower bound of the share of idle time: no schedule of the same work is idle for a smaller share. */
static void
tell_bound(struct charting *x, const struct act_time *act, int64_t nact)
{
    double least = 1e-9 * (double)lower_bound_of_plan(x->p, act, nact);
    x->c->bound = idle_share(x, x->c->planned.busy, least);
}

static int
tell_planned(struct charting *x, const struct rille_chart_costs *costs)
{
    struct act_time *act;
    int64_t nact;
    x->cost = ARENA_ARRAY(x->a, int64_t, x->p->ntask + 1);
    plan_estimate(x->p, x->cost);
    if (costs)
        given_costs(x, costs);
    else
        x->c->reckoned = !account_costs(x->p, x->act, x->nact, x->cost);
    mean_costs(x);
    report_search(x);
    struct lane_rows rows;
    struct plan_sim_options how = {.share = PLAN_SIM_DEVICES};
    how.jitter.share = costs ? costs->jitter : account_jitter(x->act, x->nact, x->cost);
    TRY(plan_sim_rows(x->p, x->cost, &how, x->a, &rows));
    how.rows = &rows;
    how.jitter = (struct plan_sim_jitter){costs ? costs->jitter : 0, costs ? (uint64_t)costs->seed : 0};
    TRY(plan_sim_run(x->p, x->cost, &how, x->a, &act, &nact));
    tell_run(x, act, nact, &x->c->planned);
    tell_bound(x, act, nact);
    return 0;
}

/* Gets the merged plan and the acts of all shown hosts. */
static int
gather_chart(struct charting *x)
{
    struct whole w;
    TRY(cluster_view_whole(x->g->s, x->g->runner, x->g->times.act, x->g->times.nact, false, x->a, &w));
    x->p = w.plan;
    x->act = w.act;
    x->nact = w.nact;
    return 0;
}

int
rille_graph_chart(struct rille_graph *g, const struct rille_chart_costs *costs, struct rille_chart **out)
{
    TRY(face_graph(g, __func__));
    TRY(face_given(out, "out", __func__));
    if (costs) TRY(chart_costs_check(costs));
    struct charting x = {.g = g, .c = must_alloc(sizeof *x.c)};
    x.a = x.c->memory = must_alloc(sizeof *x.a);
    x.c->call = g->times.timed_call;
    x.c->ncall = g->times.ncall;
    g->times.watched = true;
    int status = gather_chart(&x);
    if (!status) tell_devices(&x);
    if (!status) status = tell_planned(&x, costs);
    if (!status && x.nact) tell_run(&x, x.act, x.nact, &x.c->measured);
    if (status) rille_chart_free(&x.c);
    *out = x.c;
    return status;
}

void
rille_chart_free(struct rille_chart **cp)
{
    if (face_given(cp, "the pointer to the chart", __func__)) return;
    struct rille_chart *c = *cp;
    *cp = NULL;
    if (!c) return;
    arena_fini(c->memory);
    free(c->memory);
    free(c);
}
