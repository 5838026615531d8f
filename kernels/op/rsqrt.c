/* rsqrt.c - the reciprocal of the square root. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/eltwise.h"

#include "kernels/cpu/vmath_f64.h"
#include "runtime/simd.h"

REALS({ return 1 / sqrt(x[0]); });

VECTOR static void
rsqrt_block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    const float *u = x[0];
    for (int64_t i = 0; i < n; i++) y[i] = 1.0f / sqrtf(u[i]);
}

/* dx = -dy y^3 / 2 */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *y = n->out[0];
    din[0] = b_mul(b, b_scale(b, dout[0], -0.5), b_mul(b, y, b_square(b, y)));
}

const struct op op_rsqrt = {
    .name = "rsqrt",
    .doc = "y = 1 / sqrt x",
    .in = {{"x"}},
    .make_rule = rule_same,
    .dtype = OUT_FLOAT,
    .grad = grad,
    .saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = rsqrt_block, .block_f64 = f64_rsqrt},
    .flags = OP_ELTWISE | OP_BOUNDED_DOMAIN,
    .sample = {"f32{4,6}>0.1", "f32{7}>0.5", "f64{3}>0.1"},
};
