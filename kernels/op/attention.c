/* attention.c - attention as one operator: softmax(scale q k^T + mask) over the keys, times v.
 *
 * The scores are never all stored (kernels/cpu/attention/attention.c). The batch, the queries and the width of
 * values may be split, but not the keys, because a softmax is over all keys. A query for which all keys are masked
 * (all scores -inf) returns 0 and has no gradient, as in PyTorch since 2.5. */
#include "kernels/op/attention.h"
#include "kernels/op/attention_grad.h"

#include "runtime/base/stop.h"
#include "kernels/cpu/attention/attention_few.h"
#include "kernels/cpu/attention/attention_rows.h"

#include <math.h>
#include <string.h>

extern const struct op op_attention_softmax, op_matmul, op_tanh;

/* ---- writing the SBP rule ---- */

/* Returns the type of the scores: the batch dimensions, queries, keys. A batch dimension of size 1 in one operand
 * is broadcast to its size in another. */
static struct type
scores_of(const struct call *c)
{
    struct type s = c->in[ATT_Q];
    for (int d = 0; d < s.ndim - 2; d++)
        for (int i = ATT_K; i <= ATT_V && s.dim[d] == 1; i++) s.dim[d] = c->in[i].dim[d];
    s.dim[s.ndim - 1] = c->in[ATT_K].dim[s.ndim - 2];
    return s;
}

static void
add_batch(const struct type *scores, const struct type *x, struct str *text)
{
    for (int d = 0; d < scores->ndim - 2; d++)
        str_addf(text, "%c", x->dim[d] == 1 && scores->dim[d] != 1 ? '1' : letter(d));
}

/* Appends the letters of operand x to the SBP rule. The first `own` dimensions of x broadcast to the first n
 * dimensions of the scores. */
static void
add_letters(const struct type *scores, int n, const struct type *x, int own, struct str *text)
{
    for (int k = MAX(0, own - n); k < own; k++) {
        int d = n - own + k;
        bool repeated = x->dim[k] == 1 && scores->dim[d] != 1;
        str_addf(text, repeated ? "1" : d == scores->ndim - 1 ? "[%c]" : "%c", letter(d));
    }
}

void
attention_options_text(const struct call *c, const struct type *scores, int mask, struct str *text)
{
    const struct type *m = &c->in[mask], *sinks = m + 1, *spans = m + 2;
    int n = scores->ndim;
    if (absent(m))
        str_add(text, "=");
    else
        add_letters(scores, n, m, m->ndim, text);
    str_add(text, ",");
    if (absent(sinks))
        str_add(text, "=");
    else
        add_letters(scores, n - 2, sinks, sinks->ndim, text);
    str_add(text, ",");
    if (absent(spans)) {
        str_add(text, "=");
        return;
    }
    add_letters(scores, n - 1, spans, spans->ndim - 1, text);
    str_addf(text, "[%c]", letter(n));
}

void
attention_text(const struct call *c, struct attention_text *t)
{
    struct type s = scores_of(c);
    char query = letter(s.ndim - 2), key = letter(s.ndim - 1);
    *t = (struct attention_text){0};
    add_batch(&s, &c->in[ATT_Q], &t->q);
    add_batch(&s, &c->in[ATT_K], &t->k);
    add_batch(&s, &c->in[ATT_V], &t->v);
    add_batch(&s, &s, &t->out);
    str_addf(&t->q, "%c[x]", query);
    str_addf(&t->k, "[%c][x]", key);
    str_addf(&t->v, "[%c]y", key);
    str_addf(&t->out, "%cy", query);
    attention_options_text(c, &s, ATT_MASK, &t->options);
}

void
attention_text_free(struct attention_text *t)
{
    str_free(&t->q);
    str_free(&t->k);
    str_free(&t->v);
    str_free(&t->options);
    str_free(&t->out);
}

static int
rule(const struct call *c, struct str *rule)
{
    struct attention_text t;
    attention_text(c, &t);
    str_addf(rule, "%s,%s,%s,%s->%s", str_text(&t.q), str_text(&t.k), str_text(&t.v), str_text(&t.options),
             str_text(&t.out));
    attention_text_free(&t);
    return 0;
}

/* Checks the shape of operand x against `wanted`: the first `own` dimensions of x must broadcast to the first n of
 * `wanted`, and the remaining dimensions must be equal. */
static int
check_broadcast(const struct call *c, const char *name, const struct type *x, int own, const struct type *wanted, int n)
{
    bool fits = own >= 0 && own <= n && x->ndim - own == wanted->ndim - n;
    for (int k = 0; fits && k < x->ndim; k++) {
        int64_t size = wanted->dim[n - own + k];
        fits = x->dim[k] == size || (k < own && x->dim[k] == 1);
    }
    if (fits) return 0;
    struct str has = {0}, want = {0};
    shape_print(x, &has);
    shape_print(wanted, &want);
    int status = call_fail(E_SHAPE, c, "%s must be %s or a shape that broadcasts to it, found %s", name,
                           str_text(&want), str_text(&has));
    str_free(&has);
    str_free(&want);
    return status;
}

int
attention_check_options(const struct call *c, struct type scores, int mask)
{
    const struct type *m = &c->in[mask], *sinks = m + 1, *spans = m + 2;
    int n = scores.ndim;
    if (!absent(spans) && !dtype_is_int(spans->dtype))
        return call_fail(E_DTYPE, c, "spans must be integers, found %s", dtype_text(spans->dtype));
    if (!absent(m)) TRY(check_broadcast(c, "mask", m, m->ndim, &scores, n));
    if (absent(sinks) && absent(spans)) return 0;
    scores.dim[n - 1] = 2;
    if (!absent(spans)) TRY(check_broadcast(c, "spans", spans, spans->ndim - 1, &scores, n - 1));
    scores.ndim = (uint8_t)(n - 2);
    return absent(sinks) ? 0 : check_broadcast(c, "sinks", sinks, sinks->ndim, &scores, n - 2);
}

bool
attention_has_options(const struct call *c, int mask)
{
    bool given = c->attr[ATT_WINDOW].n || (mask == ATT_MASK && c->attr[ATT_SOFTCAP].f > 0);
    for (int i = mask + 1; i < mask + 3; i++) given |= i < c->nin && !absent(&c->in[i]);
    return given;
}

int
attention_infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    const struct type *q = &c->in[ATT_Q], *k = &c->in[ATT_K], *v = &c->in[ATT_V];
    int n = q->ndim;
    for (int i = ATT_Q; i <= ATT_V; i++)
        if (c->in[i].ndim < 2 || c->in[i].ndim != n)
            return call_fail(E_SHAPE, c,
                             "q, k and v must be [batch, heads, length, size] with equally many dimensions");
    if (q->dim[n - 1] != k->dim[n - 1])
        return call_fail(E_SHAPE, c, "q and k must have the same size (last dimension), found %lld and %lld",
                         (long long)q->dim[n - 1], (long long)k->dim[n - 1]);
    if (k->dim[n - 2] != v->dim[n - 2])
        return call_fail(E_SHAPE, c, "k and v must have the same length (dimension %d), found %lld and %lld", n - 2,
                         (long long)k->dim[n - 2], (long long)v->dim[n - 2]);
    return attention_check_options(c, scores_of(c), ATT_MASK);
}

/* Returns the number of floating-point operations: those of the two products, and EXPONENTIAL per score. EXPONENTIAL
 * covers the exponential, its sum and the maximum: they take 0.4 ns per score on a core that executes 153 operations
 * of a product per ns. A causal mask hides half of the scores. The tiles of ATT_TILE keys on the diagonal are
 * computed completely, so the hidden scores in these tiles count, too. With a window, each query has the keys of the
 * window and one tile more. */
double
attention_flops(const struct call *c)
{
    enum { EXPONENTIAL = 64 };
    struct type s = scores_of(c);
    int last = s.ndim - 1;
    double each = 2 * (double)(c->in[ATT_Q].dim[last] + c->in[ATT_V].dim[last]) + EXPONENTIAL;
    double hidden = MAX(0, 1 - (double)ATT_TILE / (double)MAX(1, s.dim[last])) / 2;
    double square = (double)type_numel(&s) * each * (c->attr[ATT_CAUSAL].i ? 1 - hidden : 1);
    const struct attr *w = &c->attr[ATT_WINDOW];
    int64_t right = c->attr[ATT_CAUSAL].i ? 0 : w->list[1];
    if (!w->n || w->list[0] < 0 || right < 0) return square;
    double part = (double)(w->list[0] + right + 1 + ATT_TILE) / (double)MAX(1, s.dim[last]);
    return MIN(square, (double)type_numel(&s) * each * part);
}

/* ---- reference ---- */

static double
unbounded_score(const struct query *q, int64_t key)
{
    double sum = 0;
    for (int64_t i = 0; i < q->size; i++) sum += q->q[i] * q->k[key * q->size + i];
    return q->scale * sum;
}

static double
score(const struct query *q, int64_t key)
{
    double s = unbounded_score(q, key);
    return (q->softcap > 0 ? q->softcap * tanh(s / q->softcap) : s) + keys_add(&q->keys, key);
}

struct query
query_of(const struct kcall *k, const struct view *scores, int64_t r)
{
    const struct view *in = k->in;
    const struct attr *attr = k->call->attr;
    int last = scores->ndim - 1;
    int64_t nquery = scores->dim[last - 1], head = r / nquery;
    struct query q = {.size = in[ATT_Q].dim[last], .scale = attr[ATT_SCALE].f, .softcap = attr[ATT_SOFTCAP].f};
    q.keys = keys_of(k, scores, ATT_MASK, r);
    q.q = f64_of(&in[ATT_Q]) + attention_head(&in[ATT_Q], scores, head) + r % nquery * q.size;
    q.k = f64_of(&in[ATT_K]) + attention_head(&in[ATT_K], scores, head);
    q.max = q.sink = sink_of(k, scores, ATT_MASK, r);
    for (int64_t j = q.keys.first; j < q.keys.end; j++) q.max = fmax(q.max, score(&q, j));
    q.max = attention_base(q.max);
    q.sum = exp(q.sink - q.max);
    for (int64_t j = q.keys.first; j < q.keys.end; j++) q.sum += exp(score(&q, j) - q.max);
    return q;
}

double
query_weight(const struct query *q, int64_t key)
{
    return exp(score(q, key) - q->max) * attention_inverse(q->sum);
}

double
query_sink_weight(const struct query *q)
{
    return exp(q->sink - q->max) * attention_inverse(q->sum);
}

double
query_slope(const struct query *q, int64_t key)
{
    double t = q->softcap > 0 ? tanh(unbounded_score(q, key) / q->softcap) : 0;
    return 1 - t * t;
}

static int
ref(const struct kcall *k)
{
    struct view scores = attention_scores(k);
    int last = scores.ndim - 1;
    int64_t width = k->in[ATT_V].dim[last], nquery = scores.dim[last - 1];
    fill_view(&k->out[0], 0);
    for (int64_t r = 0; r < view_numel(&k->out[0]) / MAX(width, 1) && !stop_now(); r++) {
        struct query q = query_of(k, &scores, r);
        const double *v = f64_of(&k->in[ATT_V]) + attention_head(&k->in[ATT_V], &scores, r / nquery);
        double *out = f64_of(&k->out[0]) + r * width;
        for (int64_t j = q.keys.first; j < q.keys.end; j++) {
            double p = query_weight(&q, j);
            for (int64_t i = 0; i < width; i++) out[i] += p * v[j * width + i];
        }
    }
    return 0;
}

/* ---- gradient ---- */

struct val *
b_attention_weights(struct build *b, struct val *const *in, const struct attr *attr, struct val **bounded)
{
    struct attr own[OP_ATTR];
    memcpy(own, attr, sizeof *own * (size_t)op_nattr(&op_attention_softmax));
    struct val *scores = b_matmul_wide(b, in[ATT_Q], b_transpose_last(b, in[ATT_K]));
    if (scores && attr[ATT_SOFTCAP].f > 0) {
        scores = b_call1(b, &op_tanh, b_scale(b, scores, attr[ATT_SCALE].f / attr[ATT_SOFTCAP].f));
        own[ATT_SCALE].f = attr[ATT_SOFTCAP].f;
    }
    if (bounded) *bounded = attr[ATT_SOFTCAP].f > 0 ? scores : NULL;
    struct val *operand[] = {scores, in[ATT_MASK], in[ATT_SINKS], in[ATT_SPANS]};
    return scores ? b_call(b, &op_attention_softmax, countof(operand), operand, own) : NULL;
}

struct val *
b_attention_parts(struct build *b, struct val *const *in, const struct attr *attr)
{
    struct val *weights = b_attention_weights(b, in, attr, NULL);
    return weights ? b_call2(b, &op_matmul, b_narrow(b, weights, &in[ATT_V]->type), in[ATT_V]) : NULL;
}

struct val *
b_sink_grad(struct build *b, struct val *grad, const struct type *t)
{
    if (!grad) return NULL;
    int64_t axes[] = {grad->type.ndim - 2, grad->type.ndim - 1};
    return b_sum_to(b, b_sum_wide(b, grad, axes, 2, false), t);
}

/* Stores the whole matrix of scores only if the mask needs a gradient, because the mask's gradient is the gradient
 * of the scores. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    if (b_wants(n, ATT_Q) || b_wants(n, ATT_K) || b_wants(n, ATT_V) || b_wants(n, ATT_SINKS)) {
        struct val *d[4];
        b_attention_grad(b, n->in, dout[0], n->out[0], n->attr, d);
        for (int i = ATT_Q; i <= ATT_V; i++)
            if (b_wants(n, i)) din[i] = b_sum_to(b, d[i], &n->in[i]->type);
        if (b_wants(n, ATT_SINKS)) din[ATT_SINKS] = b_sink_grad(b, d[3], &n->in[ATT_SINKS]->type);
    }
    if (!b_wants(n, ATT_MASK)) return;
    struct val *weights = b_attention_weights(b, n->in, n->attr, NULL);
    struct val *gradient = b_matmul_wide(b, dout[0], b_transpose_last(b, n->in[ATT_V]));
    din[ATT_MASK] =
        b_sum_to(b, b_softmax_grad(b, weights, gradient, n->in[ATT_Q]->type.ndim - 1), &n->in[ATT_MASK]->type);
}

/* Builds the call for split keys: each rank computes the weighted sum over the keys that it holds. The ranks
 * exchange the weighted sums and three numbers per query. */
static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    int keys = c->in[ATT_K].ndim - 2;
    if (attention_has_options(c, ATT_MASK)) return 0;
    if (keys < 0 || !is_cut(c, ATT_K, keys) || type_numel(&c->in[ATT_K]) == 0) return 0;
    struct val *all[] = {in[ATT_Q], in[ATT_K], in[ATT_V], c->nin > ATT_MASK ? in[ATT_MASK] : NULL, NULL, NULL};
    out[0] = b_attention_parts(b, all, c->attr);
    return b->failed ? (int)err_last() : 0;
}

static const struct kernel_variant variants[] = {
    {"few", .accepts = attention_few_accepts, .prepare = attention_few_prepare, .run = attention_few_run,
     .doubts = nonfinite_result, .drop = attention_few_drop},
    {"blocks", .accepts = attention_accepts, .prepare = attention_prepare, .run = attention_run,
     .doubts = nonfinite_result, .drop = attention_drop},
    {"rows", .dense_in = true, .accepts = attention_rows_accepts, .prepare = attention_rows_prepare,
     .run = attention_rows_run, .doubts = nonfinite_result, .drop = attention_rows_drop},
    {NULL},
};

/* GPU kernel; a team of threads computes one query. */
static const char line[] = ATTENTION_BODY BODY({
    const int64_t me = at[ROW], seen = here ? keys : 0;
    const auto mine = [&](int64_t j) { return sees(me, j) ? score(me, j) : -INFINITY; };
    const double found = fold_of<greatest>(seen, (double)-INFINITY, mine), own = sink(),
                 top = own > found ? own : found;
    const double most = top == -INFINITY ? 0 : top;
    const double all = fold_of<sums>(seen, 0.0, [&](int64_t j) { return sees(me, j) ? exp(mine(j) - (real)most) : 0; });
    const double with = all + exp(own - most), sum = with == 0 ? 1 : with;
    for (int64_t base = 0; base < width; base += THREADS) {
        const int64_t i = base + rank();
        real y = 0;
        sharing(
            keys, [&](int64_t j) { return sees(me, j) ? exp(mine(j) - (real)most) / (real)sum : 0; },
            [&](int64_t j, double weight) {
                v[ROW] = j;
                v[LAST] = i;
                if (i < n && sees(me, j)) y = add_product(y, (real)weight, (real)x2(v));
            });
        if (i < n) y0(i, y);
    }
});

const struct op op_attention = {
    .name = "attention",
    .doc = "softmax(scale q k^T + mask) v; is_causal: keys after the query are masked; sinks: one more score by head, "
           "without a value; spans: first key and end of the keys that a query sees",
    .source = "Dao et al. 2022",
    .in = {[ATT_Q] = {"q", IN_FLOAT}, [ATT_K] = {"k", IN_FLOAT}, [ATT_V] = {"v", IN_FLOAT}, ATTENTION_OPTIONS},
    .attr = {ATTENTION_ATTRS},
    .shape.make_rule = rule,
    .shape.infer = attention_infer,
    .shape.dtype = OUT_IN0,
    .partial.linear = "2",
    .grad.build = grad,
    .split_form = split_form,
    .grad.saves = "012345a",
    .host.ref = ref,
    .gpu.pass = (const struct line_pass[]){{.body = line, .of = 1, .writes = 1}, {NULL}},
    .gpu.by_position = 1 << ATT_Q | 1 << ATT_K | 1 << ATT_V | 1 << ATT_MASK | 1 << ATT_SINKS | 1 << ATT_SPANS,
    .gpu.attends = {"attention_forward"},
    .host.kernel = variants,
    .flops = attention_flops,
    .flags = OP_HIDDEN | OP_ANY_ORDER,
    .sample = {"f32{2,3,4,5} f32{2,3,4,5} f32{2,3,4,5} is_causal=true scale=0.5",
               "f32{2,1,3,4} f32{1,2,5,4} f32{1,2,5,6} bool{3,5}",
               "f32{2,4,3} f32{2,4,3} f32{2,4,3} f32{2,1,4} scale=0.5", "bf16{1,3,2} bf16{1,7,2} bf16{1,7,1} f32{7}",
               "f32{2,3,5,4} f32{2,3,5,4} f32{2,3,5,4} - f32{3} i64{2,1,5,2}<6 is_causal=true window=2,0 softcap=1.5",
               "bf16{2,6,2} bf16{2,6,2} bf16{2,6,3} f32{6} f32{1} - window=1,2",
               "f64{2,3,4} f64{2,5,4} f64{1,5,6} f32{3,5}"},
};
