/* pad.c - adds entries around a tensor, or removes entries if an amount is negative. Padded dimensions stay unsplit.
 *
 * The gradient removes the added entries: it is a pad by the negative amounts. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/base/copies.h"

#include <stdlib.h>

extern const struct op op_pad;

enum { PAD, VALUE };

/* greatest amount, so that a dimension plus two amounts cannot overflow 64 bits */
static const int64_t MOST = (int64_t)1 << 60;

/* Sets the numbers of entries that are added before and after dimension d. The first pair of the attribute pad is for
 * the last dimension. */
static void
amounts(const struct call *c, int ndim, int d, int64_t *before, int64_t *after)
{
    int pair = ndim - 1 - d;
    bool given = 2 * pair + 1 < c->attr[PAD].n;
    *before = given ? c->attr[PAD].list[2 * pair] : 0;
    *after = given ? c->attr[PAD].list[2 * pair + 1] : 0;
}

static int
rule(const struct call *c, struct str *rule)
{
    struct str to = {0};
    for (int d = 0; d < c->in[0].ndim; d++) {
        int64_t before, after;
        amounts(c, c->in[0].ndim, d, &before, &after);
        bool same = before == 0 && after == 0;
        str_addf(rule, same ? "%c" : "[%c]", letter(d));
        str_addf(&to, same ? "%c" : "[%c]", letter(same ? d : d + MAX_DIM));
    }
    str_addf(rule, "->%s", str_text(&to));
    str_free(&to);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    int n = c->in[0].ndim;
    if (c->attr[PAD].n % 2)
        return call_fail(E_ATTR, c, "pad must have an even number of entries, such as {left, right}, found %d",
                         c->attr[PAD].n);
    if (c->attr[PAD].n > 2 * n)
        return call_fail(E_ATTR, c, "pad must have at most one pair per dimension, found %d pairs for %d dimensions",
                         c->attr[PAD].n / 2, n);
    for (int d = 0; d < n; d++) {
        int64_t before, after;
        amounts(c, n, d, &before, &after);
        if (before == 0 && after == 0) continue;
        if (before < -MOST || before > MOST || after < -MOST || after > MOST)
            return call_fail(E_ATTR, c, "pad amounts must be from -2^60 to 2^60, found %lld and %lld",
                             (long long)before, (long long)after);
        *size = c->in[0].dim[d] + before + after;
        if (*size < 0)
            return call_fail(E_SHAPE, c, "the size of dimension %d of the result must not be negative, found %lld", d,
                             (long long)*size);
        size++;
    }
    return 0;
}

static const char *
linear_of(const struct call *c)
{
    return c->attr[VALUE].f == 0 ? "0" : NULL;
}

static void
fill(const struct view *y, double value)
{
    _Alignas(8) char entry[8];
    struct view one = *y;
    if (dtype_is_float(y->dtype))
        elem_set_f(y->dtype, entry, 0, value);
    else
        elem_set_i(y->dtype, entry, 0, (int64_t)value);
    one.data = entry;
    for (int d = 0; d < one.ndim; d++) one.stride[d] = 0;
    view_copy(y, &one);
}

/* Moves the start of view v by n entries of dimension d. */
static void
advance(struct view *v, int d, int64_t n)
{
    v->data = (char *)v->data + n * v->stride[d] * (int64_t)dtype_bytes(v->dtype);
}

/* Fills n entries of dimension d, starting at `first`, with the padding value. */
static void
fill_part(const struct view *y, int d, int64_t first, int64_t n, double value)
{
    struct view part = *y;
    if (n <= 0) return;
    advance(&part, d, first);
    part.dim[d] = n;
    fill(&part, value);
}

/* Pads memory of any strides and dtype. */
static int
ref(const struct kcall *k)
{
    struct view x = k->in[0], y = k->out[0];
    double value = k->call->attr[VALUE].f;
    for (int d = 0; d < x.ndim; d++) {
        int64_t before, after;
        amounts(k->call, x.ndim, d, &before, &after);
        int64_t n = x.dim[d] + MIN(before, 0) + MIN(after, 0);
        if (n <= 0) { /* amounts are negative, and remove all entries of x */
            fill(&y, value);
            return 0;
        }
        fill_part(&y, d, 0, before, value);
        fill_part(&y, d, y.dim[d] - after, after, value);
        advance(before < 0 ? &x : &y, d, llabs(before));
        x.dim[d] = y.dim[d] = n;
    }
    copies_run(&y, &x, k->threads);
    return 0;
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0) || !dout[0]) return;
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_pad, attr);
    attr[PAD] = n->attr[PAD];
    for (int i = 0; i < attr[PAD].n; i++) attr[PAD].list[i] = -attr[PAD].list[i];
    din[0] = b_call(b, &op_pad, 1, dout, attr);
}

static const char element[] = BODY({
    typedef decltype(x0(at)) value;
    int64_t from[8];
    for (int d = 0; d < NDIM; d++) {
        const int first = 2 * (NDIM - 1 - d);
        from[d] = at[d] - (first + 1 < c->attr[PAD].n ? c->attr[PAD].list[first] : 0);
        if (from[d] < 0 || from[d] >= dim0(d)) return (value)c->attr[VALUE].f;
    }
    return x0(from);
});

const struct op op_pad = {
    .name = "pad",
    .doc = "y = x with pad[0] entries before and pad[1] after the last dimension, and so on to the first",
    .result = "a tensor whose sizes are those of x and the padding",
    .errors = "pad must be pairs of integers, at most one pair per dimension of x\n"
              "no size of the result may be negative",
    .in = {{"x"}},
    .attr = {[PAD] = {"pad", ATTR_INTS, ATTR_REQUIRED,
                      .doc = "pairs (before, after), from the last dimension on; negative: removes entries"},
             [VALUE] = {"value", ATTR_FLOAT, .doc = "value of the new entries"}},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear_of = linear_of,
    .partial.increasing = "0",
    .grad.build = grad,
    .host.ref = ref,
    .gpu.element = element,
    .host.kernel = kernel_strided,
    .flops = flops_of_copy,
    .sample = {"f32{4,6} pad=1,2", "f32{2,3,5} pad=0,0,1,0,2,2 value=3", "f32{4,6} pad=-1,2,3,-2", "i64{5} pad=2,1"},
};
