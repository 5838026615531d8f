/* div.c - the quotient of two tensors, element by element; the quotient of integers is a float.
 *
 * A partial sum a may stay partial, because a / b is linear in a. If b = 0, the quotient of an addend may be NaN
 * although the quotient of the complete sum is infinite. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] / x[1]; });

/* Builds the gradient: d(a / b) = da / b - (a / b) db / b. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *da = b_div(b, dout[0], n->in[1]);
    if (b_wants(n, 0)) din[0] = b_sum_to(b, da, &n->in[0]->type);
    if (b_wants(n, 1)) din[1] = b_neg(b, b_sum_products(b, da, n->out[0], &n->in[1]->type));
}

const struct op op_div = {
    .name = "div",
    .doc = "y = a / b",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.dtype = OUT_FLOAT,
    .partial.linear = "0",
    .grad.build = grad,
    .grad.saves = "1a",
    .eltwise = {.f = reals, .f_text = reals_text, .tile = TILE_DIV},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} f32{4,6}>0.5", "f32{4,6} f32{6}>0.5", "f32{4,1} f32{3,1,5}>0.5", "#2 f32{3}>0.5",
               "i64{4}<9 #2", "f64{3} #3"},
};
