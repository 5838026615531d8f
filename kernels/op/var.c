/* var.c - the variance over dimensions: the sum of squared distances from the mean, divided by n - correction. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

enum { AXIS, CORRECTION, KEEPDIM };

static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    const struct attr *axis = &c->attr[AXIS];
    int64_t n = reduced_count(c);
    struct val *square = b_square(b, b_center(b, in[0], axis->list, axis->n));
    struct val *sum = b_sum(b, square, axis->list, axis->n, c->attr[KEEPDIM].i);
    int64_t left;
    /* n >= 0, so the difference n - correction can only overflow upwards */
    if (__builtin_sub_overflow(n, c->attr[CORRECTION].i, &left)) left = INT64_MAX;
    out[0] = b_narrow(b, b_div(b, sum, b_integer(b, MAX(left, 0))), &c->in[0]);
    return b->failed ? (int)err_last() : 0;
}

const struct op op_var = {
    .name = "var",
    .doc = "y = sum of (x - mean x)^2 over axis / (count - correction)",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; default: all"},
             [CORRECTION] = {"correction", ATTR_INT, .i = 1, .doc = "subtracted from the count"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"}},
    .shape.dtype = OUT_FLOAT,
    .build = build,
    .flags = OP_WIDE,
    .sample = {"f32{4,6}", "f32{4,6} axis=1 correction=0", "f32{2,3,5} axis=0,2 keepdim=1"},
};
