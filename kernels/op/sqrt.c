/* sqrt.c - the square root. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/eltwise.h"

#include "kernels/cpu/vmath_f64.h"
#include "runtime/simd.h"

REALS({ return sqrt(x[0]); });

VECTOR static void
sqrt_block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    const float *u = x[0];
    for (int64_t i = 0; i < n; i++) y[i] = sqrtf(u[i]);
}

/* dx = dy / (2 y) */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_div(b, b_scale(b, dout[0], 0.5), n->out[0]);
}

const struct op op_sqrt = {
    .name = "sqrt",
    .doc = "y = sqrt x",
    .in = {{"x"}},
    .make_rule = rule_same,
    .dtype = OUT_FLOAT,
    .grad = grad,
    .saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = sqrt_block, .block_f64 = f64_sqrt},
    .flags = OP_ELTWISE | OP_BOUNDED_DOMAIN,
    .sample = {"f32{4,6}>0.1", "f32{7}>0.5", "f64{3}>0.1", "i64{4}<9"},
};
