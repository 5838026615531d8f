/* norm_weight.c - the gradient of layer_norm (center) and rms_norm with respect to the weight: dy xhat, summed over all
 * rows. Split rows leave partial sums. */
#include "kernels/op/norm.h"

#include <string.h>

enum { X, DY };

static int
rule(const struct call *c, struct str *rule)
{
    struct str x = {0}, last = {0};
    norm_text(&c->in[X], (int)c->attr[NORM_DIMS].i, &x, &last);
    str_addf(rule, "%s,%s->%s", str_text(&x), str_text(&x), str_text(&last));
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
    double *dw = f64_of(&k->out[0]);
    memset(dw, 0, (size_t)s.n * sizeof *dw);
    for (int64_t r = 0; r < s.rows; r++) {
        const double *x = f64_of(&k->in[X]) + r * s.n, *dy = f64_of(&k->in[DY]) + r * s.n;
        double mean, rstd;
        norm_stats(&s, x, &mean, &rstd);
        for (int64_t i = 0; i < s.n; i++) dw[i] += dy[i] * (x[i] - mean) * rstd;
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
    norm_weight(&s, &k->in[X], &k->in[DY], &k->out[0], k->scratch);
    return 0;
}

/* dw = sum of dy xhat(x): with h its gradient, that of dy is h xhat, that of x is norm_grad of h dy. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *x = n->in[X], *dy = n->in[DY], *h = dout[0];
    if (b_wants(n, DY)) din[DY] = b_mul(b, b_norm_xhat(b, x, n->attr), h);
    if (b_wants(n, X)) din[X] = b_norm_grad(b, x, dy, h, n->attr);
}

static const struct kernel_variant variants[] = {
    {"simd", .dense_in = true, .accepts = norm_accepts, .prepare = prepare, .run = run}, {NULL}};

/* Mean and 1 / deviation of each row, then each column's sum. */
static const char stats[] = BODY({
    const double mean = c->attr[CENTER].i ? fold<sums>(0.0, [&](int64_t i) { return x0(i); }) / n : 0;
    const double squares = fold<sums>(0.0, [&](int64_t i) { return (x0(i) - mean) * (x0(i) - mean); });
    keep(0, mean);
    keep(1, 1 / sqrt(squares / n + c->attr[EPS].f));
});
static const char columns[] = BODY({
    const double sum =
        fold<sums>(0.0, [&](int64_t i) { return x1(i) * ((x0(i) - kept<double>(i, 0)) * kept<double>(i, 1)); });
    once([&] { y0(0, sum); });
});

static void
row_dims(const struct call *c, bool *gone)
{
    norm_line_dims(c, gone);
    for (int d = 0; d < c->in[X].ndim; d++) gone[d] = !gone[d];
}

static const struct line_pass passes[] = {
    {.body = stats, .dims = norm_line_dims, .keeps = 2}, {.body = columns, .dims = row_dims, .writes = 1}, {NULL}};

const struct op op_norm_weight = {
    .name = "norm_weight",
    .doc = "dw = sum over rows of dy xhat, xhat = (x - mean) / sqrt(variance + eps)",
    .in = {{"x", IN_FLOAT}, {"dy", IN_FLOAT}},
    .attr = {[NORM_DIMS] = {"dims", ATTR_INT, .i = 1, .doc = "how many of the last dimensions"},
             [NORM_EPS] = {"eps", ATTR_FLOAT, .f = 1e-5, .doc = "added to the variance"},
             [NORM_CENTER] = {"center", ATTR_BOOL, .i = 1, .doc = "the mean was taken off"}},
    .make_rule = rule,
    .linear = "1",
    .reduce = RED_SUM,
    .grad = grad,
    .saves = "01",
    .ref = ref,
    .pass = passes,
    .kernel = variants,
    .flags = OP_HIDDEN | OP_UNPLACED,
    .sample = {"f32{4,6} f32{4,6}", "f32{2,3,5} f32{2,3,5} dims=2", "f32{4,6} f32{4,6} center=0",
               "bf16{3,17} bf16{3,17}"},
};
