/* relu.c - what is above zero. */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/tile.h"

static double
real(const struct call *c, const double *x)
{
    UNUSED(c);
    return x[0] <= 0 ? 0 : x[0]; /* NaN stays */
}

static int64_t
integer(const struct call *c, const int64_t *x)
{
    UNUSED(c);
    return x[0] <= 0 ? 0 : x[0];
}

/* dx = dy where y > 0 */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_where(b, n->out[0], dout[0], b_number(b, 0));
}

const struct op op_relu = {
    .name = "relu",
    .doc = "y = max(x, 0)",
    .in = {{"x"}},
    .make_rule = rule_same,
    .accepts = "FI",
    .increasing = "0",
    .grad = grad,
    .saves = "a",
    .eltwise = {.f = real, .i = integer, .tile = TILE_RELU},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "i64{5}"},
};
