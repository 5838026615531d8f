/* minimum.c - the lesser element of two tensors; NaN if either is NaN. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

extern const struct op op_eq, op_lt;

REALS({ return x[0] < x[1] || isnan(x[0]) ? x[0] : x[1]; });

INTEGERS({ return x[0] < x[1] ? x[0] : x[1]; });

/* Builds the gradients: the lesser operand gets dy; if both are equal, each gets dy / 2; if either is NaN, each gets
 * dy, as in PyTorch. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *half = b_scale(b, dout[0], 0.5), *none = b_number(b, 0);
    struct val *tie = b_call2(b, &op_eq, n->in[0], n->in[1]);
    for (int i = 0; i < 2; i++) {
        if (!b_wants(n, i)) continue;
        struct val *other = b_call2(b, &op_lt, n->in[!i], n->in[i]);
        din[i] = b_sum_to(b, b_where(b, tie, half, b_where(b, other, none, dout[0])), &n->in[i]->type);
    }
}

const struct op op_minimum = {
    .name = "minimum",
    .doc = "y = min(a, b)",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .partial.increasing = "0|1",
    .grad.build = grad,
    .grad.saves = "01",
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_MINIMUM},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} f32{4,6}", "f32{4,6} f32{6}", "f32{4,1} f32{3,1,5}", "f32{3} #2.5", "i64{3,2}<3 i64{2}<3"},
};
