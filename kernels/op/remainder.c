/* remainder.c - the remainder of floored division, which has the sign of b, as in Lua. Integer division by 0 is an
 * error. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/divisor.h"
#include "kernels/op/lib/eltwise.h"

#include "runtime/base/simd.h"

extern const struct op op_floor_divide;

/* Replaces each subnormal number by a zero of the same sign. A comparison flushes a subnormal number to zero, but gcc
 * 14 loads f32 operands of fmod by an x87 instruction, which does not (runtime/base/denormal.h). */
REALS({
    real a = x[0] == 0 ? 0 * x[0] : x[0], b = x[1] == 0 ? 0 * x[1] : x[1], r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
});

/* Computes a - q b, where q = a / b truncated. The computation rounds once, and is exact if q < 2^52. Its result has
 * the wrong sign if a / b was rounded up to an integer, or if the signs of a and b differ. In both cases, adds b
 * once. */
INLINE double
remainder_one(double a, double b)
{
    double r = fma(-trunc(a / b), b, a), over = copysign(b, a);
    r = r != 0 && (r < 0) != (a < 0) ? r + over : r;
    r = fabs(r) >= fabs(b) ? r - over : r;
    r = r == 0 ? copysign(0, a) : r;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Returns true if all quotients are small enough for remainder_one. Returns false if a quotient is infinite or NaN
 * (for example, if b is 0), or if b is infinite, because 0 * b would be NaN. */
VECTOR static bool
are_near_f32(int64_t n, const float *a, const float *b)
{
    int32_t far = 0;
    for (int64_t i = 0; i < n; i++) far |= !(fabsf(a[i] / b[i]) < 0x1p30f) | !(fabsf(b[i]) < INFINITY);
    return !far;
}

VECTOR static bool
are_near_f64(int64_t n, const double *a, const double *b)
{
    int64_t far = 0;
    for (int64_t i = 0; i < n; i++) far |= !(fabs(a[i] / b[i]) < 0x1p52) | !(fabs(b[i]) < (double)INFINITY);
    return !far;
}

VECTOR static void
near_f32(int64_t n, const float *a, const float *b, float *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = (float)remainder_one(a[i], b[i]);
}

VECTOR static void
near_f64(int64_t n, const double *a, const double *b, double *y)
{
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) y[i] = remainder_one(a[i], b[i]);
}

static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    if (are_near_f32(n, x[0], x[1])) {
        near_f32(n, x[0], x[1], y);
        return;
    }
    for (int64_t i = 0; i < n; i++) y[i] = (float)reals(c, (double[]){x[0][i], x[1][i]});
}

static void
block_of_doubles(const struct call *c, int64_t n, const double *const *x, double *y)
{
    if (are_near_f64(n, x[0], x[1])) {
        near_f64(n, x[0], x[1], y);
        return;
    }
    for (int64_t i = 0; i < n; i++) y[i] = reals(c, (double[]){x[0][i], x[1][i]});
}

INTEGERS({
    /* x[1] is never 0, because op_divisor has rejected it. For -1, the remainder is 0, and INT64_MIN / -1 would
     * overflow */
    if (x[1] == 0 || x[1] == -1) return 0;
    int64_t r = x[0] % x[1];
    return r != 0 && (r < 0) != (x[1] < 0) ? r + x[1] : r;
});

/* Builds da = dy and db = -dy floor(a / b). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_sum_to(b, dout[0], &n->in[0]->type);
    if (!b_wants(n, 1)) return;
    struct val *q = b_call2(b, &op_floor_divide, n->in[0], n->in[1]);
    din[1] = b_neg(b, b_sum_products(b, dout[0], q, &n->in[1]->type));
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    return divide_integer(b, c, in, DIVIDE_REMAINDER, out);
}

const struct op op_remainder = {
    .name = "remainder",
    .doc = "y = a - b floor(a / b); integers must not be divided by 0",
    .errors = "a and b must not both be of bools\n"
              "integers must not be divided by 0",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.infer = infer_no_truth,
    .build = build,
    .grad.build = grad,
    .grad.saves = "01",
    .eltwise = {.f = reals,
                .i = integers,
                .f_text = reals_text,
                .i_text = integers_text,
                .block_f32 = block,
                .block_f64 = block_of_doubles},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6} f32{4,6}>0.5", "f32{5} #0.75", "i64{3,2}<30 i64{2}>1", "i64{6} #3"},
};
