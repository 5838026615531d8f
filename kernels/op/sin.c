/* sin.c - the sine, element by element, in radians. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

REALS({ return sin(x[0]); });

BLOCK(vec_sin)

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_cos(b, n->in[0]));
}

const struct op op_sin = {
    .name = "sin",
    .doc = "y = sin x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_sin},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6}", "f32{7}", "f64{3}", "bf16{2,3}"},
};
