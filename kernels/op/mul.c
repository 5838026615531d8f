/* mul.c - product of two tensors, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] * x[1]; });

INTEGERS({ return (int64_t)((uint64_t)x[0] * (uint64_t)x[1]); });

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    for (int i = 0; i < 2; i++)
        if (b_wants(n, i)) din[i] = b_sum_products(b, dout[0], n->in[1 - i], &n->in[i]->type);
}

static enum follow
follow(const struct call *c)
{
    UNUSED(c);
    return FOLLOW_MUL;
}

const struct op op_mul = {
    .name = "mul",
    .doc = "y = a * b",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .partial.linear = "0|1",
    .grad.build = grad,
    .grad.saves = "01",
    .eltwise =
        {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_MUL, .follow = follow},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} f32{4,6}", "f32{4,6} f32{6}", "f32{4,1} f32{3,1,5}", "f32{3} #2.5", "i64{3,2} i64{2}"},
};
