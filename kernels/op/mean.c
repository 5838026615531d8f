/* mean.c - the mean over dimensions: their sum divided by the number of elements in the global tensor, not in a
 * shard. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

enum { AXIS, KEEPDIM };

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    const struct attr *axis = &c->attr[AXIS];
    bool real = dtype_is_float(c->in[0].dtype);
    struct val *sum = (real ? b_sum_wide : b_total)(b, in[0], axis->list, axis->n, c->attr[KEEPDIM].i);
    out[0] = b_cast(b, b_div(b, sum, b_integer(b, reduced_count(c))), real ? c->in[0].dtype : DT_F32);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_mean = {
    .name = "mean",
    .doc = "y = sum of x over axis / count",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; default: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"}},
    .shape.dtype = OUT_FLOAT,
    .build = build,
    .flags = OP_WIDE,
    .sample = {"f32{4,6}", "f32{4,6} axis=1", "f32{2,3,5} axis=0,2 keepdim=1", "i32{3,4} axis=0"},
};
