/* abs.c - absolute value, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

/* Returns zero for a subnormal number. A comparison flushes a subnormal number to zero, but fabs alone would keep
 * its nonzero bits (runtime/base/denormal.h). */
REALS({ return x[0] == 0 ? 0 : fabs(x[0]); });

INTEGERS({ return x[0] < 0 ? (int64_t)(0 - (uint64_t)x[0]) : x[0]; });

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_sign(b, n->in[0]));
}

const struct op op_abs = {
    .name = "abs",
    .doc = "y = |x|",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.accepts = "FI",
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_ABS},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "i64{5}"},
};
