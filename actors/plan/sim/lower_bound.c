/* lower_bound.c - computes the makespan of Jackson's preemptive schedule for one lane, which is a lower bound for
 * all schedules (Jackson 1955; Carlier 1982). Jackson's schedule always runs the released act with the longest
 * tail, and preempts acts with shorter tails. */
#include "actors/plan/sim/lower_bound.h"

#include "runtime/data/heap.h"

#include <stdlib.h>

static int
by_head(const void *a, const void *b)
{
    const struct lower_bound_acts *x = a, *y = b;
    return (x->head > y->head) - (x->head < y->head);
}

int64_t
lower_bound_of_lane(struct lower_bound_acts *acts, int32_t n)
{
    struct arena tmp = {0};
    struct heap open = heap_for(n, &tmp);
    int64_t now = 0, floor = 0;
    if (n) qsort(acts, (size_t)n, sizeof *acts, by_head);
    for (int32_t i = 0; i < n || open.n;) {
        if (!open.n) now = MAX(now, acts[i].head);
        for (; i < n && acts[i].head <= now; i++) heap_push(&open, UINT64_MAX - (uint64_t)acts[i].tail, i);
        struct lower_bound_acts *x = &acts[open.value[0]];
        int64_t does = i < n ? MIN(x->work, acts[i].head - now) : x->work;
        now += does;
        x->work -= does;
        if (x->work > 0) continue;
        floor = MAX(floor, now + x->tail);
        heap_take(&open, 0);
    }
    arena_fini(&tmp);
    return floor;
}

/* ---- the bound of a plan ---- */

/* Durations of a task's acts. least: the shortest act, ns; all: sum of all acts, ns; nact: number of acts. */
struct took {
    int64_t least, all;
    int32_t nact;
};

static struct took *
count_acts(const struct plan *p, const struct act_time *act, int64_t nact, struct arena *a)
{
    struct took *took = ARENA_ARRAY(a, struct took, p->ntask + 1);
    for (int64_t i = 0; i < nact; i++) {
        struct took *t = &took[act[i].task];
        int64_t ns = act[i].end - act[i].begin;
        t->least = t->nact ? MIN(t->least, ns) : ns;
        t->all += ns;
        t->nact++;
    }
    return took;
}

static int64_t
lane_bound_ns(const struct took *t, int64_t nact)
{
    return nact >= t->nact ? t->all : t->least * nact;
}

static bool
carries_data(const struct plan *p, const struct in_port *in)
{
    return in->out < p->task[in->task].nresult;
}

/* Computes the heads (least times before) of all tasks in one pass over the list, and the tails (least times after)
 * in another. One pass each suffices, because edges point forward in the list. The tail of a producer includes all
 * acts of a reader that use one register. */
static void
find_lane_ends(const struct plan *p, const struct took *took, struct lower_bound_acts *acts)
{
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            if (!carries_data(p, in)) continue;
            int64_t before = lane_bound_ns(&took[in->task], p->task[in->task].out[in->out].every);
            acts[i].head = MAX(acts[i].head, acts[in->task].head + before);
        }
    for (int32_t i = p->ntask - 1; i >= 0; i--)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            int64_t behind = lane_bound_ns(&took[i], in->hold) + acts[i].tail;
            if (carries_data(p, in)) acts[in->task].tail = MAX(acts[in->task].tail, behind);
        }
}

int64_t
lower_bound_of_plan(const struct plan *p, const struct act_time *act, int64_t nact)
{
    struct arena tmp = {0};
    struct took *took = count_acts(p, act, nact, &tmp);
    struct lower_bound_acts *acts = ARENA_ARRAY(&tmp, struct lower_bound_acts, p->ntask + 1),
                            *sorted = ARENA_ARRAY(&tmp, struct lower_bound_acts, p->ntask + 1);
    struct plan_sim_lanes lanes = plan_sim_lanes(p, PLAN_SIM_DEVICES, &tmp);
    int32_t *first = ARENA_ARRAY(&tmp, int32_t, lanes.n + 2);
    int64_t floor = 0;
    find_lane_ends(p, took, acts);
    for (int32_t i = 0; i < p->ntask; i++) {
        acts[i].work = took[i].all;
        first[lanes.of[i] + 2]++;
    }
    for (int32_t k = 0; k < lanes.n; k++) first[k + 1] += first[k];
    for (int32_t i = 0; i < p->ntask; i++) sorted[first[lanes.of[i] + 1]++] = acts[i];
    for (int32_t k = 0; k < lanes.n; k++) {
        int64_t own = lower_bound_of_lane(sorted + first[k], first[k + 1] - first[k]);
        floor = MAX(floor, own);
    }
    arena_fini(&tmp);
    return floor;
}
