/* expand.c - repeats dimensions of size 1 and adds new dimensions in front: the result is a view with stride 0
 * along these dimensions. */
#include "kernels/op/base/op_impl.h"

enum { SIZES };

/* Appends the SBP rule: the operand's dimensions have the letters of the last dimensions of the result. */
static int
more(const struct call *c)
{
    return c->attr[SIZES].n - c->in[0].ndim;
}

static bool
repeats(const struct call *c, int d)
{
    int own = d - more(c);
    int64_t want = c->attr[SIZES].list[d];
    return own < 0 || (c->in[0].dim[own] == 1 && want != 1 && want != -1);
}

static int
rule(const struct call *c, struct str *rule)
{
    int n = c->attr[SIZES].n;
    for (int d = more(c); d < n; d++)
        if (repeats(c, d))
            str_add(rule, "1");
        else
            str_addf(rule, "%c", letter(d));
    str_add(rule, "->");
    for (int d = 0; d < n; d++) str_addf(rule, repeats(c, d) ? "%c+" : "%c", letter(d));
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    const struct attr *a = &c->attr[SIZES];
    if (more(c) < 0 || a->n > MAX_DIM)
        return call_fail(E_SHAPE, c, "expected %d to %d sizes, found %d", c->in[0].ndim, MAX_DIM, a->n);
    for (int d = 0; d < a->n; d++) {
        int own = d - more(c);
        int64_t have = own < 0 ? 1 : c->in[0].dim[own], want = a->list[d];
        if (repeats(c, d)) {
            if (want < 0)
                return call_fail(E_SHAPE, c, "the size of a new dimension must not be negative, found %lld",
                                 (long long)want);
            *size++ = want;
        } else if (want != -1 && want != have) {
            return call_fail(E_SHAPE, c, "dimension %d is %lld and cannot become %lld; only size 1 can", own,
                             (long long)have, (long long)want);
        }
    }
    return 0;
}

static int
view(const struct call *c, const struct view *in, struct view *out, int64_t *skip)
{
    for (int d = 0; d < out->ndim; d++) out->stride[d] = repeats(c, d) ? 0 : in->stride[d - more(c)];
    *skip = 0;
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, 0)) din[0] = b_sum_to(b, dout[0], &n->in[0]->type);
}

const struct op op_expand = {
    .name = "expand",
    .doc = "y = x, dimensions of size 1 repeated to sizes",
    .result = "a tensor of the given sizes, a view of x",
    .errors = "sizes must have an entry for each dimension of x; more entries are new first dimensions\n"
              "there may be at most 8 sizes\n"
              "only a dimension of size 1 may become larger; -1 keeps a size",
    .in = {{"x"}},
    .attr = {[SIZES] = {"sizes", ATTR_INTS, ATTR_REQUIRED, .doc = "sizes of the result; -1 keeps a size"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "0",
    .partial.increasing = "0",
    .grad.build = grad,
    .host.view = view,
    .flags = OP_VIEW,
    .sample = {"f32{4,1} sizes=4,6", "f32{5} sizes=2,3,5", "i64{1,3} sizes=-1,-1", "f32{} sizes=3"},
};
