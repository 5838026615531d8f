/* draws.c - random numbers in a step of several micro-batches. */
#include "actors/session/step/draws.h"

#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "actors/session/step/batch_numbers.h"
#include "actors/session/step/batch_share.h"
#include "kernels/op/lib/table.h"

bool
draws_apart(const struct rille_session *s, const struct node *n)
{
    return n->op->flags & OP_RANDOM && (s->trace.alone || !batch_numbers_known(s));
}

/* Returns the number of consecutive elements of a micro-batch that are consecutive in the batch; 0: unknown. */
static int64_t
run_of(const struct rille_session *s, const struct val *v)
{
    int64_t rows = v->type.dim[v->rows] * (v->blocks < 0 ? -v->blocks : 1);
    int64_t parts = (int64_t)s->trace.segments * (v->blocks > 0 ? v->blocks : 1), inner = 1;
    for (int d = v->rows + 1; d < v->type.ndim; d++) inner *= v->type.dim[d];
    return parts && rows % parts == 0 ? rows / parts * inner : 0;
}

void
draws_set(const struct rille_session *s, struct node *n)
{
    const struct val *y = n->out[0];
    enum batch_share share = batch_share_of(y);
    if (!(n->op->flags & OP_RANDOM) || n->phase != PHASE_FORWARD || draws_apart(s, n)) return;
    bool alike = share == SHARE_WHOLE || share == SHARE_SUM || share == SHARE_MEAN;
    n->attr[op_attr_find(n->op, "run")].i = alike ? -1 : share == SHARE_ROWS ? run_of(s, y) : 0;
    n->attr[op_attr_find(n->op, "micro_batches")].i = trace_microbatches(s);
}
