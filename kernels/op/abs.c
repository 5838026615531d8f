/* abs.c - distance from zero. */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/tile.h"

#include <math.h>

static double
real(const struct call *c, const double *x)
{
    UNUSED(c);
    return fabs(x[0]);
}

static int64_t
integer(const struct call *c, const int64_t *x)
{
    UNUSED(c);
    return x[0] < 0 ? (int64_t)(0 - (uint64_t)x[0]) : x[0];
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_sign(b, n->in[0]));
}

const struct op op_abs = {
    .name = "abs",
    .doc = "y = |x|",
    .in = {{"x"}},
    .make_rule = rule_same,
    .accepts = "FI",
    .grad = grad,
    .saves = "0",
    .eltwise = {.f = real, .i = integer, .tile = TILE_ABS},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "i64{5}"},
};
