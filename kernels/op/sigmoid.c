/* sigmoid.c - the logistic function, 1 / (1 + e^-x), element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

REALS({ return x[0] < 0 ? exp(x[0]) / (1 + exp(x[0])) : 1 / (1 + exp(-x[0])); });

BLOCK(vec_sigmoid)

/* Builds dx = dy y (1 - y). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *y = n->out[0];
    din[0] = b_mul(b, dout[0], b_mul(b, y, b_sub(b, b_number(b, 1), y)));
}

const struct op op_sigmoid = {
    .name = "sigmoid",
    .doc = "y = 1 / (1 + e^-x)",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .partial.increasing = "0",
    .grad.build = grad,
    .grad.saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_sigmoid},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "f64{3}", "bf16{2,3}"},
};
