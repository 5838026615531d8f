/* credit.c - how many registers each result has. Registers are the credits, and credits are the schedule (stage.h). */
#include "actors/plan/lower.h"

static struct moment
moment_of(const struct draft *d)
{
    return (struct moment){.stage = d->task.stage, .phase = d->task.phase};
}

/* What the reader of an edge asks: data that goes from stage to stage wants two, so that one is filled while one is
 * read. Devices of one stage wait for each other within a piece anyhow; what is brought aside, or back, stands ahead of
 * its readers instead (bring.c): registers of one each share bytes. */
static int32_t
asked_by(const struct lower *l, const struct draft *from, const struct draft *to)
{
    int32_t n = outline_credits(l->outline, moment_of(from), moment_of(to));
    bool crosses = to->task.device != from->task.device && to->task.stage != from->task.stage &&
                   !task_brings(l->plan, &to->task) && !task_brings(l->plan, &from->task);
    return crosses ? MAX(n, MIN(2, l->program->pieces)) : n;
}

/* A result that comes once a piece, and lies in the arena. */
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

/* The tasks of one virtual stage on one device between which a piece is in a pool. */
struct span {
    int32_t entry, last[2]; /* of forward; of backward and of weight gradients: -1, there is none */
};

static void
find_spans(const struct lower *l, struct span *span, int32_t nstage)
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

/* A stage takes a piece when it has room for it, and has room again when backward is done with one, and weight
 * gradients with another: a register without bytes says so where those that have some begin too late. */
void
credit_pools(struct lower *l)
{
    const struct outline *o = l->outline;
    int32_t nstage = o->stages.n, n = l->plan->ndevice * nstage;
    if (l->program->pieces == 1) return;
    struct span *span = ARENA_ARRAY(&l->pass, struct span, n + 1);
    find_spans(l, span, nstage);
    for (int32_t i = 0; i < n; i++)
        for (int k = 0; k < 2; k++) {
            int32_t entry = span[i].entry, last = span[i].last[k];
            if (entry < 0 || last <= entry) continue;
            order_credit(l, entry, last, outline_credits(o, moment_of(&l->draft[entry]), moment_of(&l->draft[last])));
        }
}

/* Tasks of one group work on a piece one after the other, and no two pieces are in it at a time: where forward waits
 * for backward anyhow (one credit), all of a stage; else a phase of it. */
int32_t
credit_group(const struct lower *l, const struct draft *d)
{
    struct moment forward = {d->task.stage, PHASE_FORWARD}, backward = {d->task.stage, PHASE_BACKWARD},
                  weight = {d->task.stage, PHASE_WEIGHT};
    bool alone =
        outline_credits(l->outline, forward, backward) == 1 && outline_credits(l->outline, forward, weight) == 1;
    return d->task.stage * (PHASE_BATCH + 1) + (alone ? 0 : d->task.phase);
}
