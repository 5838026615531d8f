/* min.c - the minimum over dimensions; NaN if any element is NaN. A split reduced dimension leaves P(min). */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

enum { AXIS, KEEPDIM };

const struct op op_min = {
    .name = "min",
    .doc = "y = min of x over axis",
    .errors = "the dimensions in axis must not be empty",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; default: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"}},
    .shape.make_rule = reduce_rule,
    .shape.infer = reduce_infer,
    .shape.dtype = OUT_IN0,
    .partial.increasing = "0",
    .partial.reduce = RED_MIN,
    .grad.build = b_share_grad,
    .grad.saves = "0a",
    .host.folds = RED_MIN,
    .host.ref = reduce_ref,
    .host.kernel = reduce_variants,
    .sample = {"f32{4,6}", "f32{4,6} axis=1", "f32{2,3,5} axis=0,2 keepdim=1", "i32{3,4} axis=0"},
    .flags = OP_UNPLACED,
};
