/* clamp.c - limits values to a minimum and a maximum. If the value or a bound is NaN, the result is NaN. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

extern const struct op op_gt, op_lt, op_maximum;

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

/* Divides the gradient *g between x and a bound. Returns the gradient of the elements that exceeded the bound
 * (`beyond`), and leaves the gradient of the other elements in *g. */
static struct val *
take_beyond(struct build *b, struct val *beyond, struct val **g)
{
    struct val *none = b_number(b, 0), *taken = b_where(b, beyond, *g, none);
    *g = b_where(b, beyond, none, *g);
    return taken;
}

/* Builds the gradients of x and of the two bounds. The upper bound `most` is applied after the lower bound `least`,
 * so the gradient of `most` is computed first. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[0], *least = n->nin > 1 ? n->in[1] : NULL, *most = n->nin > 2 ? n->in[2] : NULL;
    struct val *g = dout[0], *of_least = NULL, *of_most = NULL;
    if (most) of_most = take_beyond(b, b_call2(b, &op_gt, least ? b_call2(b, &op_maximum, x, least) : x, most), &g);
    if (least) of_least = take_beyond(b, b_call2(b, &op_lt, x, least), &g);
    if (b_wants(n, 0)) din[0] = b_sum_to(b, g, &x->type);
    if (b_wants(n, 1)) din[1] = b_sum_to(b, of_least, &least->type);
    if (b_wants(n, 2)) din[2] = b_sum_to(b, of_most, &most->type);
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
