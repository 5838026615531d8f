/* permute.c - reorders dimensions: a view. */
#include "kernels/op/base/op_impl.h"

enum { AXES };

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    const struct attr *axes = &c->attr[AXES];
    bool seen[MAX_DIM] = {false};
    bool good = axes->n == c->in[0].ndim;
    for (int d = 0; good && d < axes->n; d++) {
        good = !seen[axes->list[d]];
        seen[axes->list[d]] = true;
    }
    return good ? 0
                : call_fail(E_ATTR, c, "axes must name each of the %d dimensions once, found a list of %d axes",
                            c->in[0].ndim, axes->n);
}

static int
rule(const struct call *c, struct str *rule)
{
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < c->in[0].ndim; d++) str_addf(rule, "%c", letter((int)c->attr[AXES].list[d]));
    return 0;
}

static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    for (int d = 0; d < in->ndim; d++) out->stride[d] = in->stride[c->attr[AXES].list[d]];
    *skip = 0;
    return 0;
}

static struct val *
fold(const struct call *c, struct val *x, const struct node *before)
{
    const struct attr *a = &c->attr[AXES], *b = before && before->op == c->op ? &before->attr[AXES] : NULL;
    bool same = true, back = b && a->n == b->n;
    if (a->n != x->type.ndim) return NULL; /* infer() reports the wrong number of axes */
    for (int d = 0; d < a->n; d++) {
        same = same && a->list[d] == d;
        back = back && b->list[a->list[d]] == d;
    }
    return same ? x : back ? before->in[0] : NULL;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    int64_t back[MAX_DIM];
    for (int d = 0; d < n->attr[AXES].n; d++) back[n->attr[AXES].list[d]] = d;
    din[0] = b_permute(b, dout[0], n->attr[AXES].n, back);
}

const struct op op_permute = {
    .name = "permute",
    .doc = "dimension d of y is dimension axes[d] of x",
    .result = "a tensor whose dimension d is dimension axes[d] of x, a view of x",
    .errors = "axes must name each dimension of x",
    .in = {{"x"}},
    .attr = {[AXES] = {"axes", ATTR_INTS, ATTR_REQUIRED | ATTR_AXIS, .doc = "each dimension once"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = grad,
    .rewrite.fold = fold,
    .host.view = view,
    .flags = OP_VIEW,
    .sample = {"f32{4,6} axes=1,0", "i64{2,3,5} axes=2,0,1"},
};
