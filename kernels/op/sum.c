/* sum.c - the sum over dimensions. A split of a summed dimension leaves a partial sum. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

enum { AXIS, KEEPDIM, DTYPE };

static int
infer(const struct call *c, int64_t *size)
{
    enum dtype d = (enum dtype)c->attr[DTYPE].i;
    UNUSED(size);
    if (d == DT_NONE || dtype_is_float(d)) return 0;
    return call_fail(E_ATTR, c, "dtype must be float, found %s", dtype_text(d));
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_unreduce(b, n, b_cast(b, dout[0], n->in[0]->type.dtype));
}

const struct op op_sum = {
    .name = "sum",
    .doc = "y = sum of x over axis",
    .errors = "dtype must be a float dtype",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to sum over; default: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"},
             [DTYPE] = {"dtype", ATTR_DTYPE,
                        .doc = "dtype of the result, a float; default: x's, i64 for integers and bool"}},
    .shape.make_rule = reduce_rule,
    .shape.infer = infer,
    .shape.dtype = OUT_SUM,
    .partial.linear = "0",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .rewrite.unrounded = b_unrounded,
    .host.folds = RED_SUM,
    .host.ref = reduce_ref,
    .host.kernel = reduce_variants,
    .flags = OP_WIDE | OP_UNPLACED,
    .sample = {"f32{4,6}", "f32{4,6} axis=1", "f32{2,3,5} axis=0,2 keepdim=1", "i32{3,4} axis=0", "bool{4,6} axis=1",
               "f32{3,0} axis=1", "bf16{4,6} axis=1 dtype=f32", "f16{2,3,5} axis=0,2 dtype=f32"},
};
