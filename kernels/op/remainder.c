/* remainder.c - what is left of a division that floors: it has the sign of b, as in Lua; by integer zero
 * there is none. */
#include "kernels/op/divisor.h"

#include <math.h>

static double
real(const struct call *c, const double *x)
{
    UNUSED(c);
    double r = fmod(x[0], x[1]);
    return r != 0 && (r < 0) != (x[1] < 0) ? r + x[1] : r;
}

static int64_t
whole(const struct call *c, const int64_t *x)
{
    UNUSED(c);
    if (x[1] == 0 || x[1] == -1) return 0; /* 0: refused by op_divisor; -1: the least integer has no such quotient */
    int64_t r = x[0] % x[1];
    return r != 0 && (r < 0) != (x[1] < 0) ? r + x[1] : r;
}

/* da = dy, db = -dy floor(a / b) */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_sum_to(b, dout[0], &n->in[0]->type);
    if (!b_wants(n, 1)) return;
    struct val *q = b_call2(b, &op_floor_divide, n->in[0], n->in[1]);
    din[1] = b_neg(b, b_sum_to(b, b_mul(b, dout[0], q), &n->in[1]->type));
}

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    return divide_whole(b, c, in, DIVIDE_REMAINDER, out);
}

const struct op op_remainder = {
    .name = "remainder",
    .doc = "y = a - b floor(a / b); integers are not divided by 0",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .make_rule = rule_broadcast,
    .infer = infer_no_truth,
    .build = build,
    .grad = grad,
    .saves = "01",
    .eltwise = {.f = real, .i = whole},
    .flags = OP_ELTWISE | OP_HIDDEN,
    .sample = {"f32{4,6} f32{4,6}>0.5", "f32{5} #0.75", "i64{3,2}<30 i64{2}>1", "i64{6} #3"},
};
