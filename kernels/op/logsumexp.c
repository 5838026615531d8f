/* logsumexp.c - the logarithm of the sum of exponentials over dimensions, without overflow.
 *
 * On a whole axis it is one operator. On a split one it is a composition, where
 * that moves fewer bytes: the greatest value (P(max)), then the sum of what is
 * left (P(sum)). */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/fold.h"
#include "kernels/cpu/reduce.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vmath_f64.h"
#include "runtime/stop.h"

#include <float.h>
#include <math.h>

enum { AXIS, KEEPDIM };

static struct val *
exp_sum(struct build *b, struct val *x, struct val *m, const struct attr *axis)
{
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_exp_sum, attr);
    attr_ints(&op_exp_sum, attr, "axis", axis->n, axis->list);
    return b_call(b, &op_exp_sum, 2, (struct val *[]){x, m}, attr);
}

/* m + log of the sum of e^(x - m), m near the greatest, and finite: a sum with an infinity is infinite, not NaN. Any m
 * will do, so that it is no matter of differentiation: an integer has derivative 0. It is read more than once and what
 * leads to it is increasing, so that each reader would reduce a P(max) for itself; none passes a product, be it with 1.
 * In f64, the sum that ranks add up too: where m and the logarithm take each other away, what is left is of the digits
 * that no exponential of floats has. */
static struct val *
by_parts(struct build *b, struct val *x, const struct attr *axis, bool keepdim)
{
    enum dtype dtype = x ? x->type.dtype : DT_F64;
    double most = dtype == DT_F64 ? DBL_MAX : FLT_MAX;
    struct val *greatest = b_reduce(b, &op_max, x, axis->list, axis->n, true);
    struct val *within = b_call3(b, &op_clamp, greatest, b_number(b, -most), b_number(b, most));
    struct val *m = b_cast(b, b_scale(b, b_call1(b, &op_floor, within), 1), DT_F64);
    struct val *y = b_add(b, m, b_log(b, exp_sum(b, b_cast(b, x, DT_F64), m, axis)));
    y = b_cast(b, y, dtype);
    return keepdim ? y : b_squeeze(b, y, axis->list, axis->n);
}

/* Are the dimensions that go, but for those of one, in one piece? Else *order has them last. */
static bool
are_together(const struct call *c, int64_t *order)
{
    bool gone[MAX_DIM], begun = false, ended = false, together = true;
    int n = 0;
    reduced_dims(c, gone);
    for (int d = 0; d < c->in[0].ndim; d++) {
        if (c->in[0].dim[d] == 1) continue;
        together = together && !(gone[d] && ended);
        begun = begun || gone[d];
        ended = begun && !gone[d];
    }
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < c->in[0].ndim; d++)
            if (gone[d] == last) order[n++] = d;
    return together;
}

/* With the dimensions that go moved behind the others. */
static struct val *
moved(struct build *b, const struct call *c, struct val *x, const int64_t *order)
{
    int n = c->in[0].ndim, ngone = c->attr[AXIS].n;
    int64_t last[MAX_DIM], size[MAX_DIM];
    bool gone[MAX_DIM];
    reduced_dims(c, gone);
    for (int i = 0; i < ngone; i++) last[i] = n - ngone + i;
    for (int d = 0; d < n; d++) size[d] = gone[d] ? 1 : c->in[0].dim[d];
    struct val *y = b_reduce(b, &op_logsumexp, b_permute(b, x, n, order), last, ngone, false);
    return c->attr[KEEPDIM].i ? b_reshape(b, y, n, size) : y;
}

/* Halves are computed in f32, the gradient too: e^(x - y) of a rounded y would be off by as much as y is; integers
 * likewise. Nothing has no greatest value, and is as easily moved. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    const struct attr *axis = &c->attr[AXIS];
    bool keepdim = c->attr[KEEPDIM].i;
    int64_t order[MAX_DIM];
    struct val *x = dtype_is_float((enum dtype)c->in[0].dtype) ? b_wide(b, in[0]) : b_cast(b, in[0], DT_F32);
    if (x != in[0])
        out[0] = b_narrow(b, b_reduce(b, &op_logsumexp, x, axis->list, axis->n, keepdim), &c->in[0]);
    else if (!are_together(c, order))
        out[0] = moved(b, c, x, order);
    return b->failed ? (int)err_last() : 0;
}

/* A dimension that goes is cut. */
static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    if (!reduces_split(c) || reduced_count(c) == 0) return 0;
    out[0] = by_parts(b, in[0], &c->attr[AXIS], c->attr[KEEPDIM].i);
    return b->failed ? (int)err_last() : 0;
}

/* ln(e^a + e^x) */
static double
join(double a, double x)
{
    double most = x > a || x != x ? x : a, least = x > a ? a : x;
    return isinf(most) ? most : most + log1p(exp(least - most));
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[0], *y = &k->out[0];
    int64_t n = view_numel(x), m = view_numel(y);
    for (int64_t i = 0; i < m; i++) f64_of(y)[i] = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        double *a = f64_of(y) + reduced_index(k, i);
        *a = join(*a, elem_get_f(x->dtype, x->data, i));
    }
    return 0;
}

/* ---- fast ---- */

/* The sum of e^(x - m) of floats, m the greatest: of exponentials of floats, or of doubles. */
static double
exponentials(const struct call *c, bool fine, int64_t n, const float *x, float m)
{
    enum { BLOCK = 1024 };
    float e[BLOCK];
    double at[BLOCK], fine_e[BLOCK], sum = 0;
    const double *arg[] = {at};
    for (int64_t i = 0, some; i < n && stop_passes(i); i += some) {
        some = MIN(n - i, BLOCK);
        if (!fine) {
            vec_exp_below(some, x + i, m, e);
            sum += fold_sum(e, some);
            continue;
        }
        for (int64_t k = 0; k < some; k++) at[k] = (double)x[i + k] - (double)m;
        f64_exp(c, some, arg, fine_e);
        for (int64_t k = 0; k < some; k++) sum += fine_e[k];
    }
    return sum;
}

/* The logarithm of that, m the greatest: beside it, whose exponential is 1, small ones would be lost. */
static double
log_beside(const struct call *c, int64_t n, const float *x, float m)
{
    int64_t first = 0;
    while (x[first] != m) first++;
    double before = exponentials(c, true, first, x, m), behind = exponentials(c, true, n - first - 1, x + first + 1, m);
    return log1p(before + behind);
}

/* Where the greatest and the logarithm take each other away, what is left is of the digits that exponentials of floats
 * do not have; near 0, if the greatest is near it too, of those that a sum of at least 1 does not have. Else doubles
 * leave 1e-16 times the greatest. */
static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at)
{
    double max = f->max(n, at[0]), m = isfinite(max) ? max : 0;
    bool floats = k->in[0].dtype == DT_F32 && m == max;
    double sum = floats     ? exponentials(k->call, false, n, at[0], (float)m)
                 : m == max ? f->exp_sum(n, at[0], m, NULL)
                            : f->exp_sum_any(n, at[0], m);
    double y = m + log(sum);
    if (fabs(y) < 2 && n > 1 && floats) y = m + log(exponentials(k->call, true, n, at[0], (float)m));
    if (fabs(y) < 0x1p-24 && n > 1 && floats) y = m + log_beside(k->call, n, at[0], (float)m);
    line_put(&k->out[0], r, y);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    bool gone[MAX_DIM];
    reduced_dims(k->call, gone);
    *c = (struct line_call){.nview = 1, .view = {&k->in[0]}, .one = one_line};
    return lines_over(&k->in[0], gone, &c->l);
}

static const struct kernel_variant variants[] = {LINES_ROW, {NULL}};

/* dx = dy e^(x - y) / the sum of e^(x - y): that is 1 but for what y lost when it was rounded, which far from 0 is all
 * there is of a share's digits. Beside an infinity it is NaN, and others' shares are 0. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *x = n->in[0], *y = b_keepdim(b, n, n->out[0]), *dy = b_keepdim(b, n, dout[0]);
    struct val *sum = exp_sum(b, x, y, &n->attr[AXIS]);
    sum = b_where(b, b_call2(b, &op_eq, sum, sum), sum, b_number(b, 1));
    din[0] = b_mul(b, b_div(b, dy, sum), b_exp(b, b_sub(b, x, y)));
}

static const char line[] = BODY({
    const double most = fold<greatest>((double)-INFINITY, [&](element i) { return x0(i); });
    const double m = most - most == 0 ? most : 0;
    const double sum = fold<sums>(0.0, [&](element i) { return exp(x0(i) - m); });
    once([&] { y0(0, m + log(sum)); });
});

const struct op op_logsumexp = {
    .name = "logsumexp",
    .doc = "y = ln of the sum of e^x over axis",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; none: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep them with size 1"}},
    .make_rule = reduce_rule_unsplit,
    .dtype = OUT_FLOAT,
    .grad = grad,
    .saves = "0a",
    .build = build,
    .split_form = split_form,
    .ref = ref,
    .line = line,
    .line_dims = reduced_dims,
    .lines = lines,
    .kernel = variants,
    .flags = OP_WIDE,
    .sample = {"f32{4,6} axis=1", "f32{2,3,5} axis=0,2 keepdim=1", "f32{7}", "f32{3,1500} axis=1"},
};
