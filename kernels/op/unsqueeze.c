/* unsqueeze.c - inserts a dimension of size one: a view. */
#include "kernels/op/base/op_impl.h"

enum { AXIS };

static int
rule(const struct call *c, struct str *rule)
{
    int ndim = c->in[0].ndim, axis = (int)c->attr[AXIS].i;
    for (int d = 0; d < ndim; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d <= ndim; d++) {
        if (d == axis) str_add(rule, "1");
        if (d < ndim) str_addf(rule, "%c", letter(d));
    }
    return 0;
}

static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    int axis = (int)c->attr[AXIS].i;
    for (int d = 0; d < out->ndim; d++) out->stride[d] = d == axis ? 1 : in->stride[d - (d > axis)];
    *skip = 0;
    return 0;
}

const struct op op_unsqueeze = {
    .name = "unsqueeze",
    .doc = "y = x with a dimension of size 1 at axis",
    .result = "a tensor with one more dimension, of size 1, a view of x",
    .errors = "x must have at most 7 dimensions",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS | ATTR_AXIS_NEW,
                       .doc = "position of the new dimension"}},
    .shape.make_rule = rule,
    .shape.infer = infer_one_more,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = b_reshape_grad,
    .host.view = view,
    .flags = OP_VIEW,
    .sample = {"f32{4,6} axis=1", "i64{5} axis=1", "f32{} axis=0"},
};
