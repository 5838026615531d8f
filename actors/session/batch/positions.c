/* positions.c - tensors that count the entries of an axis. */
#include "actors/session/batch/positions.h"

#include "actors/session/build/build.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"
#include "kernels/op/base/table.h"

bool
positions_pass(const struct op *op)
{
    return op->flags & OP_MOVE || op == op_find("unsqueeze") || op == op_find("reshape");
}

/* Returns true if operand i of arange is absent, or is a constant equal to `number`. */
static bool
has_number(const struct node *n, int i, double number)
{
    const struct val *v = i < n->nin ? n->in[i] : NULL;
    if (!v) return true;
    return v->is_number && v->number.kind == NUM_FIXED &&
           (v->number.is_int ? (double)v->number.i : v->number.f) == number;
}

/* Returns the first dimension of size n if all other dimensions have size 1; -1: there is none. */
static int
only_dimension(const struct type *t, int64_t n)
{
    for (int d = 0; d < t->ndim; d++)
        if (t->dim[d] == n && type_numel(t) == n) return d;
    return -1;
}

int
positions_axis(const struct val *v)
{
    const struct node *n = v->node;
    if (!n) return -1;
    if (n->op == op_find("arange")) return has_number(n, 0, 0) && has_number(n, 2, 1) ? 0 : -1;
    int d = positions_pass(n->op) ? positions_axis(n->in[0]) : -1;
    if (d < 0 || n->op->flags & OP_MOVE) return d;
    if (n->op == op_find("reshape")) return only_dimension(&v->type, n->in[0]->type.dim[d]);
    return d + (n->attr[op_attr_find(n->op, "axis")].i <= d);
}

int
positions_refuse(const struct rille_session *s, const struct op *op, int nin, struct val *const *in)
{
    return build_refuse(
        E_PLAN, op, nin, in,
        "%s: an operand is rille.arange(n) with n = the number of rows, which counts the rows of one of "
        "%d micro-batches, not of the batch; it can only select an entry of each row, "
        "x[{rille.arange(n), ids}]. Pass the positions to the step as an argument, or count in "
        "rille.per_micro_batch(fn)",
        op->name, trace_microbatches(s));
}

int
rille_tensor_counts(const struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return -1;
    return positions_axis(t->val);
}
