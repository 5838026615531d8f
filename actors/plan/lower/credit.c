/* credit.c - sets the number of registers of each result. Registers are credits, and the number of credits defines
 * the schedule (stage.h). */
#include "actors/plan/lower/credit.h"
#include "actors/plan/lower/order.h"
#include "actors/plan/lower/draft.h"

static struct moment
draft_moment(const struct draft *d)
{
    return (struct moment){.stage = d->task.stage, .phase = d->task.phase};
}

/* Returns the number of registers that the reader of an edge needs: the number of micro-batches between producer
 * and reader, plus one. If the edge leads to another stage on another device, at least two, so that one is written
 * while the other is read. Devices of one stage wait for each other within a micro-batch, so their data needs one
 * register. Offloads and fetches need one register, so that their values can share bytes; offload.c puts them ahead
 * of their readers in the list instead. */
static int32_t
asked_by(const struct lower *l, const struct draft *from, const struct draft *to)
{
    int32_t n = outline_credits(l->outline, draft_moment(from), draft_moment(to));
    bool crosses = to->task.device != from->task.device && to->task.stage != from->task.stage &&
                   !task_fetches(l->plan, &to->task) && !task_fetches(l->plan, &from->task);
    return crosses ? MAX(n, MIN(2, l->program->pieces)) : n;
}

/* Returns true if the result is stored in the arena and is made once per micro-batch. */
static bool
has_credits(const struct draft *d, const struct out_port *o)
{
    return o->where.kind == IN_ARENA && !draft_once(d);
}

void
credit_registers(struct lower *l)
{
    if (l->program->pieces == 1) return;
    for (int32_t i = 0; i < l->ndraft; i++)
        for (const struct edge *e = l->draft[i].in; e; e = e->next) {
            struct draft *from = &l->draft[e->task];
            struct out_port *o = &from->out[e->out];
            if (has_credits(from, o)) o->nreg = MAX(o->nreg, asked_by(l, from, &l->draft[i]));
        }
}

/* ---- pools ---- */

/* The first and last tasks of a micro-batch in one virtual stage, on one device. */
struct span {
    /* entry: first task of forward; last: last task of backward [0] and of weight gradients [1]; -1: none */
    int32_t entry, last[2];
};

static void
find_credit_spans(const struct lower *l, struct span *span, int32_t nstage)
{
    for (int32_t i = 0; i < l->plan->ndevice * nstage; i++) span[i] = (struct span){-1, {-1, -1}};
    for (int32_t i = 0; i < l->ndraft; i++) {
        const struct task *t = &l->draft[i].task;
        struct span *s = &span[t->device * nstage + t->stage];
        if (t->nact == 1 || !(t->kind->flags & (KIND_NODE | KIND_ONCE_A_BATCH))) continue;
        if (t->phase == PHASE_FORWARD && s->entry < 0 && t->kind->flags & KIND_NODE) s->entry = i;
        if (t->phase == PHASE_BACKWARD) s->last[0] = i;
        if (t->phase == PHASE_WEIGHT) s->last[1] = i;
    }
}

/* Limits the number of micro-batches in a stage by two kinds of credits: from forward to backward, and from forward
 * to weight gradients. The stage admits a micro-batch if a credit of each kind is free. These credits are registers
 * without bytes. Registers with bytes cannot limit the stage, because a micro-batch may fill them long after it has
 * entered. */
void
credit_pools(struct lower *l)
{
    const struct outline *o = l->outline;
    int32_t nstage = o->stages.n, n = l->plan->ndevice * nstage;
    if (l->program->pieces == 1) return;
    struct span *span = ARENA_ARRAY(&l->pass, struct span, n + 1);
    find_credit_spans(l, span, nstage);
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            int32_t entry = span[i].entry, last = span[i].last[k];
            if (entry < 0 || last <= entry) continue;
            order_credit(l, entry, last,
                         outline_credits(o, draft_moment(&l->draft[entry]), draft_moment(&l->draft[last])));
        }
}

/* Returns the group of a task; the tasks of a group work on one micro-batch at a time. Normally each phase of a
 * stage is a group. If the stage has only one credit, the complete stage is one group, because forward then waits
 * for backward. */
int32_t
credit_group(const struct lower *l, const struct draft *d)
{
    struct moment forward = {d->task.stage, PHASE_FORWARD}, backward = {d->task.stage, PHASE_BACKWARD},
                  weight = {d->task.stage, PHASE_WEIGHT};
    bool alone =
        outline_credits(l->outline, forward, backward) == 1 && outline_credits(l->outline, forward, weight) == 1;
    return d->task.stage * (PHASE_BATCH + 1) + (alone ? 0 : d->task.phase);
}
