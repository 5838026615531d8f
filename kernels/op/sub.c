/* sub.c - the difference of two tensors, element by element. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] - x[1]; });

INTEGERS({ return (int64_t)((uint64_t)x[0] - (uint64_t)x[1]); });

/* Rejects bools: true - false and false - true would both be true, and no layout of partial sums is right for
 * that. */
static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[0].dtype != DT_BOOL || c->in[1].dtype != DT_BOOL) return 0;
    return call_fail(E_DTYPE, c,
                     "operands must not be bool; use ne for where they differ, or convert them with to(\"i64\")");
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_sum_to(b, dout[0], &n->in[0]->type);
    if (b_wants(n, 1)) din[1] = b_neg(b, b_sum_to(b, dout[0], &n->in[1]->type));
}

const struct op op_sub = {
    .name = "sub",
    .doc = "y = a - b",
    .errors = "a and b must not both be of bools; ne computes where they differ",
    .in = {{"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.infer = infer,
    .partial.linear_of = linear_if_tensors,
    .grad.build = grad,
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_SUB},
    .flags = OP_ELTWISE,
    .sample = {"f32{4,6} f32{4,6}", "f32{4,6} f32{6}", "f32{4,1} f32{3,1,5}", "f32{3} #2.5", "i64{3,2} i64{2}",
               "#1 f32{3}"},
};
