/* pow.c - powers, element by element. A power of integers is an integer. A constant negative exponent of integers is
 * an error; with a negative exponent from a tensor, the power is truncated towards zero, and a power of 0 is 0. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/math/vmath_f64.h"
#include "runtime/base/simd.h"

extern const struct op op_eq, op_ge, op_logical_and, op_pow, op_pow_derivative;

/* Replaces each subnormal number by a zero of the same sign. A comparison flushes a subnormal number to zero, but
 * pow would read its bits (runtime/base/denormal.h). */
REALS({ return pow(x[0] == 0 ? 0 * x[0] : x[0], x[1] == 0 ? 0 * x[1] : x[1]); });

INTEGERS({
    if (x[1] < 0) return x[0] == 1 ? 1 : x[0] == -1 ? (x[1] & 1 ? -1 : 1) : 0;
    uint64_t y = 1, square = (uint64_t)x[0];
    for (uint64_t e = (uint64_t)x[1]; e; e >>= 1, square *= square)
        if (e & 1) y *= square;
    return (int64_t)y;
});

VECTOR static bool
all_are(int64_t n, const float *x, float value)
{
    int32_t other = 0;
    for (int64_t i = 0; i < n; i++) other |= x[i] != value;
    return !other;
}

VECTOR static void
square(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * x[i];
}

VECTOR static void
cube(int64_t n, const float *x, float *y)
{
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * x[i] * x[i];
}

/* Computes x^(whole + 1/2) in double precision, as pow() does: the root of -0 is 0, that of -infinity is infinity. */
VECTOR static void
half_power(int64_t n, const float *x, int whole, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        double a = fabs((double)x[i]), square = whole & 2 ? a * a : 1;
        double power = sqrt(a) * square * (whole & 1 ? a : 1);
        y[i] = x[i] < 0 && a != INFINITY ? NAN : (float)power;
    }
}

/* Computes the powers of a block. If all exponents of the block are 2, or all are 3, or all are one of 1/2, 3/2, 5/2
 * and 7/2, multiplies instead of calling pow, because that is faster: x^2.5 takes 0.27 ns instead of 1.6, Zen 5. */
static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    const float *u = x[0], *v = x[1];
    if (v[0] == 2 && all_are(n, v, 2)) {
        square(n, u, y);
        return;
    }
    if (v[0] == 3 && all_are(n, v, 3)) {
        cube(n, u, y);
        return;
    }
    float whole = v[0] - 0.5f;
    if (whole >= 0 && whole <= 3 && rintf(whole) == whole && all_are(n, v, v[0])) {
        half_power(n, u, (int)whole, y);
        return;
    }
    f32_by_f64(f64_pow_few, c, n, 2, x, y);
}

/* Builds d a^b / da = b a^(b-1). Where b is 0, the derivative is 0, even if a is 0. */
static struct val *
derivative_in_base(struct build *b, struct val *base, struct val *exponent)
{
    if (exponent->is_number) return b_call2(b, &op_pow_derivative, base, exponent);
    struct val *less = b_call2(b, &op_pow, base, b_sub(b, exponent, b_number(b, 1)));
    struct val *none = b_number(b, 0), *flat = b_call2(b, &op_eq, exponent, none);
    return b_where(b, flat, none, b_mul(b, exponent, less));
}

/* Builds a tensor of the shape and dtype of x that is filled with a number; f32 for 16-bit floats. */
static struct val *
number_beside(struct build *b, struct val *number, struct val *x)
{
    return b_where(b, b_true(b, x), number, b_wide(b, x));
}

/* Builds d a^b / db = a^b ln a. Where a is 0 and b >= 0, the derivative is 0, as in PyTorch. */
static struct val *
derivative_in_exponent(struct build *b, struct val *base, struct val *exponent, struct val *power)
{
    struct val *none = b_number(b, 0);
    struct val *a = base->is_number ? number_beside(b, base, exponent) : base;
    struct val *flat = b_call2(b, &op_logical_and, b_call2(b, &op_eq, a, none), b_call2(b, &op_ge, exponent, none));
    return b_where(b, flat, none, b_mul(b, power, b_log(b, a)));
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *base = n->in[0], *exponent = n->in[1];
    if (b_wants(n, 0)) din[0] = b_sum_to(b, b_mul(b, dout[0], derivative_in_base(b, base, exponent)), &base->type);
    if (b_wants(n, 1))
        din[1] = b_sum_to(b, b_mul(b, dout[0], derivative_in_exponent(b, base, exponent, n->out[0])), &exponent->type);
}

/* Builds a square if the exponent is the constant 2. Rejects a negative constant exponent of integers, as PyTorch
 * does. Exponents in a tensor are not checked, because their values are not known yet. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    struct promotion p = {0};
    for (int i = 0; i < 2; i++) promotion_add(&p, &c->in[i]);
    enum dtype d = promotion_end(&p);
    const struct number *n = in[1]->is_number && in[1]->number.kind == NUM_FIXED ? &in[1]->number : NULL;
    if (!n) return 0;
    if (dtype_is_int(d) && n->i < 0)
        return call_fail(E_VALUE, c,
                         "an exponent of integers must not be negative, found %lld; convert x to a float dtype",
                         (long long)n->i);
    if (!in[0]->is_number && c->in[0].dtype == d && d != DT_BOOL && (n->is_int ? n->i == 2 : n->f == 2))
        out[0] = b_square(b, in[0]);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_pow = {
    .name = "pow",
    .doc = "y = a^b",
    .errors = "a and b must not both be of bools\n"
              "an exponent of integers must not be negative",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.infer = infer_no_truth,
    .build = build,
    .grad.build = grad,
    .grad.saves = "01a",
    .eltwise = {.f = reals,
                .i = integers,
                .f_text = reals_text,
                .i_text = integers_text,
                .block_f32 = block,
                .block_f64 = f64_pow},
    .flags = OP_ELTWISE | OP_WIDE,
    .sample = {"f32{4,6} #3", "f32{5} #2", "f32{4,6}>0.3 f32{6}", "#2 f32{3}", "f32{3}>0.2 #-1.5",
               "i64{3,2}<5 i64{2}<4"},
};
