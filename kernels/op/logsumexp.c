/* logsumexp.c - the logarithm of the sum of exponentials over dimensions, without overflow.
 *
 * An unsplit axis needs one operator. For a split axis, the operator becomes a composite if the composite moves
 * fewer bytes: the maximum m (P(max)), then the sum of e^(x - m) (P(sum)), both in f64. log_sums.h states the error
 * of both forms. The two forms may round a result differently. */
#include "kernels/op/base/op_impl.h"

#include "kernels/cpu/rows/fold.h"
#include "kernels/cpu/rows/log_sums.h"
#include "kernels/cpu/rows/reduce.h"
#include "kernels/cpu/rows/rows.h"
#include "runtime/base/stop.h"

#include <float.h>
#include <math.h>

extern const struct op op_clamp, op_eq, op_exp_sum, op_floor, op_logsumexp, op_max;

enum { AXIS, KEEPDIM };

static struct val *
exp_sum(struct build *b, struct val *x, struct val *m, const struct attr *axis)
{
    struct attr attr[OP_ATTR];
    op_attr_defaults(&op_exp_sum, attr);
    attr_ints(&op_exp_sum, attr, "axis", axis->n, axis->list);
    return b_call(b, &op_exp_sum, 2, (struct val *[]){x, m}, attr);
}

/* Builds m + log(sum of e^(x - m)). m is near the maximum but finite, so that the result for an x with an infinity
 * is infinite, not NaN. The result does not depend on m, so m is rounded to an integer, whose derivative is 0.
 *
 * The maximum is partial, P(max), and m is read twice. An increasing operator such as floor keeps a partial maximum
 * partial, so each reader of m would complete the maximum with an exchange of its own. A product, even with 1, needs
 * the complete maximum. So m is multiplied by 1, and the maximum is completed once. The sum over ranks is in f64,
 * too: if m and the logarithm nearly cancel, a sum of f32 exponentials lacks the digits of the result. */
static struct val *
by_parts(struct build *b, struct val *x, const struct call *c)
{
    const struct attr *axis = &c->attr[AXIS];
    enum dtype dtype = x ? x->type.dtype : DT_F64;
    double most = dtype == DT_F64 ? DBL_MAX : FLT_MAX;
    struct val *greatest = b_reduce(b, &op_max, x, axis->list, axis->n, true);
    struct val *within = b_call3(b, &op_clamp, greatest, b_number(b, -most), b_number(b, most));
    struct val *m = b_scale(b, b_call1(b, &op_floor, within), 1);
    struct val *y = b_add(b, b_cast(b, m, DT_F64), b_log(b, exp_sum(b, b_cast(b, x, DT_F64), m, axis)));
    y = b_cast(b, y, dtype);
    return c->attr[KEEPDIM].i ? y : b_squeeze(b, y, axis->list, axis->n);
}

/* Returns true if the reduced dimensions, ignoring those of size 1, are adjacent. Sets *order to a permutation that
 * puts the reduced dimensions last. */
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

/* Builds the result from x with its reduced dimensions permuted to the end. */
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

/* Converts 16-bit floats and integers to f32, and builds the call on the copy. The gradient then is f32, too:
 * computed from a y rounded to 16 bits, e^(x - y) would contain y's rounding error. */
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

/* Builds logsumexp over a split reduced dimension from a maximum, exponentials and sums. If the dimension is
 * empty, builds one operator: an empty dimension has no maximum, and moving it costs nothing. */
static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    if (!reduces_split(c) || reduced_count(c) == 0) return 0;
    out[0] = by_parts(b, in[0], c);
    return b->failed ? (int)err_last() : 0;
}

/* Returns ln(e^a + e^x). */
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

/* ---- variants ---- */

/* Returns the sum of e^(x - m) of floats, where m is their maximum. */
static double
exponentials(int64_t n, const float *x, float m)
{
    enum { BLOCK = 1024 };
    float e[BLOCK];
    double sum = 0;
    for (int64_t i = 0, some; i < n && stop_passes(i); i += some) {
        some = MIN(n - i, BLOCK);
        vec_exp_below(some, x + i, m, e);
        sum += fold_sum(e, some);
    }
    return sum;
}

static double
long_line(const struct reals *f, enum dtype d, int64_t n, const void *x)
{
    double m = f->max(n, x);
    if (!isfinite(m)) return log(f->exp_sum_any(n, x, 0));
    if (d == DT_F64) return m + log(f->exp_sum(n, x, m, NULL));
    double y = m + log(exponentials(n, x, (float)m));
    return log_sum_is_near(y) ? log_sum_wide(n, x, m) : y;
}

static void
some_lines(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at, int64_t count)
{
    enum dtype d = k->in[0].dtype == DT_F64 ? DT_F64 : DT_F32;
    double y[LINES_TOGETHER];
    static_assert((int)LINES_TOGETHER <= (int)LOG_SUMS, "LINES_TOGETHER is greater than LOG_SUMS");
    if (n <= LOG_SUM_SHORT)
        log_sums_short(d, n, count, at[0], y);
    else
        for (int64_t l = 0; l < count; l++)
            y[l] = long_line(f, d, n, (const char *)at[0] + l * n * (int64_t)dtype_bytes(d));
    for (int64_t l = 0; l < count; l++) line_put(&k->out[0], r + l, y[l]);
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    bool gone[MAX_DIM];
    reduced_dims(k->call, gone);
    *c = (struct line_call){.nview = 1, .view = {&k->in[0]}, .some = some_lines};
    return lines_over(&k->in[0], gone, &c->l);
}

/* Builds dx = dy e^(x - y) / (sum of e^(x - y)). The divisor is 1 except for the rounding error of y, which affects
 * all digits of dx if y is far from 0. If x has an infinity, the sum is NaN and is replaced by 1; the dx of finite
 * elements is then 0. */
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
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; default: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep reduced dimensions, with size 1"}},
    .shape.make_rule = reduce_rule_unsplit,
    .shape.dtype = OUT_FLOAT,
    .grad.build = grad,
    .grad.saves = "0a",
    .build = build,
    .split_form = split_form,
    .host.ref = ref,
    .gpu.line = line,
    .gpu.line_dims = reduced_dims,
    .host.lines = lines,
    .host.kernel = lines_variants,
    .flags = OP_WIDE,
    .sample = {"f32{4,6} axis=1", "f32{2,3,5} axis=0,2 keepdim=1", "f32{7}", "f32{3,1500} axis=1"},
};
