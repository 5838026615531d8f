/* logsumexp.c - the logarithm of the sum of exponentials over dimensions, without overflow.
 *
 * On a whole axis it is one operator. On a split one it is a composition: the
 * greatest value (P(max)), then the sum of what is left (P(sum)). */
#include "kernels/op/op_impl.h"

#include "kernels/cpu/reduce.h"
#include "kernels/cpu/vmath.h"

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

/* m is finite. Any will do, so that it is no matter of differentiation: a whole number has slope 0. It is read more
 * than once and what leads to it is increasing, so that each reader would reduce a P(max) for itself; none passes a
 * product, be it with 1. */
struct val *
b_log_exp_sum(struct build *b, struct val *x, const struct attr *axis, struct val **m)
{
    double most = x && x->type.dtype == DT_F64 ? DBL_MAX : FLT_MAX;
    struct val *greatest = b_reduce(b, &op_max, x, axis->list, axis->n, true);
    struct val *finite = b_call3(b, &op_clamp, greatest, b_number(b, -most), b_number(b, most));
    *m = b_scale(b, b_call1(b, &op_floor, finite), 1);
    return b_log(b, exp_sum(b, x, *m, axis));
}

static struct val *
by_parts(struct build *b, struct val *x, const struct attr *axis, bool keepdim)
{
    struct val *m;
    if (!dtype_is_float((enum dtype)x->type.dtype)) x = b_cast(b, x, DT_F32);
    struct val *rest = b_log_exp_sum(b, x, axis, &m), *y = b_add(b, m, rest);
    return keepdim ? y : b_drop_dims(b, y, axis->list, axis->n);
}

/* Halves are computed in f32, the gradient too: e^(x - y) of a rounded y would be off by as much as y is. Nothing has
 * no greatest value, and is as easily moved. */
static int
build(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    const struct attr *axis = &c->attr[AXIS];
    bool keepdim = c->attr[KEEPDIM].i;
    struct val *x = b_wide(b, in[0]);
    if (x != in[0])
        out[0] = b_narrow(b, b_reduce(b, &op_logsumexp, x, axis->list, axis->n, keepdim), &c->in[0]);
    else if (reduces_split(c) && reduced_count(c) > 0)
        out[0] = by_parts(b, x, axis, keepdim);
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

/* ln of the sum of e^(x - m), plus m, over n floats side by side. */
static double
line(int64_t n, const float *x)
{
    enum { BLOCK = 1024 };
    float y[BLOCK];
    double greatest = reduce_fold_f32(n, x, RED_MAX), sum = 0;
    float m = isinf(greatest) ? 0 : (float)greatest;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t w = MIN(n - i, BLOCK);
        for (int64_t j = 0; j < w; j++) y[j] = x[i + j] - m;
        vec_exp(w, y, y);
        sum += reduce_fold_f32(w, y, RED_SUM);
    }
    return m + log(sum);
}

static int
run(const struct kcall *k, const void *state)
{
    const struct view *x = &k->in[0], *y = &k->out[0];
    int64_t n = view_numel(y), size = n ? view_numel(x) / n : 0;
    UNUSED(state);
    for (int64_t i = 0; i < n; i++) ((float *)y->data)[i] = (float)line(size, (const float *)x->data + i * size);
    return 0;
}

/* Dense f32 whose last dimensions are those that go. */
static bool
accepts(const struct kcall *k)
{
    const struct attr *axis = &k->call->attr[AXIS];
    int64_t least = k->in[0].ndim;
    for (int i = 0; i < axis->n; i++) least = MIN(least, axis->list[i]);
    bool last = axis->n == 0 || least == k->in[0].ndim - axis->n;
    return k->in[0].dtype == DT_F32 && last && view_is_dense(&k->out[0]);
}

static const struct kernel_row rows[] = {{"simd", .dense_in = true, .accepts = accepts, .run = run}, {NULL}};

/* dx = dy e^(x - y) / the sum of e^(x - y): that is 1 but for what y lost when it was rounded, which far from 0 is all
 * there is of a share's digits. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (!b_wants(n, 0)) return;
    struct val *x = n->in[0], *y = b_keepdim(b, n, n->out[0]), *dy = b_keepdim(b, n, dout[0]);
    struct val *sum = exp_sum(b, x, y, &n->attr[AXIS]);
    din[0] = b_mul(b, b_div(b, dy, sum), b_exp(b, b_sub(b, x, y)));
}

const struct op op_logsumexp = {
    .name = "logsumexp",
    .doc = "y = ln of the sum of e^x over axis",
    .in = {{"x"}},
    .attr = {[AXIS] = {"axis", ATTR_INTS, ATTR_AXIS, .doc = "dimensions to reduce; none: all"},
             [KEEPDIM] = {"keepdim", ATTR_BOOL, .doc = "keep them with size 1"}},
    .make_rule = reduce_rule_whole,
    .dtype = OUT_FLOAT,
    .grad = grad,
    .saves = "0a",
    .build = build,
    .ref = ref,
    .kernel = rows,
    .flags = OP_WIDE,
    .sample = {"f32{4,6} axis=1", "f32{2,3,5} axis=0,2 keepdim=1", "f32{7}", "f32{3,1500} axis=1"},
};
