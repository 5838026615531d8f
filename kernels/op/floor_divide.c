/* floor_divide.c - the quotient rounded towards minus infinity, as in Lua. Integer division by zero is an error. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/divisor.h"
#include "kernels/op/lib/eltwise.h"

#include "runtime/base/simd.h"

REALS({ return floor(x[0] / x[1]); });

INTEGERS({
    if (x[1] == 0) return 0;                              /* never used, because op_divisor has rejected 0 */
    if (x[1] == -1) return (int64_t)(0 - (uint64_t)x[0]); /* INT64_MIN / -1 wraps around to INT64_MIN */
    return x[0] / x[1] - (x[0] % x[1] != 0 && (x[0] < 0) != (x[1] < 0));
});

VECTOR static void
floor_divide_block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    const float *u = x[0], *v = x[1];
    for (int64_t i = 0; i < n; i++) y[i] = floorf(u[i] / v[i]);
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    return divide_integer(b, c, in, DIVIDE_QUOTIENT, out);
}

const struct op op_floor_divide = {
    .name = "floor_divide",
    .doc = "y = floor(a / b); integers must not be divided by 0",
    .errors = "a and b must not both be of bools\n"
              "integers must not be divided by 0",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.infer = infer_no_truth,
    .build = build,
    .grad.build = b_zero_grad,
    .eltwise =
        {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .block_f32 = floor_divide_block},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6} f32{4,6}>0.5", "f32{5} #0.75", "i64{3,2}<30 i64{2}>1", "i64{6} #3"},
};
