/* all.c - true if every value along the reduced dimensions is nonzero. If a reduced dimension is split, the result
 * is a partial minimum, P(min). */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

extern const struct op op_all;

enum { AXIS, KEEPDIM };

/* Casts operands of other dtypes to bool first. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    if (c->in[0].dtype == DT_BOOL) return 0;
    out[0] = b_call(b, &op_all, 1, (struct val *[]){b_cast(b, in[0], DT_BOOL)}, c->attr);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_all = {
    .name = "all",
    .doc = "y = (all x != 0 over axis)",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; default: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"}},
    .shape.make_rule = reduce_rule,
    .shape.dtype = OUT_BOOL,
    .partial.increasing = "0",
    .partial.reduce = RED_MIN,
    .grad.build = b_zero_grad,
    .build = build,
    .host.folds = RED_MIN,
    .host.ref = reduce_ref,
    .host.kernel = reduce_variants,
    .sample = {"bool{4,6}", "bool{4,6} axis=1", "bool{2,3,5} axis=0,2 keepdim=1", "bool{3,0} axis=1"},
};
