/* transpose.c - exchanges two dimensions: a view. */
#include "kernels/op/base/op_impl.h"

enum { A, B };

static int
rule(const struct call *c, struct str *rule)
{
    char name[MAX_DIM + 1] = {0};
    int ndim = c->in[0].ndim;
    for (int d = 0; d < ndim; d++) name[d] = letter(d);
    str_addf(rule, "%s->", name);
    if (ndim > 0) {
        name[c->attr[A].i] = letter((int)c->attr[B].i);
        name[c->attr[B].i] = letter((int)c->attr[A].i);
    }
    str_add(rule, name);
    return 0;
}

static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    for (int d = 0; d < in->ndim; d++) out->stride[d] = in->stride[d];
    out->stride[c->attr[A].i] = in->stride[c->attr[B].i];
    out->stride[c->attr[B].i] = in->stride[c->attr[A].i];
    *skip = 0;
    return 0;
}

static struct val *
fold(const struct call *c, struct val *x, const struct node *before)
{
    const struct attr *a = c->attr, *b = before && before->op == c->op ? before->attr : NULL;
    if (a[A].i == a[B].i) return x;
    bool back = b && MIN(a[A].i, a[B].i) == MIN(b[A].i, b[B].i) && MAX(a[A].i, a[B].i) == MAX(b[A].i, b[B].i);
    return back ? before->in[0] : NULL;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_transpose(b, dout[0], (int)n->attr[A].i, (int)n->attr[B].i);
}

const struct op op_transpose = {
    .name = "transpose",
    .doc = "y[.., j, .., i, ..] = x[.., i, .., j, ..]",
    .result = "a tensor with the two dimensions exchanged, a view of x",
    .in = {{"x"}},
    .attr = {[A] = {"axis0", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "first dimension"},
             [B] = {"axis1", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "second dimension"}},
    .shape.make_rule = rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = grad,
    .rewrite.fold = fold,
    .host.view = view,
    .flags = OP_VIEW,
    .sample = {"f32{4,6} axis0=0 axis1=1", "i64{2,3,5} axis0=0 axis1=2"},
};
