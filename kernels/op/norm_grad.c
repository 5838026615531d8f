/* norm_grad.c - the gradient of layer_norm (center) and rms_norm with respect to x.
 *
 *   dx = r (u - mean(u) - xhat mean(u xhat)),   u = dy weight, xhat = (x - mean) r   (no mean(u) without center)
 *
 * The mean and r are computed again from x: a row is in the cache by then. */
#include "kernels/op/norm.h"

enum { X, DY, WEIGHT };

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, last = {0};
    norm_text(&c->in[X], (int)c->attr[NORM_DIMS].i, &x, &last);
    bool none = absent(&c->in[WEIGHT]);
    str_addf(rule, "%s,%s,%s->%s", str_text(&x), str_text(&x), none ? "=" : str_text(&last), str_text(&x));
    str_free(&x);
    str_free(&last);
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
    for (int64_t r = 0; r < s.rows; r++) {
        const double *x = f64_of(&k->in[X]) + r * s.n, *dy = f64_of(&k->in[DY]) + r * s.n;
        double *dx = f64_of(&k->out[0]) + r * s.n, mean, rstd, sum = 0, sum_x = 0;
        norm_stats(&s, x, &mean, &rstd);
        for (int64_t i = 0; i < s.n; i++) {
            double u = dy[i] * (weight ? f64_of(&k->in[WEIGHT])[i] : 1);
            sum += s.center ? u : 0;
            sum_x += u * (x[i] - mean) * rstd;
        }
        for (int64_t i = 0; i < s.n; i++) {
            double u = dy[i] * (weight ? f64_of(&k->in[WEIGHT])[i] : 1);
            dx[i] = rstd * (u - sum / (double)s.n - (x[i] - mean) * rstd * sum_x / (double)s.n);
        }
    }
    return 0;
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    struct norm s = shape(k);
    norm_backward(&s, &k->in[X], &k->in[DY], &k->in[WEIGHT], &k->out[0]);
    return 0;
}

/* With h the gradient of dx, and G(x, u) this operator without a weight: that of u is G(x, h); that of x is
 * G(x, -r (h mean(u xhat) + u mean(h xhat))) by way of xhat, and -xhat r mean(h dx) by way of r. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[X], *dy = n->in[DY], *weight = n->in[WEIGHT], *h = dout[0];
    const struct attr *a = n->attr;
    struct val *u = weight ? b_mul(b, dy, weight) : dy, *du = b_norm_grad(b, x, h, NULL, a);
    if (b_wants(n, DY)) din[DY] = weight ? b_mul(b, du, weight) : du;
    if (b_wants(n, WEIGHT)) din[WEIGHT] = b_sum_to(b, b_mul(b, dy, du), &weight->type);
    if (!b_wants(n, X)) return;
    struct val *xhat = b_norm_xhat(b, x, a), *r = b_norm_rstd(b, x, a);
    struct val *m = b_norm_mean(b, b_mul(b, u, xhat), a), *hm = b_norm_mean(b, b_mul(b, h, xhat), a);
    struct val *q = b_neg(b, b_mul(b, r, b_add(b, b_mul(b, h, m), b_mul(b, u, hm))));
    struct val *hdx = b_norm_mean(b, b_mul(b, h, n->out[0]), a);
    din[X] = b_sub(b, b_norm_grad(b, x, q, NULL, a), b_mul(b, b_mul(b, xhat, r), hdx));
}

static const struct kernel_variant variants[] = {{"simd", .dense_in = true, .accepts = norm_accepts, .run = run},
                                                 {NULL}};

static const char line[] = BODY({
    const bool center = c->attr[CENTER].i, weight = !absent(&c->in[2]);
    const double mean = center ? fold<sums>(0.0, [&](int64_t i) { return x0(i); }) / n : 0;
    const double squares = fold<sums>(0.0, [&](int64_t i) { return (x0(i) - mean) * (x0(i) - mean); });
    const double rstd = 1 / sqrt(squares / n + c->attr[EPS].f);
    const auto u = [&](int64_t i) { return weight ? (double)x1(i) * x2(i) : x1(i); };
    const double sum = center ? fold<sums>(0.0, u) / n : 0;
    const double sum_x = fold<sums>(0.0, [&](int64_t i) { return u(i) * (x0(i) - mean) * rstd; }) / n;
    each([&](int64_t i) { y0(i, rstd * (u(i) - sum - (x0(i) - mean) * rstd * sum_x)); });
});

const struct op op_norm_grad = {
    .name = "norm_grad",
    .doc = "dx = r (u - mean(u) - xhat mean(u xhat)), u = dy weight, xhat = (x - mean) r",
    .in = {{"x", IN_FLOAT}, {"dy", IN_FLOAT}, {"weight", IN_FLOAT | IN_OPTIONAL}},
    .attr = {[NORM_DIMS] = {"dims", ATTR_INT, .i = 1, .doc = "how many of the last dimensions"},
             [NORM_EPS] = {"eps", ATTR_FLOAT, .f = 1e-5, .doc = "added to the variance"},
             [NORM_CENTER] = {"center", ATTR_BOOL, .i = 1, .doc = "the mean was taken off"}},
    .make_rule = rule,
    .dtype = OUT_IN0,
    .linear = "1|2",
    .grad = grad,
    .saves = "012a",
    .ref = ref,
    .line = line,
    .line_dims = norm_line_dims,
    .kernel = variants,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,6} f32{6}", "f32{2,3,5} f32{2,3,5} - dims=2", "f32{4,6} f32{4,6} - center=0",
               "bf16{3,17} bf16{3,17} bf16{17}"},
};
