/* log.c - the natural logarithm, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/math/vmath_f64.h"

REALS({ return log(x[0] == 0 ? 0 : x[0]); }); /* log must treat a subnormal number as zero, as arithmetic does */

BLOCK(vec_log)

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_div(b, dout[0], n->in[0]);
}

const struct op op_log = {
    .name = "log",
    .doc = "y = ln x",
    .in = {{"x"}},
    .shape.make_rule = rule_same,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block, .block_f64 = f64_log},
    .flags = OP_ELTWISE | OP_BOUNDED_DOMAIN | OP_WIDE,
    .sample = {"f32{4,6}>0.1", "f32{7}>0.5", "f64{3}>0.1", "i64{4}<9"},
};
