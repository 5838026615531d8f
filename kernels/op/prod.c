/* prod.c - the product over dimensions. Reduced dimensions stay unsplit, because layouts have no partial products. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

extern const struct op op_eq, op_prod, op_prod_others;

enum { AXIS, KEEPDIM };

/* Builds dx = dy times the product of all other factors (prod_others.c). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *x = n->in[0], *zero = b_call2(b, &op_eq, x, b_number(b, 0));
    const struct attr *axis = &n->attr[AXIS];
    struct val *safe = b_where(b, zero, b_number(b, 1), x);
    struct val *rest = b_reduce(b, &op_prod, safe, axis->list, axis->n, true);
    struct val *count = b_sum(b, zero, axis->list, axis->n, true);
    din[0] = b_mul(b, b_unreduce(b, n, dout[0]), b_call3(b, &op_prod_others, x, rest, count));
}

const struct op op_prod = {
    .name = "prod",
    .doc = "y = product of x over axis",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; default: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"}},
    .shape.make_rule = reduce_rule,
    .shape.dtype = OUT_SUM,
    .grad.build = grad,
    .grad.saves = "0",
    .host.folds = RED_PROD,
    .host.ref = reduce_ref,
    .host.kernel = reduce_variants,
    .flags = OP_WIDE,
    .sample = {"f32{4,6}", "f32{4,6} axis=1", "f32{2,3,5} axis=0,2 keepdim=1", "i32{3,4}<4 axis=0"},
};
