/* credit.c - how many registers each result has. Registers are the credits, and credits are the schedule (stage.h). */
#include "actors/plan/lower.h"

static struct moment
moment_of(const struct draft *d)
{
    return (struct moment){.stage = d->task.stage, .phase = d->task.phase};
}

/* What the reader of an edge asks: data that crosses devices wants two, so that one is filled while one is read. */
static int32_t
asked_by(const struct lower *l, const struct draft *from, const struct draft *to)
{
    int32_t n = outline_credits(l->outline, moment_of(from), moment_of(to));
    return to->task.device == from->task.device ? n : MAX(n, MIN(2, l->program->pieces));
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
