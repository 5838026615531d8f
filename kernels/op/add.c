/* add.c - the sum of two tensors, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] + x[1]; });

INTEGERS({ return (int64_t)((uint64_t)x[0] + (uint64_t)x[1]); });

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    for (int i = 0; i < 2; i++)
        if (b_wants(n, i)) din[i] = b_sum_to(b, dout[0], &n->in[i]->type);
}

static enum follow
follow(const struct call *c)
{
    UNUSED(c);
    return FOLLOW_ADD;
}

const struct op op_add = {
    .name = "add",
    .doc = "y = a + b",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .partial.linear_of = linear_if_tensors,
    .grad.build = grad,
    .eltwise =
        {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_ADD, .follow = follow},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} f32{4,6}", "f32{4,6} f32{6}", "f32{4,1} f32{3,1,5}", "f32{3} #2.5", "i64{3,2} i64{2}",
               "bf16{5} bf16{5}"},
};
