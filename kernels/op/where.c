/* where.c - elements of one of two tensors, selected by a condition. */
#include "kernels/op/lib/eltwise.h"

#include "kernels/cpu/eltwise/tile.h"

REALS({ return x[0] != 0 ? x[1] : x[2]; });

INTEGERS({ return x[0] != 0 ? x[1] : x[2]; });

/* Promotes the dtypes of the two selected operands. The condition's dtype does not affect the result. */
static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    struct promotion p = {0};
    promotion_add(&p, &c->in[1]);
    promotion_add(&p, &c->in[2]);
    c->out[0].dtype = (uint8_t)promotion_end(&p);
    return 0;
}

static const char *
linear_of(const struct call *c)
{
    return is_number(&c->in[1]) || is_number(&c->in[2]) ? NULL : "12";
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *none = b_number(b, 0), *cond = n->in[0];
    if (b_wants(n, 1)) din[1] = b_sum_to(b, b_where(b, cond, dout[0], none), &n->in[1]->type);
    if (b_wants(n, 2)) din[2] = b_sum_to(b, b_where(b, cond, none, dout[0]), &n->in[2]->type);
}

const struct op op_where = {
    .name = "where",
    .doc = "y = a where cond, else b",
    .result = "a tensor of the shape to which the operands broadcast, of the dtype promoted from a and b",
    .in = {{"cond"}, {"a", IN_NUMBER}, {"b", IN_NUMBER}},
    .shape.make_rule = rule_broadcast,
    .shape.infer = infer,
    .partial.linear_of = linear_of,
    .partial.increasing = "12|1|2",
    .grad.build = grad,
    .grad.saves = "0",
    .eltwise = {.f = reals, .i = integers, .f_text = reals_text, .i_text = integers_text, .tile = TILE_WHERE},
    .flags = OP_ELTWISE,
    .sample = {"bool{4,6} f32{4,6} f32{4,6}", "bool{4,1} f32{6} f32{4,6}", "bool{3} f32{3} #0", "bool{4} #1 #0",
               "bool{3,2} i64{2} i64{3,2}"},
};
