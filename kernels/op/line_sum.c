/* line_sum.c - a sum over split dimensions: like sum, except for its gradient.
 *
 * The gradient of sum repeats dy along the summed dimensions, in the layout of dy. The repeated tensor has x's size,
 * and would have to be moved to x's layout. The gradient of line_sum multiplies dy by ones that have x's layout. So
 * ranks exchange only dy, one number per line of summed elements. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[0];
    if (b_wants(n, 0)) din[0] = b_along(b, x, b_cast(b, b_keepdim(b, n, dout[0]), x->type.dtype));
}

const struct op op_line_sum = {
    .name = "line_sum",
    .doc = "y = sum of x over axis",
    .in = {{"x", IN_FLOAT}},
    .attr = {{"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to sum over; default: all"},
             {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"},
             {"dtype", ATTR_DTYPE, .doc = "dtype of the result, a float; default: x's"}},
    .shape.make_rule = reduce_rule,
    .shape.dtype = OUT_SUM,
    .partial.linear = "0",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "0",
    .host.folds = RED_SUM,
    .host.ref = reduce_ref,
    .host.kernel = reduce_variants,
    .flags = OP_HIDDEN,
    .sample = {"f32{4,6} axis=1 keepdim=1", "f32{2,3,5} axis=0,2 keepdim=1", "f32{7}", "f32{3,17} axis=1",
               "f32{3,4} axis=1 dtype=f64"},
};
