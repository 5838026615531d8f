/* norm.c - code shared by layer_norm, rms_norm and their gradients: rules, reference, builders. */
#include "kernels/op/lib/norm.h"

#include <math.h>
#include <string.h>

extern const struct op op_moments_joined, op_moments_of, op_moments_told, op_norm_grad, op_rsqrt, op_stop_gradient;

enum { X, WEIGHT, BIAS };
enum { SHAPE, EPS };

/* ---- writing rules, and inferring shapes ---- */

static int
norm_dims(const struct call *c)
{
    for (int i = WEIGHT; i < c->nin; i++)
        if (!absent(&c->in[i])) return c->in[i].ndim;
    return c->attr[SHAPE].n ? c->attr[SHAPE].n : 1;
}

/* Implements line_dims: marks the dimensions over which the operator normalises. For a gradient, their number is the
 * attribute dims; for a norm, it is the number of dimensions of the weight. */
void
norm_line_dims(const struct call *c, bool *gone)
{
    int dims = op_attr_find(c->op, "dims") >= 0 ? (int)c->attr[NORM_DIMS].i : norm_dims(c);
    for (int d = 0; d < c->in[X].ndim; d++) gone[d] = d >= c->in[X].ndim - dims;
}

void
norm_text(const struct type *x, int dims, struct str *x_text, struct str *last)
{
    for (int d = 0; d < x->ndim; d++) {
        bool row = d >= x->ndim - dims;
        str_addf(x_text, row ? "[%c]" : "%c", letter(d));
        if (row) str_addf(last, "[%c]", letter(d));
    }
}

int
norm_rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, last = {0};
    norm_text(&c->in[X], norm_dims(c), &x, &last);
    str_add(rule, str_text(&x));
    for (int i = WEIGHT; i < c->nin; i++) str_addf(rule, ",%s", absent(&c->in[i]) ? "=" : str_text(&last));
    str_addf(rule, "->%s", str_text(&x));
    str_free(&x);
    str_free(&last);
    return 0;
}

/* Fails unless normalized_shape, if it is given, equals the sizes of the last `dims` dimensions of x. */
static int
check_shape(const struct call *c, int dims)
{
    const struct attr *given = &c->attr[SHAPE];
    struct type want = {.ndim = (uint8_t)dims}, has = {.ndim = (uint8_t)dims};
    if (given->n == 0) return 0;
    memcpy(want.dim, c->in[X].dim + c->in[X].ndim - dims, sizeof *want.dim * (size_t)dims);
    memcpy(has.dim, given->list, sizeof *has.dim * (size_t)dims);
    if (shape_equal(&want, &has)) return 0;
    struct str s = {0};
    shape_print(&want, &s);
    str_add(&s, ", the last sizes of x, found ");
    shape_print(&has, &s);
    int code = call_fail(E_ATTR, c, "normalized_shape must be %s", str_text(&s));
    str_free(&s);
    return code;
}

int
norm_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    int n = c->in[X].ndim, dims = norm_dims(c);
    if (dims > n)
        return call_fail(E_SHAPE, c, "x must have at least %d dimension%s, found %d", dims, dims == 1 ? "" : "s", n);
    return check_shape(c, dims);
}

/* ---- reference ---- */

struct norm
norm_of(const struct kcall *k, int dims, double eps, bool center)
{
    struct norm s = {.rows = 1, .n = 1, .center = center, .eps = eps, .threads = k->threads};
    const struct view *x = &k->in[X];
    for (int d = 0; d < x->ndim; d++) *(d < x->ndim - dims ? &s.rows : &s.n) *= x->dim[d];
    return s;
}

struct norm_row
norm_row(const struct norm *s, const double *x)
{
    struct norm_row t = {0};
    double size = (double)s->n, sum = 0, squares = 0;
    for (int64_t i = 0; i < s->n; i++) sum += x[i];
    if (s->center) t.mean = sum / size;
    sum = 0;
    for (int64_t i = 0; i < s->n; i++) sum += x[i] - t.mean;
    if (s->center) t.rest = sum / size;
    for (int64_t i = 0; i < s->n; i++) squares += norm_distance(x[i], &t) * norm_distance(x[i], &t);
    t.rstd = 1 / sqrt(squares / size + s->eps);
    return t;
}

int
norm_ref(const struct kcall *k, bool center)
{
    struct norm s = norm_of(k, norm_dims(k->call), k->call->attr[EPS].f, center);
    bool weight = k->in[WEIGHT].dtype != DT_NONE, bias = k->call->nin > BIAS && k->in[BIAS].dtype != DT_NONE;
    for (int64_t r = 0; r < s.rows; r++) {
        const double *x = f64_of(&k->in[X]) + r * s.n;
        double *y = f64_of(&k->out[0]) + r * s.n;
        struct norm_row t = norm_row(&s, x);
        for (int64_t i = 0; i < s.n; i++) {
            y[i] = norm_distance(x[i], &t) * t.rstd;
            if (weight) y[i] *= f64_of(&k->in[WEIGHT])[i];
            if (bias) y[i] += f64_of(&k->in[BIAS])[i];
        }
    }
    return 0;
}

bool
norm_accepts(const struct kcall *k)
{
    int n = k->call->nout, f64 = 0;
    for (int i = 0; i < k->call->nout; i++) f64 += k->out[i].dtype == DT_F64;
    for (int i = 0; i < k->call->nin; i++) {
        n += k->in[i].dtype != DT_NONE;
        f64 += k->in[i].dtype == DT_F64;
    }
    return f64 == 0 || f64 == n;
}

int
norm_run(const struct kcall *k, bool center)
{
    static const struct view none;
    struct norm s = norm_of(k, norm_dims(k->call), k->call->attr[EPS].f, center);
    norm_forward(&s, &k->in[X], &k->in[WEIGHT], k->call->nin > BIAS ? &k->in[BIAS] : &none, &k->out[0]);
    return 0;
}

/* ---- gradients ---- */

void
b_norm_grad(struct build *b, struct val *x, struct val *dy, struct val *weight, const struct attr *attr,
            struct val **grad)
{
    for (int k = 0; k < OP_OUT; k++) grad[k] = NULL;
    if (x && dy) b->add(b, &op_norm_grad, 3, (struct val *[]){x, dy, weight}, attr, grad);
}

void
norm_grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din, bool center)
{
    struct attr attr[OP_ATTR];
    struct val *grad[OP_OUT], *x = n->in[X], *dy = dout[0], *weight = n->in[WEIGHT],
                              *bias = n->nin > BIAS ? n->in[BIAS] : NULL;
    int dims = weight ? weight->type.ndim : bias ? bias->type.ndim : n->attr[SHAPE].n ? n->attr[SHAPE].n : 1;
    op_attr_defaults(&op_norm_grad, attr);
    attr_int(&op_norm_grad, attr, "dims", dims);
    attr_float(&op_norm_grad, attr, "eps", n->attr[EPS].f);
    attr_int(&op_norm_grad, attr, "center", center);
    b_norm_grad(b, x, dy, weight, attr, grad);
    for (int i = X; i < n->nin; i++)
        if (b_wants(n, i)) din[i] = grad[i];
}

/* Sets axes[] to the normalised dimensions and returns their number. */
static int
axes_of_norm(const struct val *x, const struct attr *attr, int64_t *axes)
{
    int dims = (int)attr[NORM_DIMS].i;
    for (int i = 0; i < dims; i++) axes[i] = x->type.ndim - dims + i;
    return dims;
}

struct val *
b_norm_mean(struct build *b, struct val *x, const struct attr *attr)
{
    if (!x) return NULL;
    int64_t axes[MAX_DIM], size = 1;
    int dims = axes_of_norm(x, attr, axes);
    for (int i = 0; i < dims; i++) size *= x->type.dim[axes[i]];
    return b_scale(b, b_sum_wide(b, x, axes, dims, true), 1 / (double)size);
}

static struct val *
centered(struct build *b, struct val *x, const struct attr *attr)
{
    int64_t axes[MAX_DIM];
    if (!x || !attr[NORM_CENTER].i) return b_wide(b, x);
    return b_center(b, x, axes, axes_of_norm(x, attr, axes));
}

struct val *
b_norm_rstd(struct build *b, struct val *x, const struct attr *attr)
{
    struct val *d = centered(b, x, attr);
    return b_call1(b, &op_rsqrt, b_shift(b, b_norm_mean(b, b_mul(b, d, d), attr), attr[NORM_EPS].f));
}

struct val *
b_norm_xhat(struct build *b, struct val *x, const struct attr *attr)
{
    return b_mul(b, centered(b, x, attr), b_norm_rstd(b, x, attr));
}

/* ---- building the normalisation over a split dimension ---- */

static struct val *
line_mean(struct build *b, struct val *x, const int64_t *axes, int naxes, enum dtype d)
{
    int64_t n = 1;
    for (int i = 0; x && i < naxes; i++) n *= x->type.dim[axes[i]];
    return b_scale(b, b_line_sum(b, x, axes, naxes, d), 1 / (double)n);
}

/* Builds x minus its mean. For f64, subtracts a second mean, that of the differences, because the first mean is
 * rounded. The first mean needs no gradient, because the second makes the result independent of it. */
static struct val *
line_center(struct build *b, struct val *x, const int64_t *axes, int naxes)
{
    struct val *mean = line_mean(b, x, axes, naxes, DT_F64);
    if (!x || x->type.dtype != DT_F64) return b_cast(b, b_sub(b, x, mean), DT_F32);
    struct val *y = b_sub(b, x, b_call1(b, &op_stop_gradient, mean));
    return b_sub(b, y, line_mean(b, y, axes, naxes, DT_F64));
}

/* Returns true if the first normalised dimension, and no other, is split into equal shards; sets *parts to the
 * number of shards. */
static bool
in_even_parts(const struct call *c, int naxes, int64_t *parts)
{
    const struct type *x = &c->in[X];
    int first = x->ndim - naxes;
    *parts = cut_parts(c, X, first);
    for (int d = first + 1; d < x->ndim; d++)
        if (is_cut(c, X, d)) return false;
    return *parts > 1 && x->dim[first] % *parts == 0 && x->ndim + 1 < MAX_DIM;
}

/* Sets size[] to the shape of x, but with two dimensions in place of the split dimension: the shards, and the
 * entries of a shard. Returns the number of dimensions. If x has no dimension for rows, adds one of size 1, because
 * moments are joined per row. */
static int
parted_shape(const struct type *x, int naxes, int64_t parts, int64_t *size)
{
    int n = 0, first = x->ndim - naxes;
    if (first == 0) size[n++] = 1;
    for (int i = 0; i < x->ndim; i++) {
        if (i == first) size[n++] = parts;
        size[n++] = i == first ? x->dim[i] / parts : x->dim[i];
    }
    return n;
}

/* Returns (x - mean) * rstd for floats of at most 32 bits. x and the result have the shape of parted_shape(). The
 * ranks that share a row exchange its mean and deviation (moments.h). */
static struct val *
norm_by_moments(struct build *b, struct val *x, int naxes, double eps)
{
    int64_t axes[MAX_DIM];
    int n = x ? x->type.ndim : 0;
    struct attr attr[OP_ATTR];
    struct val *moments[OP_OUT] = {0};
    for (int i = 0; i < naxes; i++) axes[i] = n - naxes + i;
    struct val *own = line_mean(b, x, axes, naxes, DT_F64), *d = b_cast(b, b_sub(b, x, own), DT_F32);
    struct val *variance = line_mean(b, b_mul(b, d, d), axes, naxes, DT_F32);
    struct val *told =
        b_call2(b, &op_moments_told, b_squeeze(b, own, axes, naxes), b_squeeze(b, variance, axes, naxes));
    struct val *joined = b_call1(b, &op_moments_joined, told);
    op_attr_defaults(&op_moments_of, attr);
    attr_int(&op_moments_of, attr, "dims", naxes);
    attr_float(&op_moments_of, attr, "eps", eps);
    if (joined) b->add(b, &op_moments_of, 3, (struct val *[]){x, told, joined}, attr, moments);
    return b_mul(b, b_cast(b, b_sub(b, x, moments[0]), DT_F32), moments[1]);
}

int
norm_parts(struct build *b, const struct call *c, struct val *const *in, struct val **out, bool center)
{
    const struct type *x = &c->in[X];
    int64_t axes[MAX_DIM], size[MAX_DIM + 2], parts;
    int naxes = norm_dims(c), n;
    bool cut = false;
    for (int i = 0; i < naxes; i++) {
        axes[i] = x->ndim - naxes + i;
        cut = cut || is_cut(c, X, (int)axes[i]);
    }
    if (!cut || type_numel(x) == 0) return 0;
    struct val *d = b_wide(b, in[X]), *weight = in[WEIGHT], *bias = c->nin > BIAS ? in[BIAS] : NULL, *y;
    enum dtype wide = d ? d->type.dtype : DT_F32;
    if (center && wide == DT_F32 && in_even_parts(c, naxes, &parts)) {
        n = parted_shape(x, naxes, parts, size);
        const int64_t *last = size + n - naxes - 1;
        y = norm_by_moments(b, b_reshape(b, d, n, size), naxes, c->attr[EPS].f);
        if (!absent(&c->in[WEIGHT])) weight = b_reshape(b, weight, naxes + 1, last);
        if (c->nin > BIAS && !absent(&c->in[BIAS])) bias = b_reshape(b, bias, naxes + 1, last);
    } else {
        if (center) d = line_center(b, d, axes, naxes);
        struct val *variance = line_mean(b, b_mul(b, d, d), axes, naxes, wide);
        y = b_mul(b, d, b_call1(b, &op_rsqrt, b_shift(b, variance, c->attr[EPS].f)));
    }
    if (!absent(&c->in[WEIGHT])) y = b_mul(b, y, weight);
    if (c->nin > BIAS && !absent(&c->in[BIAS])) y = b_add(b, y, bias);
    out[0] = b_reshape(b, b_narrow(b, y, x), x->ndim, x->dim);
    return b->failed ? (int)err_last() : 0;
}
