/* attention_small.c - multiplies the tiles of attention with our own loops (gemm_small.h): products of floats, and
 * of bf16 in pairs on machines with such products.
 *
 * A word is a float or a pair of bf16. The first operand of a product has rows of words and is read in place. It
 * holds keys or values if the product computes scores; otherwise it holds scores, as floats. The second operand has
 * rows of words, too. They are floats read in place, two rows of bf16 joined into one row of pairs, or transposed
 * rows (queries, and the gradients of results). Float results are accumulated in place. Data in other layouts is
 * packed first. */
#include "kernels/cpu/attention/attention_inner.h"
#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/gemm/bf16_pairs.h"
#include "kernels/cpu/base/transpose16.h"

#include <string.h>

static int64_t
per_word(const struct attention *a)
{
    return a->pairs ? 2 : 1;
}

static int64_t
words(const struct attention *a, int64_t n)
{
    return a->pairs ? (n + 1) / 2 : n;
}

static struct small_operand
small_operand_at(struct small_operand x, int64_t i, int64_t j)
{
    return (struct small_operand){(const uint32_t *)x.data + i * x.row + j * x.col, x.row, x.col};
}

static int
small_make(struct attention *a)
{
    a->multiply = a->pairs ? gemm_pairs() : gemm_small;
    a->dtype = a->pairs ? DT_BF16 : DT_F32;
    return 0;
}

static void
small_drop(struct attention *a)
{
    UNUSED(a);
}

static void
small_lay_out(const struct attention *a, struct taker *t, struct workspace *r)
{
    enum { WORD = sizeof(uint32_t) };
    bool back = a->backward, pairs = a->pairs;
    int64_t keys = a->ntile * a->keys, most = MAX(a->keys, a->queries);
    int64_t size = words(a, a->size), width = words(a, a->width), size_row = up(a->size), width_row = up(a->width);
    r->k = attention_take(t, true, keys * up(size), WORD);
    r->v = attention_take(t, true, keys * up(width), WORD);
    r->k_other = attention_take(t, back, words(a, keys) * size_row, WORD);
    r->v_other = attention_take(t, !back, words(a, keys) * width_row, WORD);
    r->q = attention_take(t, true, a->queries * up(size), WORD);
    r->q_turned = attention_take(t, true, a->queries * size, WORD);
    r->q_other = attention_take(t, back, words(a, a->queries) * size_row, WORD);
    r->g = attention_take(t, back, a->queries * up(width), WORD);
    r->g_turned = attention_take(t, back, a->queries * width, WORD);
    r->g_other = attention_take(t, back, words(a, a->queries) * width_row, WORD);
    r->out = attention_take(t, back, a->queries * up(width), WORD);
    r->result = attention_take(t, true, a->queries * (back ? size_row : width_row), sizeof(float));
    r->sum_k = attention_take(t, back, keys * size_row, sizeof(float));
    r->sum_v = attention_take(t, back, keys * width_row, sizeof(float));
    r->lines[0] = attention_take(t, pairs, most * 2 * up(MAX(size, width)), sizeof(float));
    for (int i = 0; i < 1 + back; i++) r->tile[i] = attention_take(t, pairs, a->keys * a->queries, sizeof(uint16_t));
}

/* ---- operands ---- */

/* Returns n rows of x, from row `from` on, as words: in place if possible, else packed into the buffer `room` and
 * padded with zeros. */
static struct small_operand
small_load_rows(const struct worker *w, const struct tile_matrix *x, int64_t from, int64_t n, void *room)
{
    const struct attention *a = w->a;
    int64_t each = per_word(a), pitch = up(words(a, x->size)), most = MAX(a->keys, a->queries);
    bool words_there = x->row % each == 0 && x->size % each == 0 && (uintptr_t)x->data % sizeof(uint32_t) == 0;
    if (x->dtype == a->dtype && x->col == 1 && words_there)
        return (struct small_operand){x->data + from * x->row * (int64_t)dtype_bytes(x->dtype), x->row / each, 1};
    if (!a->pairs) matrix_load(x, from, n, room, pitch);
    for (int64_t i = 0; i < n && a->pairs; i += most) {
        int64_t lines = MIN(most, n - i);
        matrix_load(x, from + i, lines, w->r.lines[0], 2 * pitch);
        block_store(COMP_F32, DT_BF16, w->r.lines[0], lines * 2 * pitch, (uint32_t *)room + i * pitch, 1);
    }
    return (struct small_operand){room, pitch, 1};
}

/* Returns n rows of `size` elements of x as the second operand of a product: x itself if its layout suits, else a
 * copy in the buffer `room`. packed: small_load_rows() has already packed x. */
static struct small_operand
other_of(const struct worker *w, struct small_operand x, int64_t n, int64_t size, bool packed, void *room)
{
    const struct attention *a = w->a;
    int64_t pitch = up(size);
    if (!a->pairs && x.row == pitch && (packed || size == pitch)) return x;
    if (a->pairs)
        a->pairs->join(n, size, x.data, 2 * x.row, room, pitch);
    else
        matrix_load(&(struct tile_matrix){(char *)x.data, DT_F32, x.row, 1, size}, 0, n, room, pitch);
    return (struct small_operand){room, pitch, 1};
}

/* Transposes the block's rows of n words, so that each query is a column. Columns without a query are undefined,
 * except that the second half of the last bf16 pair is zero. */
static void
transpose_operand(const struct worker *w, struct small_operand x, int64_t n, float *room)
{
    int64_t queries = w->a->queries;
    transpose16_matrix(w->nquery, n, x.data, x.row, room, queries, 1);
    for (int64_t i = 0; i < n && w->nquery % per_word(w->a); i++) room[i * queries + w->nquery] = 0;
}

/* Returns where products accumulate rows of x, starting at row `from`: x itself if its layout suits, else the buffer
 * `room`. */
static struct sums
small_row_sums(const struct tile_matrix *x, int64_t from, float *room)
{
    bool there = x->dtype == DT_F32 && x->col == 1 && x->size % COLS == 0;
    return there ? (struct sums){(float *)x->data + from * x->row, x->row, true}
                 : (struct sums){room, up(x->size), false};
}

/* Clears dk and dv of the keys in all tiles that hold no partial sum yet. */
static void
clear_sums(struct worker *w)
{
    const struct attention *a = w->a;
    for (int64_t key = w->begun * a->keys; key < a->nkey; key++) {
        memset(w->sum_k.data + key * w->sum_k.row, 0, (size_t)a->size * sizeof(float));
        memset(w->sum_v.data + key * w->sum_v.row, 0, (size_t)a->width * sizeof(float));
    }
    w->begun = a->ntile;
}

static void
small_head(struct worker *w)
{
    const struct attention *a = w->a;
    const struct view *in = w->job->k->in, *out = w->job->k->out;
    struct tile_matrix k = matrix_of(w, &in[ATT_K]), v = matrix_of(w, &in[ATT_V]);
    w->k = small_load_rows(w, &k, 0, a->nkey, w->r.k);
    w->v = small_load_rows(w, &v, 0, a->nkey, w->r.v);
    if (!a->backward) {
        w->v_other = other_of(w, w->v, a->nkey, a->width, w->v.data == w->r.v, w->r.v_other);
        return;
    }
    w->k_other = other_of(w, w->k, a->nkey, a->size, w->k.data == w->r.k, w->r.k_other);
    struct tile_matrix dk = matrix_of(w, &out[1]), dv = matrix_of(w, &out[2]);
    w->sum_k = small_row_sums(&dk, 0, w->r.sum_k);
    w->sum_v = small_row_sums(&dv, 0, w->r.sum_v);
    if (a->ranged) clear_sums(w); /* with a window or spans, blocks may see tiles in any order */
}

static void
small_block(struct worker *w)
{
    const struct attention *a = w->a;
    struct tile_matrix q = matrix_of(w, &w->job->k->in[ATT_Q]), result = matrix_of(w, &w->job->k->out[0]);
    w->q = small_load_rows(w, &q, w->from, w->nquery, w->r.q);
    transpose_operand(w, w->q, words(a, a->size), w->r.q_turned);
    w->result = small_row_sums(&result, w->from, w->r.result);
    if (a->backward) w->q_other = other_of(w, w->q, w->nquery, a->size, w->q.data == w->r.q, w->r.q_other);
}

static void
small_slopes(struct worker *w)
{
    const struct attention *a = w->a;
    struct tile_matrix g = matrix_of(w, &w->job->k->in[ATT_OUT_GRAD]);
    w->g = small_load_rows(w, &g, w->from, w->nquery, w->r.g);
    transpose_operand(w, w->g, words(a, a->width), w->r.g_turned);
    w->g_other = other_of(w, w->g, w->nquery, a->width, w->g.data == w->r.g, w->r.g_other);
}

static void
small_means(struct worker *w, float *mean)
{
    const struct attention *a = w->a;
    struct tile_matrix x = matrix_of(w, &w->job->k->in[ATT_OUT]);
    struct small_operand out = small_load_rows(w, &x, w->from, w->nquery, w->r.out);
    if (a->pairs)
        a->pairs->dots(w->nquery, words(a, a->width), w->g.data, w->g.row, out.data, out.row, mean);
    else
        for (int64_t c = 0; c < w->nquery; c++)
            mean[c] = vec_dot(a->width, small_operand_at(w->g, c, 0).data, small_operand_at(out, c, 0).data);
}

/* ---- products ---- */

static int64_t
small_rows(const struct worker *w, int64_t tile)
{
    return words(w->a, keys_in(w, tile)) * per_word(w->a);
}

/* Returns the number of rows that one product computes (a band). If a causal mask hides the tile's last key from
 * some query, this is COLS, so that bands without visible scores can be skipped. Otherwise all n rows are one
 * band. */
static int64_t
band_of(const struct worker *w, int64_t tile, int64_t n)
{
    return blind(w, tile, keys_in(w, tile) - 1) ? COLS : n;
}

/* Returns the number of leading query columns that can be skipped in the band of keys that starts at `key`. */
static int64_t
skip_of(const struct worker *w, int64_t tile, int64_t key)
{
    return blind(w, tile, key) / COLS * COLS;
}

/* Computes the product s = x b. x: rows of k words, which are the tile's keys or values; b: one column per query.
 * Scores that the mask hides are undefined. */
static void
small_by_columns(const struct worker *w, int64_t tile, struct small_operand x, int64_t k, const float *b, float *s)
{
    int64_t queries = w->a->queries, n = keys_in(w, tile), band = band_of(w, tile, n);
    x = small_operand_at(x, tile * w->a->keys, 0);
    for (int64_t i = 0; i < n; i += band) {
        int64_t skip = skip_of(w, tile, i);
        w->a->multiply(MIN(band, n - i), queries - skip, k, small_operand_at(x, i, 0), b + skip, queries, false,
                       s + i * queries + skip, queries);
    }
}

/* Adds the product s b to c, which has one row per key. s: a tile's scores, one row per key; b: the block's rows, of
 * `size` columns. */
static void
to_keys(const struct worker *w, int64_t tile, struct small_operand s, struct small_operand b, int64_t size,
        struct sums c)
{
    const struct attention *a = w->a;
    int64_t n = keys_in(w, tile), band = band_of(w, tile, n);
    for (int64_t i = 0; i < n; i += band) {
        int64_t skip = MIN(skip_of(w, tile, i), w->nquery), from = skip / per_word(a);
        a->multiply(MIN(band, n - i), up(size), words(a, w->nquery - skip), small_operand_at(s, i, from),
                    small_operand_at(b, from, 0).data, b.row, tile < w->begun, c.data + (tile * a->keys + i) * c.row,
                    c.row);
    }
}

/* Adds the product s' b to c; the first tile sets c instead. s: a tile's scores, one column per query; b: the tile's
 * rows of keys or values. */
static void
to_queries(const struct worker *w, int64_t tile, struct small_operand s, struct small_operand b, int64_t size)
{
    const struct attention *a = w->a;
    const struct sums *c = &w->result;
    int64_t n = keys_in(w, tile), most = w->nquery, band = band_of(w, tile, most);
    /* A band is the queries of one product. The last query of the band that starts at i sees seen + i + band keys
     * of the tile. */
    int64_t seen = band == most ? n : w->first - tile * a->keys;
    b = small_operand_at(b, tile * a->keys / per_word(a), 0);
    for (int64_t i = 0; i < most; i += band)
        a->multiply(MIN(band, most - i), up(size), words(a, MIN(band == most ? n : MAX(seen + i + band, 0), n)),
                    small_operand_at(s, i, 0), b.data, b.row, tile > w->begin, c->data + i * c->row, c->row);
}

static void
small_scores(const struct worker *w, int64_t i, float *s)
{
    small_by_columns(w, i, w->k, words(w->a, w->a->size), w->r.q_turned, s);
}

/* Computes the exponentials of a tile's scores. In the forward pass of bf16 the exponentials are also rounded to
 * bf16 columns. */
static void
small_exps(const struct worker *w, int64_t i, float scale, float *s, float *sum)
{
    const struct attention *a = w->a;
    if (a->pairs)
        a->pairs->exps(small_rows(w, i), a->queries, scale, s, w->max, a->backward ? NULL : w->r.tile[0], sum);
    else
        cols_exp(small_rows(w, i), a->queries, scale, s, w->max, sum);
}

static void
small_score_grads(const struct worker *w, int64_t i, float *t)
{
    small_by_columns(w, i, w->v, words(w->a, w->a->width), w->r.g_turned, t);
}

/* Return a tile's scores as the first operand of a product: transposed, with one row per query (small_columns()), or
 * as stored, with one row per key (small_lines()). */
static struct small_operand
small_columns(const struct worker *w, const float *s)
{
    return (struct small_operand){w->a->pairs ? w->r.tile[0] : s, 1, w->a->queries};
}

static struct small_operand
small_lines(const struct worker *w, const float *s)
{
    return (struct small_operand){w->a->pairs ? w->r.tile[1] : s, w->a->queries / per_word(w->a), 1};
}

static void
small_to_result(const struct worker *w, int64_t i, const float *p)
{
    to_queries(w, i, small_columns(w, p), w->v_other, w->a->width);
}

static void
small_to_values(const struct worker *w, int64_t i, float *p)
{
    const struct attention *a = w->a;
    if (a->pairs)
        a->pairs->times(small_rows(w, i), a->queries, p, w->inverse, w->r.tile[1]);
    else
        cols_times(small_rows(w, i), a->queries, p, w->inverse);
    to_keys(w, i, small_lines(w, p), w->g_other, a->width, w->sum_v);
}

static void
small_to_operands(const struct worker *w, int64_t i, const float *p, const float *mean, float *t)
{
    const struct attention *a = w->a;
    float factor[QUERIES];
    for (int64_t c = 0; c < a->queries && a->pairs; c++) factor[c] = a->scale * w->inverse[c];
    if (a->pairs)
        a->pairs->grads(small_rows(w, i), a->queries, factor, p, mean, t, w->r.tile[1], w->r.tile[0]);
    else
        cols_softmax_grad(small_rows(w, i), a->queries, a->scale, p, mean, t);
    to_keys(w, i, small_lines(w, t), w->q_other, a->size, w->sum_k);
    to_queries(w, i, small_columns(w, t), w->k_other, a->size);
}

/* ---- results ---- */

static void
give_rows(const struct worker *w, const struct sums *x, const struct tile_matrix *to, int64_t from, int64_t n,
          const float *factor)
{
    if (x->there) {
        if (factor) lines_load(n, to->size, x->data, x->row, factor, x->data, x->row);
    } else if (w->a->pairs && to->dtype == DT_BF16 && to->col == 1)
        w->a->pairs->store(n, to->size, x->data, x->row, factor, (uint16_t *)to->data + from * to->row, to->row);
    else
        matrix_store(x->data, x->row, to, from, n, factor);
}

static void
small_store_result(struct worker *w, const float *factor)
{
    struct tile_matrix to = matrix_of(w, &w->job->k->out[0]);
    give_rows(w, &w->result, &to, w->from, w->nquery, factor);
}

static void
small_store_sums(struct worker *w)
{
    const struct sums *sum[] = {&w->sum_k, &w->sum_v};
    clear_sums(w);
    for (int i = 0; i < 2; i++) {
        struct tile_matrix to = matrix_of(w, &w->job->k->out[1 + i]);
        give_rows(w, sum[i], &to, 0, w->a->nkey, NULL);
    }
}

const struct tiles attention_small = {small_make,      small_drop,        small_lay_out,      small_rows,
                                      small_head,      small_block,       small_slopes,       small_means,
                                      small_scores,    small_exps,        small_to_result,    small_score_grads,
                                      small_to_values, small_to_operands, small_store_result, small_store_sums};
