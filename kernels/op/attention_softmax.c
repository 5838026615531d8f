/* attention_softmax.c - softmax over the keys of scaled, masked attention scores.
 *
 * A bool mask selects the visible keys; a mask of another dtype is added. With is_causal, query i sees keys 0..i.
 * The index i is global, so it does not depend on the rank that holds the query. Later keys are never read, so NaN
 * there has no effect. Window, sinks and spans are those of attention (kernels/cpu/attention/attention.h). This
 * operator costs one pass more than softmax, and replaces three operators. A query for which all keys are masked
 * (all scores -inf) has weights 0: attention_base() and attention_inverse() replace its maximum and its sum. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/attention.h"

#include "kernels/cpu/rows/lines.h"
#include "kernels/cpu/rows/rows.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"

#include <math.h>
#include <string.h>

extern const struct op op_eq, op_tril;

enum { SCORES, MASK, SINKS, SPANS };

static int
rule(const struct call *c, struct str *rule)
{
    struct str s = {0};
    int last = c->in[SCORES].ndim - 1;
    for (int d = 0; d < last; d++) str_addf(&s, "%c", letter(d));
    str_addf(&s, "[%c]", letter(last));
    str_addf(rule, "%s,", str_text(&s));
    attention_options_text(c, &c->in[SCORES], MASK, rule);
    str_addf(rule, "->%s", str_text(&s));
    str_free(&s);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[SCORES].ndim < 2)
        return call_fail(E_SHAPE, c, "scores must have at least 2 dimensions, found %d", c->in[SCORES].ndim);
    return attention_check_options(c, c->in[SCORES], MASK);
}

static struct keys
keys_of_row(const struct kcall *k, int64_t r)
{
    struct keys l = keys_of(k, &k->in[SCORES], MASK, r);
    l.first = MIN(l.first, k->in[SCORES].dim[k->in[SCORES].ndim - 1]);
    l.end = MAX(l.end, l.first);
    return l;
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[SCORES];
    int64_t n = x->dim[x->ndim - 1], count = n ? view_numel(x) / n : 0;
    double scale = k->call->attr[ATT_SCALE].f;
    for (int64_t r = 0; r < count; r++) {
        const double *from = f64_of(x) + r * n;
        double *y = f64_of(&k->out[0]) + r * n, sink = sink_of(k, x, MASK, r), max = sink;
        struct keys l = keys_of_row(k, r);
        for (int64_t i = l.first; i < l.end; i++) max = fmax(max, y[i] = from[i] * scale + keys_add(&l, i));
        max = attention_base(max);
        double sum = exp(sink - max);
        for (int64_t i = l.first; i < l.end; i++) sum += y[i] = exp(y[i] - max);
        for (int64_t i = 0; i < n; i++) y[i] = i >= l.first && i < l.end ? y[i] * attention_inverse(sum) : 0;
    }
    return 0;
}

/* ---- variants: rows of keys; masked keys are never read ---- */

static bool
accepts(const struct kcall *k)
{
    return k->in[SCORES].dtype != DT_F64;
}

/* Returns the scaled and masked scores of keys from .. from + n - 1 of one query. */
static const float *
load(const struct row *x, const struct keys *l, float scale, int64_t from, int64_t n, float *workspace)
{
    vec_affine(n, scale, row_load(x, from, n, workspace), 0, workspace);
    if (l->mask) keys_add_to(l, from, n, workspace);
    return workspace;
}

static void
store_zeros(const struct row *y, int64_t from, int64_t to)
{
    static const float zero[ROW_BLOCK];
    for (int64_t i = from; i < to; i += ROW_BLOCK) row_store(y, i, MIN(to - i, ROW_BLOCK), zero);
}

static void
one_row(const struct row *x, const struct row *y, const struct keys *l, float scale, float sink)
{
    float workspace[ROW_BLOCK], max = sink;
    bool is_short = l->end - l->first <= ROW_BLOCK;
    for (int64_t i = l->first; i < l->end; i += ROW_BLOCK) {
        int64_t n = MIN(l->end - i, ROW_BLOCK);
        max = fmaxf(max, vec_max(n, load(x, l, scale, i, n, workspace)));
    }
    max = (float)attention_base(max);
    double sum = exp((double)sink - max);
    for (int64_t i = l->first; i < l->end; i += ROW_BLOCK) {
        int64_t n = MIN(l->end - i, ROW_BLOCK);
        sum += vec_exp_sum(n, is_short ? workspace : load(x, l, scale, i, n, workspace), max, workspace);
    }
    for (int64_t i = l->first; i < l->end; i += ROW_BLOCK) {
        int64_t n = MIN(l->end - i, ROW_BLOCK);
        if (!is_short) vec_exp_sum(n, load(x, l, scale, i, n, workspace), max, workspace);
        float *to = row_into(y, i, workspace);
        vec_affine(n, (float)attention_inverse(sum), workspace, 0, to);
        row_store(y, i, n, to);
    }
    store_zeros(y, 0, l->first);
    store_zeros(y, l->end, y->n);
}

/* Returns true if plain_range() can compute the call: short rows of f32 without a mask or other options.
 * plain_range() computes rows in the result's memory, in full vectors. Keys that a query does not see are -inf at
 * first, and set to 0 at the end. 48 heads of 64 x 64 take 121 us on one core; one_row() takes 186 us. */
static bool
is_plain(const struct kcall *k)
{
    const struct view *x = &k->in[SCORES];
    bool plain = k->in[MASK].dtype == DT_NONE && !attention_has_options(k->call, MASK);
    return plain && x->dtype == DT_F32 && k->out[0].dtype == DT_F32 && x->dim[x->ndim - 1] <= ROW_BLOCK;
}

static void
plain_range(void *arg, int64_t lo, int64_t hi)
{
    enum { LANES = 16 };
    const struct kcall *k = arg;
    const struct view *x = &k->in[SCORES];
    int last = x->ndim - 1;
    int64_t n = x->dim[last], nquery = x->dim[last - 1];
    float scale = (float)k->call->attr[ATT_SCALE].f;
    bool causal = k->call->attr[ATT_CAUSAL].i;
    for (int64_t r = lo; r < hi; r++) {
        float *y = (float *)k->out[0].data + r * n;
        int64_t seen = causal ? MIN(n, x->offset[last - 1] + r % nquery + 1) : n;
        int64_t whole = MIN(n, (seen + LANES - 1) / LANES * LANES);
        vec_affine(seen, scale, (const float *)x->data + r * n, 0, y);
        for (int64_t i = seen; i < whole; i++) y[i] = -INFINITY;
        double sum = vec_exp_sum(whole, y, (float)attention_base(vec_max(whole, y)), y);
        vec_affine(seen, (float)attention_inverse(sum), y, 0, y);
        memset(y + seen, 0, (size_t)(n - seen) * sizeof *y);
    }
}

static void
range(void *arg, int64_t lo, int64_t hi)
{
    const struct kcall *k = arg;
    int last = k->in[SCORES].ndim - 1;
    for (int64_t r = lo; r < hi; r++) {
        struct row x = row_of(&k->in[SCORES], last, r), y = row_of(&k->out[0], last, r);
        struct keys l = keys_of_row(k, r);
        one_row(&x, &y, &l, (float)k->call->attr[ATT_SCALE].f, (float)sink_of(k, &k->in[SCORES], MASK, r));
    }
}

static int
run(const struct kcall *k, const void *state)
{
    UNUSED(state);
    int last = k->in[SCORES].ndim - 1;
    int64_t n = k->in[SCORES].dim[last];
    team_run(k->threads, row_count(&k->in[SCORES], last), 1 + 16384 / MAX(n, 1), is_plain(k) ? plain_range : range,
             (void *)k);
    return 0;
}

/* ---- the variant for f64 ---- */

static void
one_line(const struct kcall *k, const struct reals *f, int64_t r, int64_t n, void *const *at)
{
    struct keys l = keys_of_row(k, r);
    const double *x = (const double *)at[0] + l.first;
    double *y = (double *)at[1] + l.first, sink = sink_of(k, &k->in[SCORES], MASK, r);
    int64_t seen = l.end - l.first;
    f->affine(seen, k->call->attr[ATT_SCALE].f, x, 0, y);
    for (int64_t i = 0; l.mask && i < seen; i++) y[i] += keys_add(&l, l.first + i);
    double max = attention_base(fmax(sink, seen > 0 ? f->max(seen, y) : -INFINITY));
    double sum = exp(sink - max) + f->exp_sum(seen, y, max, y);
    f->affine(seen, attention_inverse(sum), y, 0, y);
    for (int64_t i = 0; i < l.first; i++) ((double *)at[1])[i] = 0;
    for (int64_t i = l.end; i < n; i++) ((double *)at[1])[i] = 0;
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = line_map(&k->in[SCORES], &k->out[0], k->in[SCORES].ndim - 1, one_line);
    return k->in[SCORES].dtype == DT_F64;
}

/* Builds the gradient of y = softmax(scale * x + mask). A masked key has y = 0 and no gradient. A sink's weight is
 * 1 - sum(y); the sink's gradient is minus this weight times sum(y * dy). */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *gradient = b_softmax_grad(b, n->out[0], dout[0], n->in[SCORES]->type.ndim - 1);
    if (b_wants(n, SCORES)) din[SCORES] = b_scale(b, gradient, n->attr[ATT_SCALE].f);
    if (b_wants(n, MASK)) din[MASK] = b_sum_to(b, gradient, &n->in[MASK]->type);
    if (!b_wants(n, SINKS)) return;
    const int64_t last = n->in[SCORES]->type.ndim - 1;
    struct val *y = b_wide(b, n->out[0]), *all = b_sum(b, b_mul(b, y, dout[0]), &last, 1, true);
    struct val *weight = b_shift(b, b_scale(b, b_sum(b, y, &last, 1, true), -1), 1);
    din[SINKS] = b_sink_grad(b, b_scale(b, b_mul(b, weight, all), -1), &n->in[SINKS]->type);
}

/* Builds a causal bool mask of x's shape, true where query i sees key j <= i. Works for any values of x, NaN
 * included. */
static struct val *
not_after(struct build *b, struct val *x)
{
    return b_call1(b, &op_tril, b_true(b, x));
}

/* Builds the scaled and masked scores; masked keys have -inf. */
static struct val *
masked(struct build *b, const struct call *c, struct val *const *in)
{
    struct val *x = b_scale(b, b_wide(b, in[SCORES]), c->attr[ATT_SCALE].f), *never = b_number(b, -INFINITY);
    struct val *mask = c->nin > MASK ? in[MASK] : NULL;
    if (mask) x = mask->type.dtype == DT_BOOL ? b_where(b, mask, x, never) : b_add(b, x, mask);
    return c->attr[ATT_CAUSAL].i ? b_where(b, not_after(b, x), x, never) : x;
}

/* Builds a copy of x in which elements equal to `value` are replaced by `instead`. */
static struct val *
or_else(struct build *b, struct val *x, double value, double instead)
{
    return b_where(b, b_call2(b, &op_eq, x, b_number(b, value)), b_number(b, instead), x);
}

/* Builds the composite for split keys, as in softmax.c. */
static int
split_form(struct build *b, const struct call *c, struct val *const *in, struct val **out)
{
    int last = c->in[SCORES].ndim - 1;
    if (attention_has_options(c, MASK)) return 0;
    if (last < 1 || !is_cut(c, SCORES, last) || type_numel(&c->in[SCORES]) == 0) return 0;
    struct val *x = masked(b, c, in), *m = or_else(b, b_line_max(b, x, last), -INFINITY, 0);
    struct val *y = b_exp(b, b_sub(b, x, m)), *sum = or_else(b, b_line_exp_sum(b, x, m, last), 0, 1);
    out[0] = b_narrow(b, b_div(b, y, sum), &c->in[SCORES]);
    return b->failed ? (int)err_last() : 0;
}

static const struct kernel_variant variants[] = {
    {"simd", .dense_in = true, .accepts = accepts, .run = run}, LINES_ROW, {NULL}};

/* GPU kernel; masked keys are never read. */
static const char line[] = BODY({
    int64_t at[8], entry[9];
    where(0, at);
    const int64_t p = place0(NDIM0 - 2) + at[NDIM0 - 2];
    for (int d = 0; d < NDIM1; d++) entry[d] = dim1(d) == 1 ? 0 : at[NDIM0 - NDIM1 + d];
    const auto score = [&](int64_t i) {
        const real s = (real)c->attr[SCALE].f * x0(i);
        if (NDIM1 > 0 && dim1(NDIM1 - (NDIM1 > 0)) > 1) entry[NDIM1 - (NDIM1 > 0)] = i;
        return absent(&c->in[1]) ? s : s + (real)mask_adds(x1(entry));
    };
    const auto bound = [&](int side) {
        int64_t pair[9];
        for (int d = 0; d < NDIM3 - 1; d++) pair[d] = dim3(d) == 1 ? 0 : at[NDIM0 - NDIM3 + d];
        pair[NDIM3 > 0 ? NDIM3 - 1 : 0] = side;
        return (int64_t)x3(pair);
    };
    const auto sink = [&]() -> double {
        int64_t head[8];
        for (int d = 0; d < NDIM2; d++) head[d] = dim2(d) == 1 ? 0 : at[NDIM0 - 2 - NDIM2 + d];
        return absent(&c->in[2]) ? -INFINITY : (double)x2(head);
    };
    int64_t first = 0, end = n;
    if (c->attr[IS_CAUSAL].i && p + 1 < end) end = p + 1;
    if (c->attr[WINDOW].n && c->attr[WINDOW].list[0] >= 0 && p - c->attr[WINDOW].list[0] > first)
        first = p - c->attr[WINDOW].list[0];
    if (c->attr[WINDOW].n && c->attr[WINDOW].list[1] >= 0 && p + c->attr[WINDOW].list[1] + 1 < end)
        end = p + c->attr[WINDOW].list[1] + 1;
    if (!absent(&c->in[3])) first = bound(0) > first ? bound(0) : first;
    if (!absent(&c->in[3])) end = bound(1) < end ? bound(1) : end;
    const auto sees = [&](int64_t i) { return i >= first && i < end; };
    const real own = (real)sink();
    const real found = fold<greatest>((double)-INFINITY, [&](int64_t i) { return sees(i) ? score(i) : -INFINITY; });
    const real top = own > found ? own : found, most = top == -INFINITY ? 0 : top;
    const real all = fold<sums>(0.0, [&](int64_t i) { return sees(i) ? exp(score(i) - most) : 0; });
    const real with = all + exp(own - most), sum = with == 0 ? 1 : with;
    each([&](int64_t i) { y0(i, sees(i) ? exp(score(i) - most) / sum : 0); });
});

const struct op op_attention_softmax = {
    .name = "attention_softmax",
    .doc = "y = softmax over keys of scale scores + mask; is_causal: keys after the query are masked",
    .in = {{"scores", IN_FLOAT}, {"mask", IN_OPTIONAL}, {"sinks", IN_OPTIONAL | IN_FLOAT}, {"spans", IN_OPTIONAL}},
    .attr = {ATTENTION_SOFTMAX_ATTRS},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .grad.build = grad,
    .split_form = split_form,
    .grad.saves = "a",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.by_position = 1 << MASK | 1 << SINKS | 1 << SPANS,
    .host.lines = lines,
    .host.kernel = variants,
    .flags = OP_HIDDEN,
    .sample = {"f32{2,3,4,5} - scale=0.5", "f32{2,5,5} - is_causal=true scale=0.25", "f32{2,3,4} f32{3,1} scale=2",
               "bf16{3,7} f32{7}", "f32{2,13} f32{1,13}",
               "f32{2,3,5,5} f32{5,1} f32{3} i64{2,1,5,2}<6 is_causal=true window=2,0", "f32{3,6} - - - window=1,2"},
};
