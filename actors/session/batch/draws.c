/* draws.c - random numbers in a step of several micro-batches. */
#include "actors/session/batch/draws.h"

#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "actors/session/batch/batch_numbers.h"
#include "actors/session/batch/share.h"
#include "kernels/op/base/table.h"

bool
draws_apart(const struct rille_session *s, const struct node *n)
{
    if (!(n->op->flags & OP_RANDOM)) return false;
    if (n->phase != PHASE_FORWARD) return n->attr[op_attr_find(n->op, "run")].i >= 0;
    return s->trace.alone || !batch_numbers_known(s);
}

/* Returns how many consecutive elements of a micro-batch are consecutive in the batch, too; 0: unknown. */
static int64_t
draws_run_of(const struct rille_session *s, const struct val *v)
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
    n->attr[op_attr_find(n->op, "run")].i = alike ? -1 : share == SHARE_ROWS ? draws_run_of(s, y) : 0;
    n->attr[op_attr_find(n->op, "micro_batches")].i = trace_microbatches(s);
}

static bool
is_aligned(const struct op *op)
{
    return op->flags & (OP_ELTWISE | OP_MOVE) || op == op_find("cast");
}

/* Returns true if v has rows, and if v is computed element by element from random numbers, constants and values
 * without rows. */
static bool
is_drawn(const struct val *v)
{
    const struct node *n = v->node;
    if (v->is_number || v->input >= 0 || !n || !n->traced || batch_share_of(v) != SHARE_ROWS) return false;
    if (n->op->flags & OP_SOURCE) return true;
    if (!is_aligned(n->op)) return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && batch_share_of(n->in[i]) != SHARE_WHOLE && !is_drawn(n->in[i])) return false;
    return true;
}

static void
adopt(const struct rille_session *s, struct val *v, int rows, int blocks)
{
    struct node *n = v->node;
    v->rows = (uint8_t)rows;
    v->blocks = (int16_t)blocks;
    draws_set(s, n);
    for (int i = 0; i < n->nin && !(n->op->flags & OP_SOURCE); i++) {
        struct val *x = n->in[i];
        int axis = x ? rows - (v->type.ndim - x->type.ndim) : -1;
        if (axis >= 0 && is_drawn(x)) adopt(s, x, axis, blocks);
    }
}

void
draws_adopt(const struct rille_session *s, const struct op *op, int nin, struct val *const *in)
{
    const struct val *like = NULL;
    if (!is_aligned(op)) return;
    for (int i = 0; i < nin && !like; i++)
        if (in[i] && !in[i]->is_number && batch_share_of(in[i]) == SHARE_ROWS && !is_drawn(in[i])) like = in[i];
    if (!like || like->input >= 0) return;
    for (int i = 0; i < nin; i++) {
        int axis = in[i] ? like->rows - (like->type.ndim - in[i]->type.ndim) : -1;
        if (axis < 0 || !is_drawn(in[i]) || in[i]->type.dim[axis] != like->type.dim[like->rows]) continue;
        if (in[i]->rows != axis || in[i]->blocks != like->blocks) adopt(s, in[i], axis, like->blocks);
    }
}
