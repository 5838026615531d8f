/* sqrt.c - the square root, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return sqrt(x[0]); });

/* Builds dx = dy / (2 y). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_div(b, b_scale(b, dout[0], 0.5), n->out[0]);
}

const struct op op_sqrt = {
    .name = "sqrt",
    .doc = "y = sqrt x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .tile = TILE_SQRT},
    .flags = OP_ELTWISE | OP_BOUNDED_DOMAIN,
    .sample = {"f32{4,6}>0.1", "f32{7}>0.5", "f64{3}>0.1", "i64{4}<9"},
};
