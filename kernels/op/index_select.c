/* index_select.c - entries of x along an axis, selected by position.
 *
 * A split of that axis leaves partial sums: a rank reads the positions that it holds and returns zeros for all
 * others. */
#include "kernels/op/lib/lookup.h"

static int
rule(const struct call *c, struct str *rule)
{
    struct lookup_text t = lookup_text(&c->in[0], &c->in[1], axis_of(c));
    str_addf(rule, "%s,%s->%s", t.x, t.ids, t.out);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[0].ndim == 0) return call_fail(E_SHAPE, c, "x must have at least 1 dimension");
    if (c->in[0].ndim + c->in[1].ndim > MAX_DIM + 1)
        return call_fail(E_SHAPE, c, "the result must have at most %d dimensions, found %d", MAX_DIM,
                         c->in[0].ndim + c->in[1].ndim - 1);
    return 0;
}

static int
ref(const struct kcall *k)
{
    lookup_find(k);
    lookup_take(&k->in[0], axis_of(k->call), &k->in[1], &k->out[0]);
    return 0;
}

static int
say(const struct kcall *k, const struct finding *f)
{
    static const struct lookup_words words = {"index_select", "id", "in an axis of ", " entries"};
    return lookup_say(k, 1, k->in[0].global[axis_of(k->call)], &words, f);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_index_add(b, n->in[0], (int)n->attr[0].i, n->in[1], dout[0]);
}

static const char element[] = BODY({
    const int axis = (int)c->attr[AXIS].i;
    int64_t from[8];
    for (int d = 0; d < NDIM0; d++) from[d] = at[d < axis ? d : d + NDIM1 - 1];
    from[axis] = x1(at + axis) - place0(axis);
    return from[axis] >= 0 && from[axis] < dim0(axis) ? x0(from) : 0;
});

const struct op op_index_select = {
    .name = "index_select",
    .doc = "y[.., j, ..] = x[.., ids[j], ..], along axis",
    .result = "a tensor of x's shape with the dimensions of ids in place of axis",
    .errors = "x must have at least 1 dimension, and the result at most 8\n"
              "an id must be from 0 to the size of x along axis - 1",
    .in = {{"x"}, {"ids", IN_INDEX}},
    .attr = {{"axis", ATTR_INT, ATTR_REQUIRED | ATTR_AXIS, .doc = "dimension that ids index"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "01",
    .host.ref = ref,
    .gpu.element = element,
    .host.allows = lookup_allows_axis,
    .host.say = say,
    .host.kernel = kernel_direct,
    .flops = flops_of_copy,
    .sample = {"f32{4,3} i64{5}<4 axis=0", "f32{2,5,3} i32{4}<5 axis=1", "i64{3,4} i64{2}<4 axis=1"},
};
