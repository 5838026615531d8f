/* reshape.c - the same elements, in row-major order, in another shape.
 *
 * The result is a view if strides allow: within every group of dimensions that are merged or divided, the
 * operand's elements must be equally spaced. If no view is possible, the operand is copied. */
#include "kernels/op/base/op_impl.h"

#include <string.h>

enum { SHAPE };

static int
rule(const struct call *c, struct str *rule)
{
    return rule_reshape(c, c->attr[SHAPE].n, c->attr[SHAPE].list, rule, NULL);
}

static int
infer(const struct call *c, int64_t *size)
{
    return rule_reshape(c, c->attr[SHAPE].n, c->attr[SHAPE].list, NULL, size);
}

static int
no_view(void)
{
    return fail(E_STATE, "reshape: the result cannot be a view of the operand; a copy is needed");
}

/* Computes the strides of the view, from the last dimension to the first in both shapes. A run is a sequence of
 * operand elements at a constant distance. If a dimension of the result spans two runs, no view exists. */
static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    UNUSED(c);
    *skip = 0;
    if (view_numel(in) == 0) return 0; /* any strides suit an empty operand */
    int d = in->ndim - 1;
    /* run: number of elements of the present run that no result dimension has used yet; stride: distance between
     * them, elements */
    int64_t run = 1, stride = 1;
    for (int o = out->ndim - 1; o >= 0; o--) {
        int64_t need = out->dim[o];
        out->stride[o] = 1;
        if (need <= 1) continue;
        while (run == 1 && d >= 0) {
            run = in->dim[d];
            stride = in->stride[d--];
        }
        while (run < need || run % need != 0) {
            if (d < 0) return no_view();
            if (in->dim[d] != 1 && in->stride[d] != stride * run) return no_view();
            run *= in->dim[d--];
        }
        out->stride[o] = stride;
        run /= need;
        stride *= need;
    }
    return 0;
}

/* Returns true if t has the sizes in the attribute shape. A size of -1, which infer() replaces, counts as different. */
static bool
is_shaped(const struct type *t, const struct attr *shape)
{
    return shape->n == t->ndim && !memcmp(shape->list, t->dim, sizeof(t->dim[0]) * t->ndim);
}

static struct val *
fold(const struct call *c, struct val *x, const struct node *before)
{
    if (is_shaped(&x->type, &c->attr[SHAPE])) return x;
    bool back = before && before->op == c->op && is_shaped(&before->in[0]->type, &c->attr[SHAPE]);
    return back ? before->in[0] : NULL;
}

const struct op op_reshape = {
    .name = "reshape",
    .doc = "y = x in another shape, row-major order kept",
    .result = "a tensor of the given shape; a view of x, if its strides allow that",
    .errors = "the sizes must be those of as many elements as x has; one may be -1, which stands for the rest",
    .in = {{"x"}},
    .attr = {[SHAPE] = {"shape", ATTR_INTS, ATTR_REQUIRED, .doc = "sizes; one may be -1"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = b_reshape_grad,
    .rewrite.fold = fold,
    .host.view = view,
    .flags = OP_VIEW,
    .sample = {"f32{4,6} shape=2,2,6", "f32{4,6} shape=-1", "f32{2,3,5} shape=6,5", "f32{4,6} shape=6,4",
               "f32{1,4} shape=4", "i64{0,3} shape=3,0"},
};
