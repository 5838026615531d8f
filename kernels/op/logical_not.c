/* logical_not.c - is it zero? */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/tile.h"

static double
real(const struct call *c, const double *x)
{
    UNUSED(c);
    return x[0] == 0;
}

static int64_t
integer(const struct call *c, const int64_t *x)
{
    UNUSED(c);
    return x[0] == 0;
}

const struct op op_logical_not = {
    .name = "logical_not",
    .doc = "y = (x == 0)",
    .in = {{"x"}},
    .make_rule = rule_same,
    .dtype = OUT_BOOL,
    .grad = b_zero_grad,
    .eltwise = {.f = real, .i = integer, .tile = TILE_NOT},
    .flags = OP_ELTWISE,
    .sample = {"bool{4,6}", "f32{7}", "i64{5}<2"},
};
