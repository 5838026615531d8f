/* clamp.c - limits values to a minimum and a maximum. If the value or a bound is NaN, the result is NaN. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

extern const struct op op_ge, op_gt, op_le, op_lt, op_maximum;

REALS({
    real y = x[0];
    if (!absent(&c->in[1])) y = y > x[1] || isnan(y) ? y : x[1];
    if (!absent(&c->in[2])) y = y < x[2] || isnan(y) ? y : x[2];
    return y;
});

INTEGERS({
    int64_t y = x[0];
    if (!absent(&c->in[1]) && y < x[1]) y = x[1];
    if (!absent(&c->in[2]) && y > x[2]) y = x[2];
    return y;
});

/* Returns g where a condition holds, else 0. */
static struct val *
gradient_where(struct build *b, const struct op *compare, struct val *x, struct val *bound, struct val *g)
{
    return b_where(b, b_call2(b, compare, x, bound), g, b_number(b, 0));
}

/* Returns 0 where a condition holds, else g. */
static struct val *
gradient_unless(struct build *b, const struct op *compare, struct val *x, struct val *bound, struct val *g)
{
    return b_where(b, b_call2(b, compare, x, bound), b_number(b, 0), g);
}

/* Returns the gradient of x: dy inside the bounds. If x is NaN or a bound is NaN, the gradient of a number's clamp is
 * 0, and that of a tensor's clamp is dy, as in PyTorch. */
static struct val *
gradient_of_x(struct build *b, struct val *x, struct val *least, struct val *most, struct val *g)
{
    if (least && is_number(&least->type))
        g = gradient_where(b, &op_ge, x, least, g);
    else if (least)
        g = gradient_unless(b, &op_lt, x, least, g);
    if (most && is_number(&most->type)) return gradient_where(b, &op_le, x, most, g);
    return most ? gradient_unless(b, &op_gt, x, most, g) : g;
}

/* Returns the gradient of min: dy below min. The upper bound is applied after the lower bound, so min has no gradient
 * where max < min. */
static struct val *
gradient_of_min(struct build *b, struct val *x, struct val *least, struct val *most, struct val *g)
{
    if (!most) return gradient_unless(b, &op_ge, x, least, g);
    return gradient_where(b, &op_lt, x, least, gradient_where(b, &op_le, least, most, g));
}

static struct val *
gradient_of_max(struct build *b, struct val *x, struct val *least, struct val *most, struct val *g)
{
    if (!least) return gradient_unless(b, &op_le, x, most, g);
    return gradient_where(b, &op_gt, b_call2(b, &op_maximum, x, least), most, g);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[0], *least = n->nin > 1 ? n->in[1] : NULL, *most = n->nin > 2 ? n->in[2] : NULL;
    struct val *g = dout[0];
    if (b_wants(n, 0)) din[0] = b_sum_to(b, gradient_of_x(b, x, least, most, g), &x->type);
    if (b_wants(n, 1)) din[1] = b_sum_to(b, gradient_of_min(b, x, least, most, g), &least->type);
    if (b_wants(n, 2)) din[2] = b_sum_to(b, gradient_of_max(b, x, least, most, g), &most->type);
}

const struct op op_clamp = {
    .name = "clamp",
    .doc = "y = min(max(x, min), max)",
    .in = {{"x"}, {"min", IN_NUMBER | IN_OPTIONAL}, {"max", IN_NUMBER | IN_OPTIONAL}},
    .shape.make_rule = rule_broadcast,
    .partial.increasing = "0",
    .grad.build = grad,
    .grad.saves = "012",
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_CLAMP},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} #-0.5 #0.5", "f32{7} - #0.25", "f32{4,6} #0 -", "i64{5}<9 #2 #6", "f32{4,6} f32{6} -",
               "f32{6} - f32{4,6}"},
};
