/* attention.c - computes attention for one block of queries at a time, so that the block's scores stay in the cache.
 *
 * Scores are stored transposed: one row per key, one column per query. So each loop of the softmax processes
 * columns. For a block of queries q and a tile of keys k with values v (' is the transpose; out is the result, g its
 * gradient):
 *
 *     s = scale k q'           keys x queries
 *     p = exp(s - max)         not divided by their sum l
 *     out += p' v              divided by l at the end
 *
 *     p /= l,  t = v g',  d = row sums of g out
 *     dv += p g
 *     e = scale p (t - d),  dk += e q,  dq += e' k
 *
 * Tiles of keys that no query of the block sees are skipped. In a tile that a causal mask hides in part, bands of
 * keys or queries without visible scores are skipped. A softcap replaces s by cap tanh(s / cap); t - d is then
 * multiplied by the derivative of this function. A sink counts only in max and l. All scores of a block are computed
 * before the first is used; for 1024 keys they need 256 KiB. attention_small.c computes the products, or
 * attention_dense.c if oneDNN multiplies bf16 faster than our own loops. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/attention/attention_inner.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/gemm/bf16_pairs.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/base/simd.h"
#include "runtime/base/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- visible keys ---- */

/* Returns the offset, in elements, of the entry of v that belongs to an entry of the scores. r: index of the
 * scores' entry over the first n dimensions. own: number of leading dimensions of v that select its entry.
 * Dimensions are aligned from the last one; dimensions of size 1 are broadcast. */
static int64_t
attention_offset(const struct view *v, int own, const struct view *scores, int n, int64_t r)
{
    int64_t at = 0;
    for (int d = own - 1, s = n - 1; d >= 0; r /= scores->dim[s], d--, s--)
        if (v->dim[d] != 1) at += r % scores->dim[s] * v->stride[d];
    return at;
}

int64_t
attention_head(const struct view *v, const struct view *scores, int64_t r)
{
    return attention_offset(v, v->ndim - 2, scores, scores->ndim - 2, r);
}

/* Sets *first and *end to the range of keys that the query of row r sees, without regard to the mask. at: global
 * position of the query. */
static void
keys_between(const struct kcall *k, const struct view *scores, int mask, int64_t r, int64_t at, int64_t *first,
             int64_t *end)
{
    const struct view *spans = &k->in[mask + ATT_SPANS - ATT_MASK];
    const struct attr *attr = k->call->attr, *window = &attr[ATT_WINDOW];
    *first = 0, *end = scores->dim[scores->ndim - 1];
    if (attr[ATT_CAUSAL].i) *end = MIN(*end, at + 1);
    if (window->n && window->list[0] >= 0) *first = MAX(*first, at - window->list[0]);
    if (window->n && window->list[1] >= 0) *end = MIN(*end, at + window->list[1] + 1);
    if (spans->dtype == DT_NONE) return;
    int64_t pair = attention_offset(spans, spans->ndim - 1, scores, scores->ndim - 1, r);
    *first = MAX(*first, elem_get_i(spans->dtype, spans->data, pair));
    *end = MIN(*end, elem_get_i(spans->dtype, spans->data, pair + spans->stride[spans->ndim - 1]));
}

struct keys
keys_of(const struct kcall *k, const struct view *scores, int mask, int64_t r)
{
    const struct view *m = &k->in[mask];
    int last = scores->ndim - 1;
    struct keys l = {.dtype = m->dtype};
    keys_between(k, scores, mask, r, scores->offset[last - 1] + r % scores->dim[last - 1], &l.first, &l.end);
    if (m->dtype == DT_NONE) return l;
    int64_t at = attention_offset(m, m->ndim - 1, scores, last, r);
    l.step = m->ndim == 0 || m->dim[m->ndim - 1] == 1 ? 0 : m->stride[m->ndim - 1];
    l.mask = (const char *)m->data + at * (int64_t)dtype_bytes(m->dtype);
    return l;
}

double
sink_of(const struct kcall *k, const struct view *scores, int mask, int64_t r)
{
    const struct view *v = &k->in[mask + ATT_SINKS - ATT_MASK];
    int heads = scores->ndim - 2;
    if (v->dtype == DT_NONE) return -INFINITY;
    return elem_get_f(v->dtype, v->data, attention_offset(v, v->ndim, scores, heads, r / scores->dim[heads]));
}

double
keys_add(const struct keys *l, int64_t i)
{
    if (i < l->first || i >= l->end) return -INFINITY;
    if (!l->mask) return 0;
    if (dtype_is_float(l->dtype)) return elem_get_f(l->dtype, l->mask, i * l->step);
    return elem_get_i(l->dtype, l->mask, i * l->step) ? 0 : -INFINITY;
}

void
keys_add_to(const struct keys *l, int64_t from, int64_t n, float *score)
{
    float workspace[ROW_BLOCK];
    assert(n <= ROW_BLOCK);
    block_load(COMP_F32, l->dtype, (const char *)l->mask + from * l->step * (int64_t)dtype_bytes(l->dtype), l->step, n,
               workspace);
    bool added = dtype_is_float(l->dtype);
    for (int64_t i = 0; i < n; i++) score[i] += added ? workspace[i] : workspace[i] != 0 ? 0 : -INFINITY;
}

struct view
attention_scores(const struct kcall *k)
{
    const struct view *q = &k->in[ATT_Q], *key = &k->in[ATT_K], *v = &k->in[ATT_V];
    struct view s = *q;
    int last = q->ndim - 1;
    for (int d = 0; d < last - 1; d++)
        s.dim[d] = q->dim[d] != 1 ? q->dim[d] : key->dim[d] != 1 ? key->dim[d] : v->dim[d];
    s.dim[last] = key->dim[last - 1];
    s.data = NULL;
    return s;
}

/* ---- preparation ---- */

bool
attention_accepts(const struct kcall *k)
{
    enum dtype d = k->in[ATT_Q].dtype;
    for (int i = ATT_Q; i <= ATT_V; i++)
        if (k->in[i].dtype != d || view_numel(&k->in[i]) == 0) return false;
    return d == DT_F32 || dtype_is_half(d);
}

/* Divides n into pieces of equal length, as few as possible without exceeding `most`. Returns the length, a multiple
 * of COLS. Sets *pieces to the number of pieces. */
static int64_t
even(int64_t n, int64_t most, int64_t *pieces)
{
    *pieces = (n + most - 1) / most;
    return up((n + *pieces - 1) / *pieces);
}

void *
attention_take(struct taker *t, bool wanted, int64_t n, size_t bytes)
{
    if (!wanted) return NULL;
    void *at = t->base ? t->base + t->bytes : NULL;
    t->bytes += ((size_t)n * bytes + 63) / 64 * 64;
    return at;
}

/* Returns the largest number of tiles that a block can see. A block sees a tile if one of its queries sees a key of
 * the tile. */
static int64_t
tiles_of_block(const struct attention *a)
{
    return MIN(a->ntile, (a->left + a->right + a->queries) / a->keys + 2);
}

/* Sets left and right: the numbers of keys that a query sees before and after its own position. */
static void
set_limits(const struct kcall *k, struct attention *a)
{
    const int64_t no_limit = (int64_t)1 << 40;
    const struct attr *window = &k->call->attr[ATT_WINDOW];
    a->left = window->n && window->list[0] >= 0 ? window->list[0] : no_limit;
    a->right = window->n && window->list[1] >= 0 ? window->list[1] : no_limit;
    if (a->causal) a->right = 0;
    a->spans = k->in[ATT_SPANS].dtype != DT_NONE;
    a->ranged = a->spans || window->n;
}

static size_t
lay_out_workspace(const struct attention *a, char *base, struct workspace *r)
{
    struct taker t = {.base = base};
    int64_t scores = a->near * a->keys * a->queries;
    *r = (struct workspace){.score = attention_take(&t, true, scores, sizeof(float)),
                            .score_grad = attention_take(&t, a->backward, scores, sizeof(float)),
                            .slope = attention_take(&t, a->backward && a->softcap > 0, scores, sizeof(float))};
    a->by->lay_out(a, &t, r);
    return t.bytes;
}

void
attention_drop(void *state)
{
    struct attention *a = state;
    a->by->drop(a);
    free(a);
}

bool attention_pairs = true;

/* Chooses oneDNN for bf16 if this machine multiplies bf16 in oneDNN but has no products of bf16 pairs for our loops.
 * Keeps our loops for few queries, because oneDNN's calls would cost more than the products. */
static const struct tiles *
tiles_for(const struct attention *a)
{
    bool dense = a->dtype == DT_BF16 && !a->pairs && prim_multiplies(DT_BF16);
    return dense && a->nquery >= 2 * QUERIES ? &attention_dense : &attention_small;
}

static int
make_attention(const struct kcall *k, bool backward, void **state, size_t *scratch_bytes)
{
    struct view s = attention_scores(k);
    int last = s.ndim - 1;
    struct attention *a = must_alloc(sizeof *a);
    struct workspace r;
    *a = (struct attention){.backward = backward, .causal = k->call->attr[ATT_CAUSAL].i, .nhead = 1};
    a->dtype = k->in[ATT_Q].dtype;
    a->pairs = a->dtype == DT_BF16 && attention_pairs ? bf16_pairs_here() : NULL;
    a->scale = (float)k->call->attr[ATT_SCALE].f;
    a->softcap = (float)k->call->attr[ATT_SOFTCAP].f;
    set_limits(k, a);
    a->nquery = s.dim[last - 1], a->nkey = s.dim[last];
    a->by = tiles_for(a);
    a->size = k->in[ATT_Q].dim[last], a->width = k->in[ATT_V].dim[last];
    a->queries = even(a->nquery, QUERIES, &a->nblock);
    a->keys = even(a->nkey, a->causal || a->ranged ? QUERIES : KEYS, &a->ntile);
    a->near = tiles_of_block(a);
    for (int d = 0; d < last - 1; d++) a->nhead *= s.dim[d];
    a->nworker = (int)MIN((int64_t)MAX(k->threads, 1), backward ? a->nhead : a->nhead * a->nblock);
    int status = a->by->make(a);
    if (status) {
        attention_drop(a);
        return status;
    }
    a->room_bytes = lay_out_workspace(a, NULL, &r);
    *scratch_bytes = a->room_bytes * (size_t)a->nworker;
    *state = a;
    return 0;
}

int
attention_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return make_attention(k, false, state, scratch_bytes);
}

int
attention_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return make_attention(k, true, state, scratch_bytes);
}

/* ---- matrices ---- */

struct tile_matrix
matrix_of(const struct worker *w, const struct view *v)
{
    int64_t at = attention_head(v, &w->job->scores, w->head);
    int last = v->ndim - 1;
    return (struct tile_matrix){(char *)v->data + at * (int64_t)dtype_bytes(v->dtype), v->dtype, v->stride[last - 1],
                                v->stride[last], v->dim[last]};
}

static char *
row_of_matrix(const struct tile_matrix *x, int64_t i)
{
    return x->data + i * x->row * (int64_t)dtype_bytes(x->dtype);
}

VECTOR void
lines_load(int64_t lines, int64_t n, const float *x, int64_t row, const float *factor, float *to, int64_t pitch)
{
    for (int64_t i = 0; i < lines; i++, x += row, to += pitch) {
        float f = factor ? factor[i] : 1;
        for (int64_t j = 0; j < n; j++) to[j] = f * x[j];
    }
}
EXPORTED(lines_load)

static bool
lies_by_rows(const struct tile_matrix *x)
{
    return x->dtype == DT_F32 && x->col == 1;
}

/* Returns true if the rows are contiguous, so that all of them can be converted in one call. */
static bool
is_one_row(const struct tile_matrix *x, int64_t pitch)
{
    return x->col == 1 && x->row == x->size && x->size == pitch;
}

void
matrix_load(const struct tile_matrix *x, int64_t from, int64_t n, float *to, int64_t pitch)
{
    if (lies_by_rows(x))
        lines_load(n, x->size, (const float *)row_of_matrix(x, from), x->row, NULL, to, pitch);
    else if (is_one_row(x, pitch))
        block_load(COMP_F32, x->dtype, row_of_matrix(x, from), 1, n * pitch, to);
    else
        for (int64_t i = 0; i < n; i++)
            block_load(COMP_F32, x->dtype, row_of_matrix(x, from + i), x->col, x->size, to + i * pitch);
    for (int64_t i = 0; i < n && pitch > x->size; i++)
        memset(to + i * pitch + x->size, 0, (size_t)(pitch - x->size) * sizeof *to);
}

void
matrix_store(float *rows, int64_t pitch, const struct tile_matrix *x, int64_t from, int64_t n, const float *factor)
{
    if (lies_by_rows(x)) {
        lines_load(n, x->size, rows, pitch, factor, (float *)row_of_matrix(x, from), x->row);
        return;
    }
    if (factor) lines_load(n, x->size, rows, pitch, factor, rows, pitch);
    if (is_one_row(x, pitch))
        block_store(COMP_F32, x->dtype, rows, n * pitch, row_of_matrix(x, from), 1);
    else
        for (int64_t i = 0; i < n; i++)
            block_store(COMP_F32, x->dtype, rows + i * pitch, x->size, row_of_matrix(x, from + i), x->col);
}

/* ---- locating blocks and tiles, and finding the keys that a block sees ---- */

int64_t
keys_in(const struct worker *w, int64_t tile)
{
    return MIN(w->a->keys, w->a->nkey - tile * w->a->keys);
}

int64_t
blind(const struct worker *w, int64_t tile, int64_t key)
{
    return w->a->causal ? MIN(MAX(tile * w->a->keys + key - w->first, 0), w->a->queries) : 0;
}

static float *
tile_of(const struct worker *w, float *scores, int64_t i)
{
    return scores + (i - w->begin) * w->a->keys * w->a->queries;
}

/* Sets the range of keys that each query of the block sees. Columns after the last query get the range of the last
 * query. */
static void
find_keys(struct worker *w)
{
    const struct attention *a = w->a;
    int64_t first = 0, end = a->nkey;
    for (int64_t c = 0; c < a->queries; c++) {
        int64_t at = w->first + c;
        if (c < w->nquery && a->spans)
            keys_between(w->job->k, &w->job->scores, ATT_MASK, w->head * a->nquery + w->from + c, at, &first, &end);
        else if (c < w->nquery)
            first = at - a->left, end = at + a->right + 1;
        w->key_first[c] = (int32_t)MIN(MAX(first, 0), a->nkey);
        w->key_end[c] = (int32_t)MAX(MIN(end, a->nkey), 0);
    }
}

/* Sets the range of keys that every query of the block sees, and the range of tiles that the block sees. The range
 * of tiles is never empty, so that all results are written. */
static void
find_visible(struct worker *w)
{
    const struct attention *a = w->a;
    int32_t least = (int32_t)a->nkey, most = 0, first_most = 0, end_least = (int32_t)a->nkey;
    find_keys(w);
    for (int64_t c = 0; c < a->queries; c++) {
        least = MIN(least, w->key_first[c]), first_most = MAX(first_most, w->key_first[c]);
        most = MAX(most, w->key_end[c]), end_least = MIN(end_least, w->key_end[c]);
    }
    w->first_most = first_most, w->end_least = end_least;
    w->begin = least < most ? least / a->keys : 0;
    w->ntile = least < most ? (most + a->keys - 1) / a->keys : 1;
    assert(w->ntile - w->begin <= a->near);
}

static void
block_start(struct worker *w, int64_t block)
{
    const struct attention *a = w->a;
    w->from = block * a->queries;
    w->nquery = MIN(a->queries, a->nquery - w->from);
    w->first = w->job->scores.offset[w->job->scores.ndim - 2] + w->from;
    w->sink = (float)sink_of(w->job->k, &w->job->scores, ATT_MASK, w->head * a->nquery);
    find_visible(w);
    a->by->block(w);
}

/* Sets the scores of n keys, from `key` on, to `value` where a query does not see the key. */
static VECTOR void
hide_rows(int64_t n, int64_t queries, int32_t key, const int32_t *first, const int32_t *end, float value, float *s)
{
    for (int64_t i = 0; i < n; i++, key++, s += queries)
        for (int64_t c = 0; c < queries; c++) s[c] = key < first[c] || key >= end[c] ? value : s[c];
}

/* Sets to `value` the tile's scores of keys that a query does not see, and all rows after the tile's last key. */
static void
hide(const struct worker *w, int64_t tile, float *s, float value)
{
    const struct attention *a = w->a;
    int64_t n = keys_in(w, tile), rows = a->by->rows(w, tile), key = tile * a->keys;
    if (key < w->first_most || key + n > w->end_least)
        hide_rows(n, a->queries, (int32_t)key, w->key_first, w->key_end, value, s);
    for (int64_t i = n * a->queries; i < rows * a->queries; i++) s[i] = value;
}

/* ---- computing scores and their exponentials ---- */

static void
add_mask(const struct worker *w, int64_t tile, float *s)
{
    const struct attention *a = w->a;
    float column[KEYS];
    int64_t n = keys_in(w, tile);
    for (int64_t c = 0; c < w->nquery; c++) {
        struct keys l = keys_of(w->job->k, &w->job->scores, ATT_MASK, w->head * a->nquery + w->from + c);
        for (int64_t i = 0; i < n; i++) column[i] = s[i * a->queries + c];
        keys_add_to(&l, tile * a->keys, n, column);
        for (int64_t i = 0; i < n; i++) s[i * a->queries + c] = column[i];
    }
}

static VECTOR void
tanh_slopes(int64_t n, const float *x, float *slope)
{
    for (int64_t i = 0; i < n; i++) slope[i] = 1 - x[i] * x[i];
}

/* Bounds n scores by the softcap. slope: receives the derivatives of the bounded scores with respect to the
 * unbounded ones; NULL: not needed. */
static void
bound_scores(const struct attention *a, int64_t n, float *s, float *slope)
{
    vec_affine(n, a->scale / a->softcap, s, 0, s);
    vec_tanh(n, s, s);
    if (slope) tanh_slopes(n, s, slope);
    vec_affine(n, a->softcap, s, 0, s);
}

/* Computes the scores of a block and the maximum per query. Returns the factor by which scores and maxima must still be
 * multiplied. */
static float
attention_row_scores(struct worker *w)
{
    const struct attention *a = w->a;
    bool masked = w->job->k->in[ATT_MASK].dtype != DT_NONE, capped = a->softcap > 0;
    bool first = masked || capped || a->scale <= 0; /* true: the scores are scaled before masking */
    float scale = first ? 1 : a->scale;
    for (int64_t c = 0; c < a->queries; c++) w->max[c] = w->sink;
    for (int64_t i = w->begin; i < w->ntile; i++) {
        float *s = tile_of(w, w->r.score, i);
        int64_t rows = a->by->rows(w, i), n = rows * a->queries;
        a->by->scores(w, i, s);
        if (capped)
            bound_scores(a, n, s, w->r.slope ? tile_of(w, w->r.slope, i) : NULL);
        else if (first)
            vec_affine(n, a->scale, s, 0, s);
        if (masked) add_mask(w, i, s);
        hide(w, i, s, -INFINITY);
        cols_max(rows, a->queries, scale, s, w->max);
    }
    for (int64_t c = 0; c < a->queries; c++) w->max[c] = (float)attention_base(w->max[c]);
    return scale;
}

/* Sets each query's sum of exponentials to the exponential of its sink, or to 0 if there is no sink. */
static void
start_sums(const struct worker *w, double *total)
{
    for (int64_t c = 0; c < w->a->queries; c++) total[c] = w->sink == -INFINITY ? 0 : exp((double)w->sink - w->max[c]);
}

/* Computes the exponentials of a tile's scores, and adds their sum per query to `total`. */
static void
attention_exponentials(const struct worker *w, int64_t i, float scale, double *total)
{
    float sum[QUERIES];
    w->a->by->exps(w, i, scale, tile_of(w, w->r.score, i), sum);
    for (int64_t c = 0; c < w->a->queries; c++) total[c] += sum[c];
}

static void
invert(struct worker *w, const double *total)
{
    for (int64_t c = 0; c < w->a->queries; c++) w->inverse[c] = (float)attention_inverse(total[c]);
}

/* ---- forward ---- */

static void
forward_block(struct worker *w, int64_t block)
{
    const struct attention *a = w->a;
    double total[QUERIES];
    block_start(w, block);
    float scale = attention_row_scores(w);
    start_sums(w, total);
    for (int64_t i = w->begin; i < w->ntile; i++) {
        attention_exponentials(w, i, scale, total);
        a->by->to_result(w, i, tile_of(w, w->r.score, i));
    }
    invert(w, total);
    a->by->give(w, w->inverse);
}

static void
attend_forward(struct worker *w, int64_t lo, int64_t hi)
{
    const struct attention *a = w->a;
    for (int64_t u = lo; u < hi && !stop_now(); u++) {
        w->head = u / a->nblock;
        if (u == lo || u % a->nblock == 0) a->by->head(w);
        forward_block(w, u % a->nblock);
    }
}

/* ---- backward ---- */

static void
attention_weights(struct worker *w)
{
    double total[QUERIES];
    float scale = attention_row_scores(w);
    start_sums(w, total);
    for (int64_t i = w->begin; i < w->ntile; i++) attention_exponentials(w, i, scale, total);
    invert(w, total);
}

/* Multiplies t - mean, the gradient of bounded scores, by the derivative of the softcap. Adds mean to the product,
 * because the gradient of the softmax later subtracts mean. */
static VECTOR void
apply_slopes(int64_t n, int64_t queries, const float *slope, const float *mean, float *t)
{
    for (int64_t i = 0; i < n; i++, slope += queries, t += queries)
        for (int64_t c = 0; c < queries; c++) t[c] = mean[c] + (t[c] - mean[c]) * slope[c];
}

/* Stores the gradient of the sink for each query. The weight of the sink is exp(sink - max) / l, and its value is 0. */
static void
store_sink_grads(const struct worker *w, const float *mean)
{
    const struct view *to = &w->job->k->out[3], *scores = &w->job->scores;
    if (view_numel(to) == 0) return;
    for (int64_t c = 0; c < w->nquery; c++) {
        int64_t row = w->head * w->a->nquery + w->from + c;
        double weight = exp((double)w->sink - w->max[c]) * w->inverse[c];
        elem_set_f(to->dtype, to->data, attention_offset(to, to->ndim - 1, scores, scores->ndim - 1, row),
                   -weight * mean[c]);
    }
}

static void
backward_block(struct worker *w, int64_t block)
{
    const struct attention *a = w->a;
    float mean[QUERIES] = {0};
    block_start(w, block);
    attention_weights(w);
    a->by->slopes(w);
    a->by->means(w, mean);
    store_sink_grads(w, mean);
    for (int64_t i = w->begin; i < w->ntile; i++) {
        float *p = tile_of(w, w->r.score, i), *t = tile_of(w, w->r.score_grad, i);
        a->by->to_values(w, i, p);
        a->by->score_grads(w, i, t);
        if (w->r.slope) apply_slopes(a->by->rows(w, i), a->queries, tile_of(w, w->r.slope, i), mean, t);
        hide(w, i, t, 0);
        a->by->to_operands(w, i, p, mean, t);
    }
    w->begun = MAX(w->begun, w->ntile);
    a->by->give(w, NULL);
}

static void
attend_backward(struct worker *w, int64_t lo, int64_t hi)
{
    const struct attention *a = w->a;
    for (w->head = lo; w->head < hi; w->head++) {
        w->begun = 0;
        a->by->head(w);
        for (int64_t block = 0; block < a->nblock && !stop_now(); block++) backward_block(w, block);
        a->by->give_sums(w);
    }
}

/* ---- workers ---- */

static void
attention_part(void *arg, int64_t lo, int64_t hi)
{
    struct job *job = arg;
    const struct attention *a = job->a;
    int64_t n = a->backward ? a->nhead : a->nhead * a->nblock;
    for (int64_t i = lo; i < hi; i++) {
        struct worker w = {.a = a, .job = job, .product = a->product ? a->product[i] : NULL};
        lay_out_workspace(a, (char *)job->k->scratch + (size_t)i * a->room_bytes, &w.r);
        (a->backward ? attend_backward : attend_forward)(&w, n * i / a->nworker, n * (i + 1) / a->nworker);
    }
}

int
attention_run(const struct kcall *k, const void *state)
{
    const struct attention *a = state;
    struct job job = {.a = a, .k = k, .scores = attention_scores(k)};
    team_run(a->nworker, a->nworker, 1, attention_part, &job);
    return job.failed ? fail(E_KERNEL, "oneDNN: a product of %s failed", k->call->op->name) : 0;
}
