/* squeeze.c - removes dimensions of size one: a view. */
#include "kernels/op/base/op_impl.h"

enum { AXIS };

/* Returns true if dimension d is removed. Without an axis, all dimensions of size 1 are removed; an axis whose size
 * is not 1 stays, as in PyTorch. */
static bool
leaves(const struct call *c, int d)
{
    return c->in[0].dim[d] == 1 && axes_of(&c->attr[AXIS], ATTR_INTS, c->in[0].ndim).has[d];
}

static int
rule(const struct call *c, struct str *rule)
{
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", leaves(c, d) ? '1' : letter(d));
    str_add(rule, "->");
    for (int d = 0; d < c->in[0].ndim; d++)
        if (!leaves(c, d)) str_addf(rule, "%c", letter(d));
    return 0;
}

static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    int o = 0;
    for (int d = 0; d < in->ndim; d++)
        if (!leaves(c, d)) out->stride[o++] = in->stride[d];
    *skip = 0;
    return 0;
}

const struct op op_squeeze = {
    .name = "squeeze",
    .doc = "y = x without dimensions of size 1",
    .result = "a tensor without the dropped dimensions, a view of x",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS,
                       .doc = "dimensions to drop if their size is 1; default: all of them"}},
    .shape.make_rule = rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = b_reshape_grad,
    .host.view = view,
    .flags = OP_VIEW,
    .sample = {"f32{4,1,6}", "f32{1,4,1} axis=0", "i64{2,3} axis=1"},
};
