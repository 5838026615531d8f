/* attention_grad.c - the gradients of attention with respect to q, k and v. The operands are those of attention,
 * then dout and out.
 *
 *   p = softmax(scale q k^T + mask),  t = dout v^T,  mean = sum(dout * out),  e = scale p (t - mean)
 *   dq = e k,  dk = e^T q,  dv = p^T dout
 *
 * With a softcap, e is also multiplied by the derivative of the bounded scores. The fourth result has, for each
 * query, the gradient of its head's sink: -p(sink) * mean. Without sinks, this result is empty.
 *
 * out = p v is the result of attention, so a query's mean equals sum(p * t) over its keys, and is known before any
 * weight is computed. The weights p are recomputed. dk and dv are sums over queries, and e is linear in t and in
 * mean, which are sums over the width of values. So a split of the queries or of the width of values leaves
 * partial sums. If an operand is broadcast over the batch, its result has one gradient per batch entry, not yet
 * summed.
 *
 * The computation of mean from dout and out is from Dao et al. 2022. */
#include "kernels/op/attention_grad.h"
#include "kernels/op/attention.h"

#include "runtime/base/stop.h"
#include "kernels/cpu/attention/attention_rows.h"

extern const struct op op_attention_grad;

static int
rule(const struct call *c, struct str *rule)
{
    struct attention_text t;
    attention_text(c, &t);
    const char *v = str_text(&t.v), *out = str_text(&t.out);
    str_addf(rule, "%s,%s,%s,%s,%s,%s->", str_text(&t.q), str_text(&t.k), v, str_text(&t.options), out, out);
    int batch = c->in[ATT_Q].ndim - 2;
    const struct str *own[] = {&t.q, &t.k, &t.v};
    for (int i = ATT_Q; i <= ATT_V; i++) str_addf(rule, "%s%.*s%s", i ? "," : "", batch, out, str_text(own[i]) + batch);
    str_addf(rule, ",%.*s[z]", batch + 1, out);
    attention_text_free(&t);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    TRY(attention_infer(c, size));
    size[0] = !absent(&c->in[ATT_SINKS]);
    return 0;
}

static double
flops(const struct call *c)
{
    return 2.5 * attention_flops(c);
}

static double
dot(int64_t n, const double *x, const double *y)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static int
ref(const struct kcall *k)
{
    struct view scores = attention_scores(k);
    int last = scores.ndim - 1;
    int64_t nquery = scores.dim[last - 1], nkey = scores.dim[last];
    int64_t size = k->in[ATT_Q].dim[last], width = k->in[ATT_V].dim[last];
    for (int i = 0; i < 3; i++) fill_view(&k->out[i], 0);
    struct view rows = scores;
    rows.dim[last] = 1;
    for (int64_t r = 0; r < view_numel(&rows) && !stop_now(); r++) {
        int64_t head = r / nquery;
        struct query q = query_of(k, &scores, r);
        const double *v = f64_of(&k->in[ATT_V]) + attention_head(&k->in[ATT_V], &scores, head);
        const double *g = f64_of(&k->in[ATT_OUT_GRAD]) + r * width;
        double *dq = f64_of(&k->out[0]) + r * size, mean = dot(width, g, f64_of(&k->in[ATT_OUT]) + r * width);
        double *dk = f64_of(&k->out[1]) + head * nkey * size, *dv = f64_of(&k->out[2]) + head * nkey * width;
        if (view_numel(&k->out[3]) > 0) f64_of(&k->out[3])[r] = -query_sink_weight(&q) * mean;
        for (int64_t j = q.keys.first; j < q.keys.end; j++) {
            double p = query_weight(&q, j);
            double e = q.scale * query_slope(&q, j) * p * (dot(width, g, v + j * width) - mean);
            for (int64_t i = 0; i < width; i++) dv[j * width + i] += p * g[i];
            for (int64_t i = 0; i < size; i++) dq[i] += e * q.k[j * size + i];
            for (int64_t i = 0; i < size; i++) dk[j * size + i] += e * q.q[i];
        }
    }
    return 0;
}

void
b_attention_grad(struct build *b, struct val *const *in, struct val *dout, struct val *out, const struct attr *attr,
                 struct val **grad)
{
    struct val *res[OP_OUT] = {NULL};
    struct val *operand[] = {in[ATT_Q], in[ATT_K], in[ATT_V], in[ATT_MASK], in[ATT_SINKS], in[ATT_SPANS], dout, out};
    b->add(b, &op_attention_grad, countof(operand), operand, attr, res);
    for (int i = 0; i < 4; i++) grad[i] = res[i];
}

/* ---- building the gradient of the gradient ---- */

/* Returns x + y; either may be NULL. */
static struct val *
both(struct build *b, struct val *x, struct val *y)
{
    return x && y ? b_add(b, x, y) : x ? x : y;
}

/* Values for the gradient of this operator, in f32 for 16-bit floats; NULL: the value is 0. h, i, j and m are the
 * gradients of dq, dk, dv and of the result for the sinks. slope: derivative of the softcap.
 *
 *   e = p * scale * (t - mean) * slope,  a = h k^T + q i^T, the gradient of e
 *
 * p and the weight of the sink are the results of one softmax, so their gradients share the sum `common`. */
struct second {
    struct val *p, *dp;       /* weights of keys, and the gradient of the weights */
    struct val *rest, *drest; /* weight of the sink, and its gradient */
    struct val *dt, *dmean;   /* gradients of t and of mean */
    struct val *du;           /* gradient of the scores before the softcap: the part from the derivative of slope */
};

/* Returns the product x * y; NULL if x or y is NULL. */
static struct val *
times(struct build *b, struct val *x, struct val *y)
{
    return x && y ? b_mul(b, x, y) : NULL;
}

static struct val *
row_sum(struct build *b, struct val *x)
{
    const int64_t last = x ? x->type.ndim - 1 : 0;
    return x ? b_sum(b, x, &last, 1, true) : NULL;
}

/* Returns the derivative of the bounded scores (softcap), 1 - bounded^2; NULL: there is no softcap, and the
 * derivative is 1. */
static struct val *
slope_of(struct build *b, struct val *bounded)
{
    return bounded ? b_shift(b, b_scale(b, b_square(b, bounded), -1), 1) : NULL;
}

/* Returns x * slope, where slope is the derivative of the softcap; returns x if there is no softcap. */
static struct val *
sloped(struct build *b, struct val *x, struct val *slope)
{
    return x && slope ? b_mul(b, x, slope) : x;
}

/* Builds the gradient of the scores from the gradients of the weights. With sinks, also builds the gradient of the
 * sink for each query. */
static struct val *
second_scores(struct build *b, const struct second *s, struct val **dsink)
{
    struct val *common = both(b, row_sum(b, times(b, s->p, s->dp)), times(b, s->rest, s->drest));
    if (!common) return NULL;
    if (s->rest) *dsink = b_mul(b, s->rest, s->drest ? b_sub(b, s->drest, common) : b_scale(b, common, -1));
    return b_mul(b, s->p, s->dp ? b_sub(b, s->dp, common) : b_scale(b, common, -1));
}

/* Builds the gradient of this operator. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *q = n->in[ATT_Q], *k = n->in[ATT_K], *v = n->in[ATT_V], *g = n->in[ATT_OUT_GRAD], *out = n->in[ATT_OUT];
    struct val *h = dout[0], *i = dout[1], *j = dout[2], *m = n->in[ATT_SINKS] ? dout[3] : NULL;
    double scale = n->attr[ATT_SCALE].f, cap = n->attr[ATT_SOFTCAP].f;
    struct val *bounded, *dq = NULL, *dk = NULL, *dsink = NULL;
    struct second s = {.p = b_attention_weights(b, n->in, n->attr, &bounded)};
    struct val *slope = slope_of(b, bounded);
    struct val *mean = row_sum(b, b_mul(b, b_wide(b, g), b_wide(b, out)));
    if (n->in[ATT_SINKS]) s.rest = b_shift(b, b_scale(b, row_sum(b, s.p), -1), 1);
    struct val *dg = j ? b_matmul_wide(b, s.p, j) : NULL;
    s.dp = j ? b_matmul_wide(b, g, b_transpose_last(b, j)) : NULL;
    if (m) s.drest = b_scale(b, b_mul(b, m, mean), -1), s.dmean = b_scale(b, b_mul(b, m, s.rest), -1);
    struct val *a = both(b, h ? b_matmul_wide(b, h, b_transpose_last(b, k)) : NULL,
                         i ? b_matmul_wide(b, q, b_transpose_last(b, i)) : NULL);
    if (a) {
        struct val *t = b_sub(b, b_matmul_wide(b, g, b_transpose_last(b, v)), mean);
        struct val *e = sloped(b, b_scale(b, b_mul(b, s.p, t), scale), slope);
        a = b_scale(b, a, scale);
        if (bounded) s.du = b_scale(b, b_mul(b, b_mul(b, b_mul(b, a, s.p), t), b_mul(b, bounded, slope)), -2 / cap);
        a = sloped(b, a, slope);
        s.dt = b_mul(b, a, s.p);
        s.dmean = both(b, s.dmean, b_scale(b, row_sum(b, s.dt), -1));
        dq = i ? b_matmul_wide(b, e, i) : NULL;
        dk = h ? b_matmul_wide(b, b_transpose_last(b, e), h) : NULL;
        dg = both(b, dg, b_matmul_wide(b, s.dt, v));
        s.dp = both(b, s.dp, b_mul(b, a, t));
    }
    dg = both(b, dg, times(b, s.dmean, b_wide(b, out)));
    struct val *ds = second_scores(b, &s, &dsink), *du = both(b, sloped(b, ds, slope), s.du);
    struct val *scaled = b_scale(b, du, scale);
    if (b_wants(n, ATT_Q)) din[ATT_Q] = b_sum_to(b, both(b, b_matmul_wide(b, scaled, k), dq), &q->type);
    if (b_wants(n, ATT_K))
        din[ATT_K] = b_sum_to(b, both(b, b_matmul_wide(b, b_transpose_last(b, scaled), q), dk), &k->type);
    if (b_wants(n, ATT_V) && s.dt) din[ATT_V] = b_sum_to(b, b_matmul_wide(b, b_transpose_last(b, s.dt), g), &v->type);
    if (b_wants(n, ATT_MASK)) din[ATT_MASK] = b_sum_to(b, ds, &n->in[ATT_MASK]->type);
    if (b_wants(n, ATT_SINKS) && dsink) din[ATT_SINKS] = b_sink_grad(b, dsink, &n->in[ATT_SINKS]->type);
    if (b_wants(n, ATT_OUT_GRAD)) din[ATT_OUT_GRAD] = b_sum_to(b, dg, &g->type);
    if (b_wants(n, ATT_OUT) && s.dmean) din[ATT_OUT] = b_sum_to(b, b_mul(b, s.dmean, g), &out->type);
}

static const struct kernel_variant variants[] = {
    {"blocks", .accepts = attention_accepts, .prepare = attention_grad_prepare, .run = attention_run,
     .doubts = nonfinite_result, .drop = attention_drop},
    {"rows", .dense_in = true, .accepts = attention_rows_accepts, .prepare = attention_rows_grad_prepare,
     .run = attention_rows_run, .doubts = nonfinite_result, .drop = attention_rows_drop},
    {NULL},
};

/* Texts of two GPU kernels. `queries` computes dq, and stores per query the maximum score, the sum of the
 * exponentials, and the mean of t. `keys` computes dk and dv with these numbers of all queries of the key's head. */
static const char queries[] = ATTENTION_BODY BODY({
    const int64_t me = at[ROW], seen = here ? keys : 0;
    const auto mine = [&](int64_t j) { return sees(me, j) ? score(me, j) : -INFINITY; };
    const auto t = [&](int64_t j) {
        real sum = 0;
        g[ROW] = me;
        v[ROW] = j;
        for (int64_t e = 0; e < width; e++) {
            g[LAST] = v[LAST] = e;
            sum = add_product(sum, (real)x6(g), (real)x2(v));
        }
        return sum;
    };
    const double found = fold_of<greatest>(seen, (double)-INFINITY, mine), own = sink(),
                 top = own > found ? own : found;
    const double most = top == -INFINITY ? 0 : top;
    const double all = fold_of<sums>(seen, 0.0, [&](int64_t j) { return sees(me, j) ? exp(mine(j) - (real)most) : 0; });
    const double rest = exp(own - most), sum = all + rest == 0 ? 1 : all + rest;
    const auto weight = [&](int64_t j) { return exp(mine(j) - (real)most) / (real)sum; };
    g[ROW] = me;
    const double mean = fold_of<sums>(here ? width : 0, 0.0, [&](int64_t e) {
        g[LAST] = e;
        return (real)x6(g) * (real)x7(g);
    });
    for (int64_t base = 0; base < a.length; base += THREADS) {
        const int64_t i = base + rank();
        real y = 0;
        sharing(
            keys,
            [&](int64_t j) {
                return sees(me, j) ? (real)c->attr[SCALE].f * slope(me, j) * weight(j) * (t(j) - (real)mean) : 0;
            },
            [&](int64_t j, double e) {
                k[ROW] = j;
                k[LAST] = i;
                if (i < n && sees(me, j)) y = add_product(y, (real)e, (real)x1(k));
            });
        if (i < n) y0(i, y);
    }
    if (here && rank() == 0 && !absent(&c->in[4])) y3(0, -(rest / sum) * mean);
    keep(0, most);
    keep(1, sum);
    keep(2, mean);
});
static const char keys[] = ATTENTION_BODY BODY({
    const int64_t me = at[ROW], first = line / keys * queries;
    const auto weight = [&](int64_t i) {
        return exp(score(i, me) - (real)kept<double>(first + i, 0)) / (real)kept<double>(first + i, 1);
    };
    const auto t = [&](int64_t i) {
        real sum = 0;
        g[ROW] = i;
        v[ROW] = me;
        for (int64_t e = 0; e < width; e++) {
            g[LAST] = v[LAST] = e;
            sum = add_product(sum, (real)x6(g), (real)x2(v));
        }
        return sum - (real)kept<double>(first + i, 2);
    };
    for (int64_t base = 0; base < a.length; base += THREADS) {
        const int64_t column = base + rank();
        real y = 0;
        sharing(
            queries,
            [&](int64_t i) { return sees(i, me) ? (real)c->attr[SCALE].f * slope(i, me) * weight(i) * t(i) : 0; },
            [&](int64_t i, double e) {
                q[ROW] = i;
                q[LAST] = column;
                if (column < n && sees(i, me)) y = add_product(y, (real)e, (real)x0(q));
            });
        if (column < n) y1(column, y);
    }
    for (int64_t base = 0; base < width; base += THREADS) {
        const int64_t column = base + rank();
        real y = 0;
        sharing(
            queries, [&](int64_t i) { return sees(i, me) ? weight(i) : 0; },
            [&](int64_t i, double p) {
                g[ROW] = i;
                g[LAST] = column;
                if (here && column < width && sees(i, me)) y = add_product(y, (real)p, (real)x6(g));
            });
        if (here && column < width) y2(column, y);
    }
});
static const struct line_pass passes[] = {{.body = queries, .of = 1, .writes = 1 | 1 << 3, .keeps = 3},
                                          {.body = keys, .of = 2, .writes = 1 << 1 | 1 << 2},
                                          {NULL}};

const struct op op_attention_grad = {
    .name = "attention_grad",
    .doc = "dq, dk and dv of attention, and the gradient of sinks by query",
    .source = "Dao et al. 2022",
    .in = {[ATT_Q] = {"q", IN_FLOAT},
           [ATT_K] = {"k", IN_FLOAT},
           [ATT_V] = {"v", IN_FLOAT},
           ATTENTION_OPTIONS,
           [ATT_OUT_GRAD] = {"dout", IN_FLOAT},
           [ATT_OUT] = {"out", IN_FLOAT}},
    .nout = 4,
    .attr = {ATTENTION_ATTRS},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "6",
    .partial.reduce = RED_SUM,
    .grad.build = grad,
    .grad.saves = "01234567",
    .host.ref = ref,
    .gpu.pass = passes,
    .gpu.attends = {"attention_queries", "attention_keys"},
    .gpu.by_position = 1 << ATT_Q | 1 << ATT_K | 1 << ATT_V | 1 << ATT_MASK | 1 << ATT_SINKS | 1 << ATT_SPANS |
                       1 << ATT_OUT_GRAD | 1 << ATT_OUT,
    .host.kernel = variants,
    .flops = flops,
    .flags = OP_HIDDEN | OP_ANY_ORDER,
    .sample = {"f32{2,3,4,5} f32{2,3,4,5} f32{2,3,4,5} - - - f32{2,3,4,5} f32{2,3,4,5} is_causal=true scale=0.5",
               "f32{2,1,3,4} f32{1,2,5,4} f32{1,2,5,6} bool{3,5} - - f32{2,2,3,6} f32{2,2,3,6}",
               "f32{2,4,3} f32{2,4,3} f32{2,4,3} f32{2,1,4} - - f32{2,4,3} f32{2,4,3} scale=0.5",
               "bf16{1,3,2} bf16{1,7,2} bf16{1,7,1} f32{7} - - bf16{1,3,1} bf16{1,3,1}",
               "f32{2,3,5,4} f32{2,3,5,4} f32{2,3,5,4} - f32{3} i64{2,1,5,2}<6 f32{2,3,5,4} f32{2,3,5,4} "
               "is_causal=true window=2,0 softcap=1.5",
               "f64{2,6,2} f64{2,6,2} f64{2,6,3} f32{6} f32{1} - f64{2,6,3} f64{2,6,3} window=1,2"},
};
