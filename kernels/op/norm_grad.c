/* norm_grad.c - the gradients of layer_norm (attribute center is true) and rms_norm (false) with respect to x,
 * weight and bias.
 *
 *   dx = r (u - mean(u) - xhat mean(u xhat)),   u = dy weight, xhat = (x - mean) r   (no mean(u) without center)
 *   dw = sum over rows of dy xhat,   db = sum over rows of dy
 *
 * r is 1 / deviation. The mean and r are recomputed from x, which brings the row into the cache for all three
 * results. Split rows leave partial sums in dw and db. */
#include "kernels/op/lib/norm.h"

#include <string.h>

enum { X, DY, WEIGHT };
enum { DX, DW, DB };

static int
rule(const struct call *c, struct str *rule)
{
    struct str x_text = {0}, last_text = {0};
    norm_text(&c->in[X], (int)c->attr[NORM_DIMS].i, &x_text, &last_text);
    const char *x = str_text(&x_text), *last = str_text(&last_text);
    str_addf(rule, "%s,%s,%s->%s,%s,%s", x, x, absent(&c->in[WEIGHT]) ? "=" : last, x, last, last);
    str_free(&x_text);
    str_free(&last_text);
    return 0;
}

static struct norm
shape(const struct kcall *k)
{
    const struct attr *a = k->call->attr;
    return norm_of(k, (int)a[NORM_DIMS].i, a[NORM_EPS].f, a[NORM_CENTER].i);
}

static int
ref(const struct kcall *k)
{
    struct norm s = shape(k);
    bool weight = k->in[WEIGHT].dtype != DT_NONE;
    double *dw = f64_of(&k->out[DW]), *db = f64_of(&k->out[DB]);
    memset(dw, 0, (size_t)s.n * sizeof *dw);
    memset(db, 0, (size_t)s.n * sizeof *db);
    for (int64_t r = 0; r < s.rows; r++) {
        const double *x = f64_of(&k->in[X]) + r * s.n, *dy = f64_of(&k->in[DY]) + r * s.n;
        double *dx = f64_of(&k->out[DX]) + r * s.n, sum = 0, sum_x = 0;
        struct norm_row t = norm_row(&s, x);
        for (int64_t i = 0; i < s.n; i++) {
            double u = dy[i] * (weight ? f64_of(&k->in[WEIGHT])[i] : 1);
            sum += s.center ? u : 0;
            sum_x += u * norm_distance(x[i], &t) * t.rstd;
        }
        for (int64_t i = 0; i < s.n; i++) {
            double u = dy[i] * (weight ? f64_of(&k->in[WEIGHT])[i] : 1);
            dx[i] = t.rstd * (u - sum / (double)s.n - norm_distance(x[i], &t) * t.rstd * sum_x / (double)s.n);
            dw[i] += dy[i] * norm_distance(x[i], &t) * t.rstd;
            db[i] += dy[i];
        }
    }
    return 0;
}

static int
prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    UNUSED(state);
    struct norm s = shape(k);
    *scratch_bytes = norm_scratch(&s);
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct norm s = shape(k);
    norm_backward(&s, &k->in[X], &k->in[DY], &k->in[WEIGHT], k->out, k->scratch);
    return 0;
}

/* Builds the gradients of dx with respect to x, dy and weight. h: gradient of dx; r: 1 / deviation; u: dy * weight;
 * xhat: normalised x; G(x, u): the formula for dx at the top of this file. The gradient of u is G(x, h). The gradient
 * of x has two terms: G(x, -r * (h * mean(u * xhat) + u * mean(h * xhat))), because xhat depends on x; and
 * -xhat * r * mean(h * dx), because r depends on x. x: operand x of n, in f32 if it is a 16-bit float. */
static void
through_dx(struct build *b, const struct node *n, struct val *x, struct val *h, struct val **din)
{
    struct val *dy = n->in[DY], *weight = n->in[WEIGHT], *dx = n->out[DX], *grad[OP_OUT];
    const struct attr *a = n->attr;
    struct val *u = b_wide(b, dy);
    if (weight) u = b_mul(b, u, weight);
    b_norm_grad(b, x, h, NULL, a, grad);
    struct val *du = grad[DX];
    if (b_wants(n, DY)) din[DY] = weight ? b_mul(b, du, weight) : du;
    if (b_wants(n, WEIGHT)) din[WEIGHT] = b_sum_products(b, dy, du, &weight->type);
    if (!b_wants(n, X)) return;
    struct val *xhat = b_norm_xhat(b, x, a), *r = b_norm_rstd(b, x, a);
    struct val *m = b_norm_mean(b, b_mul(b, u, xhat), a), *hm = b_norm_mean(b, b_mul(b, h, xhat), a);
    struct val *q = b_neg(b, b_mul(b, r, b_add(b, b_mul(b, h, m), b_mul(b, u, hm))));
    if (x != n->in[X]) { /* 16-bit floats: recomputes dx in f32, because f16 values of dx may have underflowed */
        b_norm_grad(b, x, dy, weight, a, grad);
        dx = grad[DX];
    }
    struct val *hdx = b_norm_mean(b, b_mul(b, h, dx), a);
    b_norm_grad(b, x, q, NULL, a, grad);
    din[X] = b_sub(b, grad[DX], b_mul(b, b_mul(b, xhat, r), hdx));
}

static void
add_to(struct build *b, struct val **sum, struct val *g)
{
    *sum = *sum ? b_add(b, *sum, g) : g;
}

/* Builds the gradients of dw and db with respect to x and dy. With h the gradient of dw, the gradient of dy is
 * h * xhat, and the gradient of x is G(x, h * dy). The gradient of db is added to each row of the gradient of dy.
 * Sums for 16-bit floats are f32 until the final cast. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = b_wide(b, n->in[X]), *dy = n->in[DY], *of_x[OP_OUT];
    if (dout[DX]) through_dx(b, n, x, dout[DX], din);
    if (dout[DW] && b_wants(n, DY)) add_to(b, &din[DY], b_mul(b, b_norm_xhat(b, x, n->attr), dout[DW]));
    if (dout[DW] && b_wants(n, X)) {
        b_norm_grad(b, x, dy, dout[DW], n->attr, of_x);
        add_to(b, &din[X], of_x[DX]);
    }
    if (dout[DB] && b_wants(n, DY)) add_to(b, &din[DY], b_expand(b, dout[DB], dy->type.ndim, dy->type.dim));
    for (int i = X; i <= DY; i++)
        if (din[i]) din[i] = b_cast(b, din[i], n->in[i]->type.dtype);
}

static const struct kernel_variant variants[] = {
    {"simd", .dense_in = true, .accepts = norm_accepts, .prepare = prepare, .run = run}, {NULL}};

/* Texts of three GPU kernels, run in this order: the gradient of each row, which also stores the row's mean and 1
 * / deviation; sums over parts of each column; sums of these parts. */
static const char rows[] = BODY({
    const bool center = c->attr[CENTER].i, weight = !absent(&c->in[2]);
    const auto x = held([&](element i) { return x0(i); });
    const auto u = held([&](element i) { return weight ? x1(i) * (real)x2(i) : x1(i); });
    const fine mean = splitting<real>::of(center ? fold_near<sums>(0.0, x) / n : 0);
    const auto d = [&](element i) { return minus(x(i), mean); };
    const double squares = fold_squares(d);
    const double rstd = 1 / sqrt(squares / n + c->attr[EPS].f);
    const real r = rstd;
    const real sum = center ? fold_near<sums>(0.0, u) / n : 0;
    const real sum_x = fold_products(u, d) * rstd * rstd / n;
    each_of([&](element i) { return r * (u(i) - sum - d(i) * sum_x); }, [&](element i, real v) { y0(i, v); });
    keep(0, mean);
    keep(1, rstd);
});
static const char column_parts[] = BODY({
    const auto product = [&](element i) { return x1(i) * (minus(x0(i), kept<fine>(i, 0)) * (real)kept<double>(i, 1)); };
    keep(0, fold_near<sums>(0.0, [&](element i) { return product(from + i); }));
    keep(1, fold_near<sums>(0.0, [&](element i) { return x1(from + i); }));
});
static const char columns[] = BODY({
    const double products = fold_parts<sums>(0.0, [&](int64_t i) { return kept_part<double>(i, 0); });
    const double sum = fold_parts<sums>(0.0, [&](int64_t i) { return kept_part<double>(i, 1); });
    once([&] {
        y1(0, products);
        y2(0, sum);
    });
});

static void
column_dims(const struct call *c, bool *gone)
{
    norm_line_dims(c, gone);
    for (int d = 0; d < c->in[X].ndim; d++) gone[d] = !gone[d];
}

static const struct line_pass passes[] = {
    {.body = rows, .dims = norm_line_dims, .writes = 1 << DX, .keeps = 2},
    {.body = column_parts, .dims = column_dims, .keeps = 2, .parted = true, .lanes = true},
    {.body = columns, .dims = column_dims, .writes = 1 << DW | 1 << DB},
    {NULL},
};

const struct op op_norm_grad = {
    .name = "norm_grad",
    .doc = "dx = r (u - mean(u) - xhat mean(u xhat)), u = dy weight, xhat = (x - mean) r; over rows: "
           "dw = sum of dy xhat, db = sum of dy",
    .in = {{"x", IN_FLOAT}, {"dy", IN_FLOAT}, {"weight", IN_FLOAT | IN_OPTIONAL}},
    .nout = 3,
    .attr = {[NORM_DIMS] = {"dims", ATTR_INT, .i = 1, .doc = "number of last dimensions"},
             [NORM_EPS] = {"eps", ATTR_FLOAT, .f = 1e-5, .doc = "added to the variance"},
             [NORM_CENTER] = {"center", ATTR_BOOL, .i = 1, .doc = "true: the mean is subtracted, as in layer_norm"}},
    .shape.make_rule = rule,
    .shape.dtype = OUT_IN0,
    .partial.linear = "1",
    .partial.reduce = RED_SUM,
    .partial.sums = 1 << DW | 1 << DB,
    .grad.build = grad,
    .grad.saves = "012a",
    .host.ref = ref,
    .gpu.pass = passes,
    .gpu.halves = 1 << DY,
    .host.kernel = variants,
    .flags = OP_HIDDEN | OP_UNPLACED | OP_LEADS,
    .sample = {"f32{4,6} f32{4,6} f32{6}", "f32{2,3,5} f32{2,3,5} - dims=2", "f32{4,6} f32{4,6} - center=0",
               "bf16{3,17} bf16{3,17} bf16{17}"},
};
