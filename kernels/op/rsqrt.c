/* rsqrt.c - the reciprocal of the square root. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return 1 / sqrt(x[0]); });

/* Builds dx = -dy y^3 / 2. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *y = n->out[0];
    din[0] = b_mul(b, b_scale(b, dout[0], -0.5), b_mul(b, y, b_square(b, y)));
}

const struct op op_rsqrt = {
    .name = "rsqrt",
    .doc = "y = 1 / sqrt x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .tile = TILE_RSQRT},
    .flags = OP_ELTWISE | OP_BOUNDED_DOMAIN,
    .sample = {"f32{4,6}>0.1", "f32{7}>0.5", "f64{3}>0.1"},
};
