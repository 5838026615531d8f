/* relu.c - the rectified linear unit: x if x > 0, else 0. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({
    return x[0] <= 0 ? 0 : x[0]; /* NaN passes unchanged */
});

INTEGERS({ return x[0] <= 0 ? 0 : x[0]; });

/* Builds dx: dy where y > 0, elsewhere 0. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_where(b, n->out[0], dout[0], b_number(b, 0));
}

const struct op op_relu = {
    .name = "relu",
    .doc = "y = max(x, 0)",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.accepts = "FI",
    .partial.increasing = "0",
    .grad.build = grad,
    .grad.saves = "a",
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_RELU},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "i64{5}"},
};
