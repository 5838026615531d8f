/* estimate.c - estimates the time of a task's act on one core with the constants of rates.h: the time for all its
 * operations, or the time for all its bytes, whichever is longer, plus a fixed cost per act. */
#include "actors/plan/outline/estimate.h"
#include "actors/plan/model/rates.h"

#include "sbp/infer.h"

void
call_work(const struct call *c, double *flops, double *bytes)
{
    struct arena tmp = {0};
    struct call plain = {.op = c->op, .nin = c->nin, .nout = c->nout, .in = c->in, .attr = c->attr};
    struct rule rule;
    *flops = *bytes = 0;
    for (int i = 0; i < c->nin; i++) *bytes += (double)type_bytes(&c->in[i]);
    for (int k = 0; k < c->nout; k++) *bytes += (double)type_bytes(&c->out[k]);
    plain.out = (struct type[OP_OUT]){{0}};
    if (c->op->flops)
        *flops = c->op->flops(c);
    else if (!(c->op->flags & OP_SOURCE) && !call_infer(&tmp, &plain, &rule))
        *flops = 2 * rule_points(&rule);
    arena_fini(&tmp);
}

static int64_t
roofline_ns(double flops, double bytes)
{
    return ACT_NS + (int64_t)MAX(flops / FLOPS_PER_NS, bytes / BYTES_PER_NS);
}

int64_t
node_estimate(const struct program *p, int32_t node, struct arena *tmp)
{
    const struct prog_node *n = &p->node[node];
    double bytes, flops;
    int32_t nrank = n->layout[0]->place->nrank;
    call_work(program_call(p, n, tmp), &flops, &bytes);
    return roofline_ns(flops / nrank, bytes / nrank) - ACT_NS;
}

static int64_t
out_bytes(const struct task *t)
{
    int64_t bytes = 0;
    for (int32_t k = 0; k < t->nout; k++) bytes += t->out[k].bytes;
    return bytes;
}

void
plan_estimate(const struct plan *p, int64_t *cost)
{
    struct arena tmp = {0};
    int64_t *node = ARENA_ARRAY(&tmp, int64_t, p->program->nnode + 1);
    for (int32_t i = 0; i < p->program->nnode; i++) node[i] = -1;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        cost[i] = t->kind->flags & KIND_ORDER ? 0 : roofline_ns(0, 2.0 * (double)out_bytes(t));
        if (!(t->kind->flags & KIND_NODE)) continue;
        cost[i] = ACT_NS;
        for (int32_t k = 0; k < (t->chain ? t->chain->nstep : 1); k++) {
            int32_t at = t->chain ? t->chain->member[k] : t->node;
            if (node[at] < 0) node[at] = node_estimate(p->program, at, &tmp);
            cost[i] += node[at];
        }
    }
    arena_fini(&tmp);
}

/* Returns the number of ranks among which the work of a call is divided, from the layout of its result. Mesh axes
 * on which the result is replicated do not divide the work. */
static double
sharing_ranks(const struct layout *l)
{
    double n = 1;
    for (int axis = 0; axis < l->place->naxis; axis++)
        if (l->sbp[axis].kind != SBP_B) n *= l->place->axis[axis];
    return n;
}

static double
node_flops(const struct program *p, int32_t node, struct arena *tmp)
{
    double flops, bytes;
    call_work(program_call(p, &p->node[node], tmp), &flops, &bytes);
    return flops / sharing_ranks(p->node[node].layout[0]);
}

void
plan_flops(const struct plan *p, double *flops)
{
    struct arena tmp = {0};
    double *node = ARENA_ARRAY(&tmp, double, p->program->nnode + 1);
    for (int32_t i = 0; i < p->program->nnode; i++) node[i] = -1;
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        if (!(t->kind->flags & KIND_NODE)) continue;
        for (int32_t k = 0; k < (t->chain ? t->chain->nstep : 1); k++) {
            int32_t at = t->chain ? t->chain->member[k] : t->node;
            if (node[at] < 0) node[at] = node_flops(p->program, at, &tmp);
            flops[t->device] += node[at] * t->nact;
        }
    }
    arena_fini(&tmp);
}
