/* repeats.c - finds values that are the same for all indices of a dimension. */
#include "actors/session/batch/repeats.h"

#include "kernels/op/base/table.h"

/* Returns true if all elements of v are known to be equal. */
static bool
is_uniform(const struct val *v)
{
    const struct node *n = v->node;
    if (v->is_number) return v->number.kind == NUM_FIXED || v->number.kind == NUM_LIVE;
    if (!n || !n->traced || n->op->flags & OP_RANDOM) return false;
    if (n->op == op_find("full") || n->op == op_find("zeros") || n->op == op_find("ones")) return true;
    bool passes = n->op->flags & (OP_ELTWISE | OP_VIEW) || n->op == op_find("cast") || n->op == op_find("to_global");
    for (int i = 0; passes && i < n->nin; i++) passes = !n->in[i] || is_uniform(n->in[i]);
    return passes;
}

bool
value_repeats(const struct val *v, int axis)
{
    const struct node *n = v->node;
    if (v->is_number) return v->number.kind == NUM_FIXED || v->number.kind == NUM_LIVE;
    if (axis < 0 || v->type.dim[axis] == 1 || is_uniform(v)) return true;
    if (!n || !n->traced || n->op->flags & OP_RANDOM) return false;
    bool aligned = n->op->flags & OP_ELTWISE || n->op == op_find("cast") || n->op == op_find("to_global");
    if (!aligned && n->op != op_find("expand")) return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && !value_repeats(n->in[i], axis - (v->type.ndim - n->in[i]->type.ndim))) return false;
    return true;
}
