/* reciprocal.c - 1 / x, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return 1 / x[0]; });

/* Builds dx = -dy y^2. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_neg(b, b_mul(b, dout[0], b_square(b, n->out[0])));
}

const struct op op_reciprocal = {
    .name = "reciprocal",
    .doc = "y = 1 / x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .tile = TILE_RECIPROCAL},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}>0.5", "f32{7}>0.5", "f64{3}>0.5"},
};
