/* neg.c - the negative of each element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return -x[0]; });

INTEGERS({ return (int64_t)(0 - (uint64_t)x[0]); });

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_neg(b, dout[0]);
}

const struct op op_neg = {
    .name = "neg",
    .doc = "y = -x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.accepts = "FI",
    .partial.linear = "0",
    .partial.decreasing = "0",
    .grad.build = grad,
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_NEG},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{}", "i32{5}", "bf16{0,3}"},
};
