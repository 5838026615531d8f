/* ceil.c - the least integer that is not less than x. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath_f64.h"
#include "runtime/base/simd.h"

REALS({ return ceil(x[0]); });

INTEGERS({ return x[0]; });

VECTOR static void
ceil_block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    const float *u = x[0];
    for (int64_t i = 0; i < n; i++) y[i] = ceilf(u[i]);
}

const struct op op_ceil = {
    .name = "ceil",
    .doc = "y = ceil x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.accepts = "FI",
    .partial.increasing = "0",
    .grad.build = b_zero_grad,
    .eltwise = {.f = reals,
                .i = integers,
                .f_text = reals_text,
                .i_text = integers_text,
                .block_f32 = ceil_block,
                .block_f64 = f64_ceil},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "i64{5}"},
};
