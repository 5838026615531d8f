/* repeats.c - finds values that are the same for all indices of a dimension. */
#include "actors/session/batch/repeats.h"

#include "kernels/op/base/table.h"
#include "runtime/base/error.h"
#include "runtime/data/arena.h"
#include "sbp/infer.h"
#include "sbp/rule.h"

enum { MOST_VALUES = 4096, MOST_OPERANDS = 4 };

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

/* Returns true for operators whose values do not depend on the position along a dimension that may be split. */
static bool
ignores_positions(const struct op *op)
{
    static const char *const names[] = {"layer_norm", "log_softmax", "matmul", "mean",    "permute",   "reshape",
                                        "rms_norm",   "softmax",     "sum",    "squeeze", "transpose", "unsqueeze"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (op == op_find(names[i])) return true;
    return false;
}

/* Returns the dimension of an operand that consists of this factor alone; -1: the operand lacks the factor; -2: a
 * dimension merges the factor with others. */
static int
dim_of_factor(const struct rule_operand *o, int factor)
{
    for (int d = 0; d < o->ndim; d++)
        for (int k = 0; k < o->dim[d].nfactor; k++)
            if (o->dim[d].factor[k] == factor) return o->dim[d].nfactor == 1 ? d : -2;
    return -1;
}

static bool repeats_within(const struct val *v, int axis, int *left);

/* Returns true if, by the rule of the call that makes v, the dimension comes from operands that repeat along it. */
static bool
repeats_by_rule(const struct val *v, int axis, int *left)
{
    const struct node *n = v->node;
    struct type in[MOST_OPERANDS] = {0}, out[OP_OUT] = {0};
    struct call c = {.op = n->op, .nin = n->nin, .nout = n->nout, .in = in, .out = out, .attr = n->attr};
    struct arena a = {0};
    struct rule rule;
    if (n->nin > MOST_OPERANDS || !ignores_positions(n->op)) return false;
    for (int i = 0; i < n->nin; i++)
        if (n->in[i]) in[i] = n->in[i]->type;
    bool same = !call_infer(&a, &c, &rule) && rule.operand[rule.nin].dim[axis].nfactor == 1;
    if (!same) err_clear();
    int factor = same ? rule.operand[rule.nin].dim[axis].factor[0] : 0;
    same = same && !rule.factor[factor].unsplit && rule.factor[factor].in_input;
    for (int i = 0; same && i < n->nin; i++) {
        int d = n->in[i] && !rule.operand[i].ignored ? dim_of_factor(&rule.operand[i], factor) : -1;
        same = d == -1 || (d >= 0 && repeats_within(n->in[i], d, left));
    }
    arena_fini(&a);
    return same;
}

/* Returns the result of value_repeats(); false after *left values have been visited. */
static bool
repeats_within(const struct val *v, int axis, int *left)
{
    const struct node *n = v->node;
    if (v->is_number) return v->number.kind == NUM_FIXED || v->number.kind == NUM_LIVE;
    if (axis < 0 || v->type.dim[axis] == 1 || is_uniform(v)) return true;
    if (!n || !n->traced || n->op->flags & OP_RANDOM || --*left < 0) return false;
    bool aligned = n->op->flags & OP_ELTWISE || n->op == op_find("cast") || n->op == op_find("to_global");
    if (!aligned && n->op != op_find("expand")) return repeats_by_rule(v, axis, left);
    for (int i = 0; i < n->nin; i++)
        if (n->in[i] && !repeats_within(n->in[i], axis - (v->type.ndim - n->in[i]->type.ndim), left)) return false;
    return true;
}

bool
value_repeats(const struct val *v, int axis)
{
    int left = MOST_VALUES;
    return repeats_within(v, axis, &left);
}
