/* attention_softmax.c - softmax over the keys of scaled, masked attention scores.
 *
 * A bool mask selects the visible keys; a mask of another dtype is added. With is_causal, query i (global index)
 * sees keys 0..i, on whichever rank its rows are; later keys are never read, even if they are NaN. Costs one pass
 * more than softmax, instead of three operators. A query for which all keys are masked (all scores -inf) has weights
 * 0: attention_base() and attention_inverse() replace its maximum and its sum. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/op/lib/attention.h"

#include "kernels/cpu/rows/lines.h"
#include "kernels/cpu/rows/rows.h"
#include "runtime/base/simd.h"
#include "kernels/cpu/base/team.h"

#include <math.h>
#include <string.h>

extern const struct op op_eq, op_tril;

enum { SCORES, MASK };

static int
rule(const struct call *c, struct str *rule)
{
    struct str s = {0}, m = {0};
    attention_mask_text(&c->in[SCORES], &c->in[SCORES], &s);
    attention_mask_text(&c->in[SCORES], &c->in[MASK], &m);
    str_addf(rule, "%s,%s->%s", str_text(&s), str_text(&m), str_text(&s));
    str_free(&s);
    str_free(&m);
    return 0;
}

static int
infer(const struct call *c, int64_t *size)
{
    UNUSED(size);
    if (c->in[SCORES].ndim < 2)
        return call_fail(E_SHAPE, c, "scores must have at least 2 dimensions, found %d", c->in[SCORES].ndim);
    return attention_check_mask(c, &c->in[MASK], c->in[SCORES]);
}

static struct keys
keys_of_row(const struct kcall *k, int64_t r)
{
    return keys_of(&k->in[SCORES], &k->in[MASK], k->call->attr[ATT_CAUSAL].i, r);
}

static int
ref(const struct kcall *k)
{
    const struct view *x = &k->in[SCORES];
    int64_t n = x->dim[x->ndim - 1], count = n ? view_numel(x) / n : 0;
    double scale = k->call->attr[ATT_SCALE].f;
    for (int64_t r = 0; r < count; r++) {
        const double *from = f64_of(x) + r * n;
        double *y = f64_of(&k->out[0]) + r * n, max = -INFINITY, sum = 0;
        struct keys l = keys_of_row(k, r);
        for (int64_t i = 0; i < l.seen; i++) max = fmax(max, y[i] = from[i] * scale + keys_add(&l, i));
        max = attention_base(max);
        for (int64_t i = 0; i < l.seen; i++) sum += y[i] = exp(y[i] - max);
        for (int64_t i = 0; i < n; i++) y[i] = i < l.seen ? y[i] * attention_inverse(sum) : 0;
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
store_zeros(const struct row *y, int64_t from)
{
    static const float zero[ROW_BLOCK];
    for (int64_t i = from; i < y->n; i += ROW_BLOCK) row_store(y, i, MIN(y->n - i, ROW_BLOCK), zero);
}

static void
one_row(const struct row *x, const struct row *y, const struct keys *l, float scale)
{
    float workspace[ROW_BLOCK], max = -INFINITY;
    double sum = 0;
    bool is_short = l->seen <= ROW_BLOCK;
    for (int64_t i = 0; i < l->seen; i += ROW_BLOCK) {
        int64_t n = MIN(l->seen - i, ROW_BLOCK);
        max = fmaxf(max, vec_max(n, load(x, l, scale, i, n, workspace)));
    }
    max = (float)attention_base(max);
    for (int64_t i = 0; i < l->seen; i += ROW_BLOCK) {
        int64_t n = MIN(l->seen - i, ROW_BLOCK);
        sum += vec_exp_sum(n, is_short ? workspace : load(x, l, scale, i, n, workspace), max, workspace);
    }
    for (int64_t i = 0; i < l->seen; i += ROW_BLOCK) {
        int64_t n = MIN(l->seen - i, ROW_BLOCK);
        if (!is_short) vec_exp_sum(n, load(x, l, scale, i, n, workspace), max, workspace);
        float *to = row_into(y, i, workspace);
        vec_affine(n, (float)attention_inverse(sum), workspace, 0, to);
        row_store(y, i, n, to);
    }
    store_zeros(y, l->seen);
}

/* Returns true for short rows of f32 without a mask, which are computed in place in the result, in full vectors;
 * masked keys are -inf at first and set to 0 at the end. 48 heads of 64 x 64, one core: 121 us; with one_row() 186
 * us. */
static bool
is_plain(const struct kcall *k)
{
    const struct view *x = &k->in[SCORES];
    return x->dtype == DT_F32 && k->out[0].dtype == DT_F32 && k->in[MASK].dtype == DT_NONE &&
           x->dim[x->ndim - 1] <= ROW_BLOCK;
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
        one_row(&x, &y, &l, (float)k->call->attr[ATT_SCALE].f);
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
    double *y = at[1];
    f->affine(l.seen, k->call->attr[ATT_SCALE].f, at[0], 0, y);
    for (int64_t i = 0; l.mask && i < l.seen; i++) y[i] += keys_add(&l, i);
    double sum = f->exp_sum(l.seen, y, attention_base(f->max(l.seen, y)), y);
    f->affine(l.seen, attention_inverse(sum), y, 0, y);
    for (int64_t i = l.seen; i < n; i++) y[i] = 0;
}

static bool
lines(const struct kcall *k, struct line_call *c)
{
    *c = line_map(&k->in[SCORES], &k->out[0], k->in[SCORES].ndim - 1, one_line);
    return k->in[SCORES].dtype == DT_F64;
}

/* Builds the gradient of y = softmax(scale x + mask). A masked key has y = 0 and no gradient. */
static void
grad(struct build *b, const struct node *n, struct val *const *dout, struct val **din)
{
    struct val *gradient = b_softmax_grad(b, n->out[0], dout[0], n->in[SCORES]->type.ndim - 1);
    if (b_wants(n, SCORES)) din[SCORES] = b_scale(b, gradient, n->attr[ATT_SCALE].f);
    if (b_wants(n, MASK)) din[MASK] = b_sum_to(b, gradient, &n->in[MASK]->type);
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
    if (last < 1 || !is_cut(c, SCORES, last) || type_numel(&c->in[SCORES]) == 0) return 0;
    struct val *x = masked(b, c, in), *m = or_else(b, b_line_max(b, x, last), -INFINITY, 0);
    struct val *y = b_exp(b, b_sub(b, x, m)), *sum = or_else(b, b_line_exp_sum(b, x, m, last), 0, 1);
    out[0] = b_narrow(b, b_div(b, y, sum), &c->in[SCORES]);
    return b->failed ? (int)err_last() : 0;
}

static const struct kernel_variant variants[] = {
    {"simd", .dense_in = true, .accepts = accepts, .run = run}, LINES_ROW, {NULL}};

/* GPU body; masked keys are never read. */
static const char line[] = BODY({
    int64_t at[8], entry[8];
    where(0, at);
    const int64_t after = place0(NDIM0 - 2) + at[NDIM0 - 2] + 1;
    const int64_t seen = c->attr[IS_CAUSAL].i && after < n ? after : n;
    for (int d = 0; d < NDIM1; d++) entry[d] = dim1(d) == 1 ? 0 : at[NDIM0 - NDIM1 + d];
    const auto score = [&](int64_t i) {
        const real s = (real)c->attr[SCALE].f * x0(i);
        if (NDIM1 > 0 && dim1(NDIM1 - (NDIM1 > 0)) > 1) entry[NDIM1 - (NDIM1 > 0)] = i;
        return absent(&c->in[1]) ? s : s + (real)mask_adds(x1(entry));
    };
    const real top = fold<greatest>((double)-INFINITY, [&](int64_t i) { return i < seen ? score(i) : -INFINITY; });
    const real most = top == -INFINITY ? 0 : top;
    const real all = fold<sums>(0.0, [&](int64_t i) { return i < seen ? exp(score(i) - most) : 0; });
    const real sum = all == 0 ? 1 : all;
    each([&](int64_t i) { y0(i, i < seen ? exp(score(i) - most) / sum : 0); });
});

const struct op op_attention_softmax = {
    .name = "attention_softmax",
    .doc = "y = softmax over keys of scale scores + mask; is_causal: keys after the query are masked",
    .in = {{"scores", IN_FLOAT}, {"mask", IN_OPTIONAL}},
    .attr = {ATTENTION_ATTRS},
    .shape.make_rule = rule,
    .shape.infer = infer,
    .shape.dtype = OUT_IN0,
    .grad.build = grad,
    .split_form = split_form,
    .grad.saves = "a",
    .host.ref = ref,
    .gpu.line = line,
    .gpu.by_position = 1 << MASK,
    .host.lines = lines,
    .host.kernel = variants,
    .flags = OP_HIDDEN,
    .sample = {"f32{2,3,4,5} - scale=0.5", "f32{2,5,5} - is_causal=true scale=0.25", "f32{2,3,4} f32{3,1} scale=2",
               "bf16{3,7} f32{7}", "f32{2,13} f32{1,13}"},
};
