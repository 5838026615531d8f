/* exp_sum.c - sums e^(x - m) over dimensions. Each sum has its number m, which prevents overflow. logsumexp with a
 * split axis uses this operator, and adds up the sums of the ranks.
 *
 * exp_sum is one operator instead of a subtraction, an exponential and a sum, because its gradient dy * e^(x - m)
 * has x's layout. The gradient of a separate sum would be dy, repeated along the axis, in dy's layout; the whole
 * repeated tensor would be moved to x's layout. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/reduce.h"

#include <math.h>

enum { AXIS };

static int
exp_sum_rule(const struct call *c, struct str *rule)
{
    int n = c->in[0].ndim;
    struct axes gone = axes_of(&c->attr[AXIS], ATTR_INTS, n);
    for (int k = 0; k < 2 + c->nout; k++) {
        str_add(rule, k == 0 ? "" : k == 2 ? "->" : ",");
        for (int d = 0; d < n; d++) str_addf(rule, "%c", k && gone.has[d] ? '1' : letter(d));
    }
    return 0;
}

/* Fails with E_SHAPE if x and m differ in the number of dimensions. */
static int
exp_sum_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[1].ndim == c->in[0].ndim) return 0;
    return call_fail(E_SHAPE, c, "%s must have %d dimensions, as x, found %d", c->op->in[1].name, c->in[0].ndim,
                     c->in[1].ndim);
}

/* Returns the index of the sum to which element i of x is added. */
static int64_t
exp_sum_place(const struct kcall *k, int64_t i)
{
    const struct view *x = &k->in[0];
    struct axes gone = axes_of(&k->call->attr[AXIS], ATTR_INTS, x->ndim);
    int64_t place = 0, scale = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int64_t at = i % x->dim[d];
        i /= x->dim[d];
        if (gone.has[d]) continue;
        place += at * scale;
        scale *= x->dim[d];
    }
    return place;
}

static int
ref(const struct kcall *k)
{
    const double *x = f64_of(&k->in[0]), *m = f64_of(&k->in[1]);
    double *y = f64_of(&k->out[0]);
    for (int64_t i = 0; i < view_numel(&k->out[0]); i++) y[i] = 0;
    for (int64_t i = 0; i < view_numel(&k->in[0]); i++) {
        int64_t to = exp_sum_place(k, i);
        y[to] += exp(x[i] - m[to]);
    }
    return 0;
}

/* ---- variants for reduced dimensions that are adjacent ---- */

static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at)
{
    line_put(&k->out[0], r, f->exp_sum_any(n, at[0], line_get(&k->in[1], r)));
}

/* Sets *c to the lines of x, one line per sum. Returns false if the reduced dimensions of size > 1 are not adjacent. */
static bool
exp_sum_lines(const struct kcall *k, struct line_call *c)
{
    bool gone[MAX_DIM] = {false};
    struct axes axes = axes_of(&k->call->attr[AXIS], ATTR_INTS, k->in[0].ndim);
    for (int i = 0; i < axes.n; i++) gone[axes.axis[i]] = true;
    *c = (struct line_call){.nview = 1, .view = {&k->in[0]}, .one = one_line};
    return lines_over(&k->in[0], gone, &c->l);
}

static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[0], *m = n->in[1];
    if (b_wants(n, 0)) din[0] = b_mul(b, dout[0], b_exp(b, b_sub(b, x, m)));
    if (b_wants(n, 1)) din[1] = b_cast(b, b_neg(b, b_mul(b, dout[0], n->out[0])), m->type.dtype);
}

static const char line[] = BODY({
    const double sum = fold<sums>(0.0, [&](element i) { return exp(x0(i) - x1(i)); });
    once([&] { y0(0, sum); });
});

const struct op op_exp_sum = {
    .name = "exp_sum",
    .doc = "y = sum of e^(x - m) over axis",
    .in = {{"x", IN_FLOAT}, {"m", IN_FLOAT}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to sum over, kept with size 1; default: all"}},
    .shape.make_rule = exp_sum_rule,
    .shape.infer = exp_sum_infer,
    .shape.dtype = OUT_IN0,
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "01a",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = reduced_dims,
    .host.lines = exp_sum_lines,
    .host.kernel = lines_variants,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,1} axis=1", "f32{2,3,5} f32{1,3,1} axis=0,2", "f32{7} f32{1}",
               "f32{3,1500} f32{3,1} axis=1"},
};
