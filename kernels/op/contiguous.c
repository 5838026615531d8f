/* contiguous.c - a dense copy of a tensor, wherever its elements lie. */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/tile.h"

static double
real(const struct call *c, const double *x)
{
    UNUSED(c);
    return x[0];
}

static int64_t
integer(const struct call *c, const int64_t *x)
{
    UNUSED(c);
    return x[0];
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    UNUSED(b);
    if (b_wants(n, 0)) din[0] = dout[0];
}

const struct op op_contiguous = {
    .name = "contiguous",
    .doc = "y = x",
    .in = {{"x"}},
    .make_rule = rule_same,
    .linear = "0",
    .increasing = "0",
    .grad = grad,
    .eltwise = {.f = real, .i = integer, .tile = TILE_COPY},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6}", "i64{5}", "bf16{3,2}"},
};
