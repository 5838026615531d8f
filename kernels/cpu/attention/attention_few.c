/* attention_few.c - attention of a few queries, as in generation of one token at a time: the product of queries and
 * keys, a softmax, and the product of weights and values (gemm_few.h).
 *
 * Reading keys and values takes nearly all of the time. Both are read in place, once for up to GEMM_FEW rows that
 * share them: queries of one head, and of heads with the same keys and values. Keys at either end that a causal or
 * bool mask hides from all these rows are not read. All scores of a row are computed before the first is used.
 *
 * Times on one Zen 5 core, ms:
 *
 *                                           this file   attention.c
 *    1 query, 12 heads of 64 f32, 960 keys       0.08          0.21
 *    the same, 4,096 keys                        0.91          1.72
 *    GPT-2 124M, 1 token after 960 others       18.1          18.7 */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/attention/attention_few.h"
#include "kernels/cpu/attention/attention.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/math/vmath.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/gemm/gemm_few.h"
#include "kernels/cpu/rows/rows.h"
#include "kernels/cpu/base/team.h"
#include "runtime/data/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 64 }; /* number of rows of 16-bit keys or values that are converted to floats at a time */

/* The division of rows into units of work. A row is one query of one head. The rows of a head are consecutive, and
 * so are the rows of heads that share keys and values. */
struct few_rows {
    /* nrow: total number of rows. shared: number of consecutive rows that share keys and values. */
    int64_t nrow, shared;
    int64_t nkey, size, width;
    /* rows: maximum number of rows in a unit of work. each: number of units into which `shared` rows are divided. */
    int64_t rows, each;
    int64_t part; /* size of one thread's scratch, bytes */
};

struct few_job {
    const struct few_rows *a;
    const struct kcall *k;
    struct view scores;
};

/* A unit of work: n rows starting at row `from`. The buffers of a unit are in scratch and hold floats, one line per
 * row. */
struct few_unit {
    const struct few_job *job;
    int64_t from, n;
    int64_t lo, hi; /* range of keys that at least one row sees */
    float *query, *score, *sum;
    float *lines; /* buffer for KEYS converted rows of keys or values */
};

/* ---- preparation ---- */

bool
attention_few_accepts(const struct kcall *k)
{
    const struct view *q = &k->in[ATT_Q];
    return attention_accepts(k) && q->dim[q->ndim - 2] <= GEMM_FEW;
}

/* Returns the number of consecutive heads that share the keys and values of head 0. */
static int64_t
sharing(const struct kcall *k, const struct view *scores)
{
    int64_t n = 1;
    for (int d = scores->ndim - 3; d >= 0; n *= scores->dim[d], d--)
        if (scores->dim[d] != 1 && (k->in[ATT_K].dim[d] != 1 || k->in[ATT_V].dim[d] != 1)) break;
    return n;
}

static int64_t
few_row_units(const struct few_rows *a)
{
    return a->nrow / a->shared * a->each;
}

static int64_t
floats_of_unit(const struct few_rows *a)
{
    return a->rows * (a->size + a->nkey + a->width) + KEYS * MAX(a->size, a->width);
}

int
attention_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    struct view s = attention_scores(k);
    int last = s.ndim - 1, threads = MAX(k->threads, 1);
    int64_t nquery = s.dim[last - 1];
    struct few_rows *a = must_alloc(sizeof *a);
    *a = (struct few_rows){.nrow = nquery, .shared = nquery * sharing(k, &s), .nkey = s.dim[last]};
    for (int d = 0; d < last - 1; d++) a->nrow *= s.dim[d];
    a->size = k->in[ATT_Q].dim[last], a->width = k->in[ATT_V].dim[last];
    a->rows = MIN(a->shared, GEMM_FEW);
    while (a->rows > 1 && a->nrow / a->rows < threads) a->rows--;
    a->each = (a->shared + a->rows - 1) / a->rows;
    a->part = (floats_of_unit(a) * (int64_t)sizeof(float) + 63) / 64 * 64;
    *scratch_bytes = (size_t)(a->part * threads);
    *state = a;
    return 0;
}

void
attention_few_drop(void *state)
{
    free(state);
}

/* ---- rows ---- */

static const char *
at_entry(const struct view *v, int64_t i)
{
    return (const char *)v->data + i * (int64_t)dtype_bytes(v->dtype);
}

/* Returns the address of row r of v, which is q or the result. Sets *stride to the distance between entries of the
 * row, elements. */
static char *
few_row_at(const struct few_unit *u, const struct view *v, int64_t r, int64_t *stride)
{
    const struct view *scores = &u->job->scores;
    int64_t nquery = scores->dim[scores->ndim - 2];
    *stride = v->stride[v->ndim - 1];
    return (char *)at_entry(v, attention_head(v, scores, r / nquery) + r % nquery * v->stride[v->ndim - 2]);
}

static void
load_queries(const struct few_unit *u)
{
    const struct view *q = &u->job->k->in[ATT_Q];
    int64_t size = u->job->a->size, stride;
    for (int64_t i = 0; i < u->n; i++) {
        const char *from = few_row_at(u, q, u->from + i, &stride);
        block_load(COMP_F32, q->dtype, from, stride, size, u->query + i * size);
    }
}

static struct keys
keys_of_row(const struct few_unit *u, int64_t i)
{
    const struct kcall *k = u->job->k;
    return keys_of(k, &u->job->scores, ATT_MASK, u->from + i);
}

/* Sets the range of keys that at least one row of the unit sees, according to spans, window, bool mask and causal mask.
 */
static void
find_key_range(struct few_unit *u)
{
    u->lo = u->job->a->nkey, u->hi = 0;
    for (int64_t i = 0; i < u->n; i++) {
        struct keys l = keys_of_row(u, i);
        int64_t first = l.first, end = l.end;
        if (l.mask && l.dtype == DT_BOOL) {
            const char *truth = l.mask;
            while (end > first && !truth[(end - 1) * l.step]) end--;
            while (first < end && !truth[first * l.step]) first++;
        }
        if (first < end) u->lo = MIN(u->lo, first), u->hi = MAX(u->hi, end);
    }
}

/* ---- products ---- */

/* Returns n of the unit's keys or values, starting at key `key`, for gemm_few(): in place if `as_they_lie` is
 * set, else converted to floats in the unit's buffer. */
static const void *
few_lines(const struct few_unit *u, int operand, int64_t key, int64_t n, bool as_they_lie)
{
    const struct view *v = &u->job->k->in[operand], *scores = &u->job->scores;
    int last = v->ndim - 1;
    int64_t nquery = scores->dim[last - 1], width = v->dim[last];
    int64_t at = attention_head(v, scores, u->from / nquery) + key * v->stride[last - 1];
    if (as_they_lie) return at_entry(v, at);
    for (int64_t i = 0; i < n; i++, at += v->stride[last - 1])
        block_load(COMP_F32, v->dtype, at_entry(v, at), v->stride[last], width, u->lines + i * width);
    return u->lines;
}

/* Returns true if products can read the view in place. Only keys may be bf16: products read keys as columns and
 * values as rows, and they cannot read rows of bf16. */
static bool
lie_well(const struct view *v, bool keys)
{
    bool fits = v->dtype == DT_F32 || (keys && v->dtype == DT_BF16);
    return fits && v->stride[v->ndim - 1] == 1;
}

/* Computes score = query key' for the keys in the unit's range. */
static void
by_keys(const struct few_unit *u)
{
    const struct few_rows *a = u->job->a;
    const struct view *v = &u->job->k->in[ATT_K];
    bool well = lie_well(v, true);
    struct few p = {.m = u->n, .k = a->size, .a = u->query, .a_row = a->size, .a_col = 1, .c_row = a->nkey, .c_col = 1};
    p.halves = well && v->dtype == DT_BF16;
    for (int64_t i = 0; p.halves && i < u->n; i++) gemm_few_pair(a->size, u->query + i * a->size);
    p.b_row = 1, p.b_col = well ? v->stride[v->ndim - 2] : a->size;
    for (int64_t key = u->lo, n; key < u->hi; key += n) {
        n = MIN(u->hi - key, well ? u->hi : KEYS);
        p.b = few_lines(u, ATT_K, key, n, well), p.c = u->score + key;
        gemm_few(&p, 0, n);
    }
}

/* Computes sum = score value. A sum over many keys is added up in several partial sums, like long sums of a product
 * (gemm.h). */
static void
by_values(const struct few_unit *u)
{
    const struct few_rows *a = u->job->a;
    const struct view *v = &u->job->k->in[ATT_V];
    bool well = lie_well(v, false);
    struct few p = {.m = u->n, .c = u->sum, .a_row = a->nkey, .a_col = 1, .c_row = a->width, .c_col = 1};
    p.b_row = well ? v->stride[v->ndim - 2] : a->width, p.b_col = 1;
    for (int64_t key = u->lo; key < u->hi; key += p.k, p.add = true) {
        p.k = MIN(u->hi - key, well ? GEMM_PART : KEYS);
        p.b = few_lines(u, ATT_V, key, p.k, well), p.a = u->score + key;
        gemm_few(&p, 0, a->width);
    }
}

/* ---- softmax ---- */

/* Scales n scores and bounds them by the softcap. */
static void
scale_scores(const struct attr *attr, int64_t n, float *s)
{
    float scale = (float)attr[ATT_SCALE].f, cap = (float)attr[ATT_SOFTCAP].f;
    vec_affine(n, cap > 0 ? scale / cap : scale, s, 0, s);
    if (cap <= 0) return;
    vec_tanh(n, s, s);
    vec_affine(n, cap, s, 0, s);
}

/* Replaces the scores of row i by their exponentials. Returns the sum of the exponentials. */
static double
few_exponentials(const struct few_unit *u, int64_t i)
{
    const struct kcall *k = u->job->k;
    float *s = u->score + i * u->job->a->nkey, sink = (float)sink_of(k, &u->job->scores, ATT_MASK, u->from + i);
    struct keys l = keys_of_row(u, i);
    float max = sink;
    scale_scores(k->call->attr, u->hi - u->lo, s + u->lo);
    for (int64_t at = u->lo; at < MIN(l.first, u->hi); at++) s[at] = -INFINITY;
    for (int64_t at = MAX(l.end, u->lo); at < u->hi; at++) s[at] = -INFINITY;
    for (int64_t at = u->lo; at < u->hi; at += ROW_BLOCK) {
        int64_t n = MIN(u->hi - at, ROW_BLOCK);
        if (l.mask) keys_add_to(&l, at, n, s + at);
        max = fmaxf(max, vec_max(n, s + at));
    }
    max = (float)attention_base(max);
    double sum = exp((double)sink - max);
    for (int64_t at = u->lo; at < u->hi; at += ROW_BLOCK)
        sum += vec_exp_sum(MIN(u->hi - at, ROW_BLOCK), s + at, max, s + at);
    return sum;
}

static void
store_normalized(const struct few_unit *u, int64_t i, double sum)
{
    const struct view *out = &u->job->k->out[0];
    int64_t width = u->job->a->width, stride;
    float *y = u->sum + i * width;
    if (u->lo < u->hi)
        vec_affine(width, (float)attention_inverse(sum), y, 0, y);
    else
        memset(y, 0, (size_t)width * sizeof *y); /* the query sees no key: its result is 0 */
    char *to = few_row_at(u, out, u->from + i, &stride);
    block_store(COMP_F32, out->dtype, y, width, to, stride);
}

/* ---- units ---- */

/* Prefetches the keys or values of a unit if they are small. The hardware prefetcher does not help there, because a
 * stream of a few KB ends before the prefetcher starts. For 12 heads of 64 after 33 tokens, on two Zen 4 cores, this
 * shortens the call from 19 to 14 us. */
static void
prefetch_operand(const struct few_unit *u, int operand)
{
    enum { LINE = 64, LITTLE = 1 << 16 };
    const struct view *v = &u->job->k->in[operand];
    int64_t each = (int64_t)dtype_bytes(v->dtype), bytes = v->dim[v->ndim - 1] * each;
    if (!lie_well(v, operand == ATT_K) || (u->hi - u->lo) * bytes > LITTLE) return;
    const char *from = few_lines(u, operand, u->lo, 1, true);
    for (int64_t key = u->lo; key < u->hi; key++, from += v->stride[v->ndim - 2] * each)
        for (int64_t at = 0; at < bytes; at += LINE) __builtin_prefetch(from + at, 0, 2);
}

static void
one_unit(struct few_unit *u)
{
    double sum[GEMM_FEW];
    find_key_range(u);
    prefetch_operand(u, ATT_K);
    prefetch_operand(u, ATT_V);
    load_queries(u);
    by_keys(u);
    for (int64_t i = 0; i < u->n; i++) sum[i] = few_exponentials(u, i);
    by_values(u);
    for (int64_t i = 0; i < u->n; i++) store_normalized(u, i, sum[i]);
}

static void
few_part(void *arg, int64_t share, int64_t lo, int64_t hi)
{
    const struct few_job *job = arg;
    const struct few_rows *a = job->a;
    float *room = (float *)((char *)job->k->scratch + share * a->part);
    struct few_unit u = {.job = job, .query = room};
    u.score = u.query + a->rows * a->size;
    u.sum = u.score + a->rows * a->nkey;
    u.lines = u.sum + a->rows * a->width;
    for (int64_t i = lo; i < hi; i++) {
        int64_t turn = i % a->each * a->rows;
        u.from = i / a->each * a->shared + turn;
        u.n = MIN(a->rows, a->shared - turn);
        one_unit(&u);
    }
}

int
attention_few_run(const struct kcall *k, const void *state)
{
    enum { WORTH = 16384 }; /* minimum number of multiply-adds per thread */
    const struct few_rows *a = state;
    struct few_job job = {.a = a, .k = k, .scores = attention_scores(k)};
    team_shares(k->threads, few_row_units(a), 1 + WORTH / (a->nkey * (a->size + a->width)), few_part, &job);
    return 0;
}
