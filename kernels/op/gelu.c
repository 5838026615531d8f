/* gelu.c - the Gaussian error linear unit: exact, or its approximation with tanh. */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/vmath.h"
#include "kernels/cpu/vmath_f64.h"

#include <math.h>

enum { APPROXIMATE };
enum { EXACT, TANH };

static double
real(const struct call *c, const double *x)
{
    double v = x[0];
    if (v == -INFINITY) return -0.0; /* not -inf times 0 */
    if (c->attr[APPROXIMATE].i == EXACT) return 0.5 * v * erfc(-v * M_SQRT1_2);
    return 0.5 * v * (1 + tanh(sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}

static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    if (c->attr[APPROXIMATE].i == EXACT)
        vec_gelu(n, x[0], y);
    else
        vec_gelu_tanh(n, x[0], y);
}

/* dx = dy gelu'(x): the derivative is an operator of its own, so that one pass computes it. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_call(b, &op_gelu_derivative, 1, n->in, n->attr));
}

const struct op op_gelu = {
    .name = "gelu",
    .doc = "y = x Phi(x), Phi the normal distribution; tanh: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))",
    .source = "Hendrycks & Gimpel 2016",
    .in = {{"x"}},
    .attr = {[APPROXIMATE] = {"approximate", ATTR_TEXT, .text = "none|tanh", .doc = "none: exact"}},
    .make_rule = rule_same,
    .dtype = OUT_FLOAT,
    .grad = grad,
    .saves = "0",
    .eltwise = {.f = real, .block_f32 = block, .block_f64 = f64_gelu},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7} approximate=tanh", "f64{3}", "bf16{2,3} approximate=tanh"},
};
