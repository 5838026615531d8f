/* logical_and.c - are both not zero? */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/op_impl.h"

#include "kernels/cpu/simd.h"

static double
real(const struct call *c, const double *x)
{
    UNUSED(c);
    return x[0] != 0 && x[1] != 0;
}

static int64_t
whole(const struct call *c, const int64_t *x)
{
    UNUSED(c);
    return x[0] != 0 && x[1] != 0;
}

VECTOR static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    const float *u = x[0], *v = x[1];
    for (int64_t i = 0; i < n; i++) y[i] = (u[i] != 0) & (v[i] != 0);
}

const struct op op_logical_and = {
    .name = "logical_and",
    .doc = "y = (a != 0 and b != 0)",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .make_rule = rule_broadcast,
    .dtype = OUT_BOOL,
    .grad = b_flat,
    .eltwise = {.f = real, .i = whole, .block_f32 = block},
    .flags = OP_ELTWISE,
    .sample = {"bool{4,6} bool{4,6}", "bool{4,1} bool{3,1,5}", "f32{6} f32{4,6}", "i64{3}<2 #1"},
};
