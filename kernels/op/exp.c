/* exp.c - the exponential function, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

REALS({ return exp(x[0]); });

BLOCK(vec_exp)

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], n->out[0]);
}

const struct op op_exp = {
    .name = "exp",
    .doc = "y = e^x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .partial.increasing = "0",
    .grad.build = grad,
    .grad.saves = "a",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_exp},
    .flags = OP_ELTWISE | OP_WIDE,
    .sample = {"f32{4,6}", "f32{7}", "f64{3}", "i64{3}<4"},
};
