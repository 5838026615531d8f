/* log_left.c - the logarithm y of a sum; near 0 it is computed from the sum minus 1 (exp_left.c) instead. */
#include "kernels/op/lib/eltwise.h"

enum { BOUND };

/* left plus its remainder more is the sum minus 1, modulo 2^-44. y determines the multiple, because its error is
 * less than half of 2^-44. Then log(1 + d) = d - d^2 (1/2 - d/3 + d^2/4 ...). If |y| >= 1/4 the result is base +
 * log(1 + d), in units 2^28 times as large (exp_left.c). */
REALS({
    if (!(fabs(x[0]) < c->attr[BOUND].f)) return x[0];
    if (fabs(x[0]) >= 0.25) {
        const real base = rint(x[0] * 0x1p20) * 0x1p-20, off = (x[1] + x[2]) * 0x1p28;
        return base + (off - off * off * ((real)0.5 - off / 3));
    }
    const real turns = rint((expm1(x[0]) - x[1]) * 0x1p44) * 0x1p-44, d = turns + x[1], rest = x[1] - (d - turns);
    real series = 0;
    for (int64_t i = 30; i >= 2; i--) series = (real)1 / (real)i - d * series;
    return d + (rest + x[2] - d * d * series);
});

/* left is an integer number of units, and so has no derivative. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    UNUSED(b);
    if (b_wants(n, 0)) din[0] = dout[0];
}

const struct op op_log_left = {
    .name = "log_left",
    .doc = "y, or where that is near 0 log (1 + left + more)",
    .in = {{"y", IN_FLOAT}, {"left", IN_FLOAT}, {"more", IN_NUMBER}},
    .attr = {[BOUND] = {"bound", ATTR_FLOAT, .f = 0.25, .doc = "of |y|, below which left tells it"}},
    .make_rule = rule_same,
    .dtype = OUT_IN0,
    .grad = grad,
    .eltwise = {.f = reals, .f_text = reals_text},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f64{4,6} f64{4,6} #0", "f64{7}>0.3 f64{7} f64{7}", "f32{5} f32{5} #0"},
};
