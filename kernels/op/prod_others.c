/* prod_others.c - for each factor of a line, the product of the other factors: the gradient of prod.
 *
 * The result is computed from two numbers per line: the product of the factors that are not 0 (rest), and the number
 * of zeros (count). If a line has one zero, all results are 0 except the result at the zero; if it has two or more,
 * all results are 0.
 *
 * Second-order gradients are right, too: the derivative with respect to a zero is the product of the remaining
 * factors. The operands rest and count must be those of x. An x that is zero affects the other results through
 * count, which has no gradient, so the gradient of x contains this effect. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/eltwise.h"

#include "runtime/base/simd.h"

extern const struct op op_eq;

enum { X, REST, COUNT };

REALS({
    real zeros = x[0] == 0;
    return x[2] == zeros ? x[1] / (x[0] == 0 ? 1 : x[0]) : 0;
});

VECTOR static void
block(const struct call *c, int64_t n, const float *const *x, float *y)
{
    UNUSED(c);
    const float *u = x[X], *rest = x[REST], *count = x[COUNT];
    for (int64_t i = 0; i < n; i++) {
        float zeros = u[i] == 0 ? 1 : 0, q = rest[i] / (u[i] == 0 ? 1 : u[i]);
        y[i] = count[i] == zeros ? q : 0;
    }
}

/* Builds the gradient of x. Where x is not zero, dx = -dy * y / x. Where x is zero, dx is a sum over the other
 * factors x[j] of the line: dy[j] * rest / x[j], or dy[j] * rest if x[j] is zero, too. The sum leaves out j if any
 * factor besides x and x[j] is zero. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[X], *rest = n->in[REST], *none = b_number(b, 0), *zero = b_call2(b, &op_eq, x, none);
    struct val *safe = b_where(b, zero, b_number(b, 1), x), *others = b_sub(b, n->in[COUNT], zero);
    struct val *by_rest = b_div(b, dout[0], safe);
    if (b_wants(n, X)) {
        struct val *one = b_call2(b, &op_eq, others, b_integer(b, 1));
        struct val *share = b_where(b, one, b_mul(b, by_rest, rest), none);
        struct val *at_zero = b_sub(b, b_sum_to(b, share, &rest->type), share);
        din[X] = b_where(b, zero, at_zero, b_neg(b, b_mul(b, by_rest, n->out[0])));
    }
    if (b_wants(n, REST)) {
        struct val *whole = b_call2(b, &op_eq, others, b_integer(b, 0));
        din[REST] = b_sum_to(b, b_where(b, whole, by_rest, none), &rest->type);
    }
}

const struct op op_prod_others = {
    .name = "prod_others",
    .doc = "y = rest / x; rest where x is 0; 0 where another element is 0",
    .in = {{"x", IN_FLOAT}, {"rest", IN_FLOAT}, {"count"}},
    .shape.make_rule = rule_broadcast,
    .partial.linear = "1",
    .grad.build = grad,
    .grad.saves = "012a",
    .eltwise = {.f = reals, .f_text = reals_text, .block_f32 = block},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6}>0.5 f32{4,1}>0.5 i64{4,1}<1", "f32{3,5}>0.5 f32{1,5}>0.5 i64{1,5}<3"},
};
