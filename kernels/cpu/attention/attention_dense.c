/* attention_dense.c - multiplies the tiles of bf16 attention with oneDNN.
 *
 * The operands of the products (v', p and k') and the results (out' and dq') are packed into dense rows. All are
 * padded with zeros to full blocks and tiles, so that one oneDNN primitive per product suffices. */
#include "kernels/cpu/attention/attention_inner.h"
#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/gemm/gemm.h"
#include "runtime/data/arena.h"
#include "kernels/cpu/base/transpose.h"

#include <stdlib.h>
#include <string.h>

/* ---- preparation ---- */

static int
dense_make_products(struct attention *a, void **p)
{
    int64_t q = a->queries, k = a->keys;
    const struct {
        bool wanted, add;
        int64_t m, n, k;
    } product[NPRODUCT] = {
        [SCORES] = {true, false, k, q, a->size},         [RESULT] = {!a->backward, true, a->width, q, k},
        [SLOPES] = {a->backward, false, k, q, a->width}, [TO_V] = {a->backward, true, k, a->width, q},
        [TO_K] = {a->backward, true, k, a->size, q},     [TO_Q] = {a->backward, true, a->size, q, k},
    };
    for (int i = 0; i < NPRODUCT; i++) {
        size_t bytes = 0;
        if (!product[i].wanted) continue;
        const struct dense_product of = {
            .dtype = DT_BF16, .m = product[i].m, .n = product[i].n, .k = product[i].k, .add = product[i].add};
        TRY(gemm_dense(&of, &p[i], &bytes));
        a->product_scratch = MAX(a->product_scratch, bytes);
    }
    return 0;
}

static int
dense_make(struct attention *a)
{
    a->product = must_alloc(sizeof *a->product * (size_t)a->nworker);
    for (int w = 0; w < a->nworker; w++) TRY(dense_make_products(a, a->product[w]));
    return 0;
}

static void
dense_drop(struct attention *a)
{
    for (int w = 0; w < a->nworker && a->product; w++)
        for (int i = 0; i < NPRODUCT; i++) prim_drop(a->product[w][i]);
    free(a->product);
}

static void
dense_lay_out(const struct attention *a, struct taker *t, struct workspace *r)
{
    enum { HALF = sizeof(uint16_t) };
    int64_t keys = a->ntile * a->keys, most = MAX(a->keys, a->queries) * MAX(a->size, a->width);
    bool back = a->backward;
    r->k = attention_take(t, true, keys * a->size, HALF);
    r->k_other = attention_take(t, back, keys * a->size, HALF);
    r->v = attention_take(t, back, keys * a->width, HALF);
    r->v_other = attention_take(t, !back, keys * a->width, HALF);
    r->q = attention_take(t, back, a->queries * a->size, HALF);
    r->q_turned = attention_take(t, true, a->queries * a->size, HALF);
    r->g = attention_take(t, back, a->queries * a->width, HALF);
    r->g_turned = attention_take(t, back, a->queries * a->width, HALF);
    r->tile[0] = attention_take(t, true, a->keys * a->queries, HALF);
    r->sum_k = attention_take(t, back, keys * a->size, sizeof(float));
    r->sum_v = attention_take(t, back, keys * a->width, sizeof(float));
    r->result = attention_take(t, true, a->queries * MAX(a->size, a->width), sizeof(float));
    for (int i = 0; i < 2; i++) r->lines[i] = attention_take(t, true, most, sizeof(float));
    r->product = attention_take(t, true, (int64_t)a->product_scratch, 1);
}

/* ---- operands ---- */

/* Packs n rows of x, starting at row `from`, in two ways. rows: receives `lines` dense rows; turned: receives them
 * transposed; NULL: not needed. Rows after the n-th are filled with zeros. */
static void
dense_pack(const struct worker *w, const struct tile_matrix *x, int64_t from, int64_t n, int64_t lines, void *rows,
           void *turned)
{
    float *to = w->r.lines[0], *turn = w->r.lines[1];
    matrix_load(x, from, n, to, x->size);
    memset(to + n * x->size, 0, (size_t)((lines - n) * x->size) * sizeof *to);
    if (turned) transpose_cols(lines, x->size, to, x->size, turn, lines);
    if (rows) block_store(COMP_F32, DT_BF16, to, lines * x->size, rows, 1);
    if (turned) block_store(COMP_F32, DT_BF16, turn, lines * x->size, turned, 1);
}

/* Returns the address of tile i in an array with `size` elements per key; NULL if the array is NULL. */
static void *
dense_tile(const struct worker *w, void *x, int64_t size, size_t bytes, int64_t i)
{
    return x ? (char *)x + (size_t)(i * w->a->keys * size) * bytes : NULL;
}

static void *
halves_at(const struct worker *w, void *x, int64_t size, int64_t i)
{
    return dense_tile(w, x, size, sizeof(uint16_t), i);
}

static void
dense_head(struct worker *w)
{
    const struct attention *a = w->a;
    const struct view *in = w->job->k->in;
    struct tile_matrix k = matrix_of(w, &in[ATT_K]), v = matrix_of(w, &in[ATT_V]);
    size_t keys = (size_t)(a->ntile * a->keys) * sizeof(float);
    for (int64_t i = 0; i < a->ntile; i++) {
        int64_t from = i * a->keys, n = keys_in(w, i);
        dense_pack(w, &k, from, n, a->keys, halves_at(w, w->r.k, a->size, i), halves_at(w, w->r.k_other, a->size, i));
        dense_pack(w, &v, from, n, a->keys, halves_at(w, w->r.v, a->width, i), halves_at(w, w->r.v_other, a->width, i));
    }
    if (!a->backward) return;
    memset(w->r.sum_k, 0, keys * (size_t)a->size);
    memset(w->r.sum_v, 0, keys * (size_t)a->width);
}

static void
dense_block(struct worker *w)
{
    struct tile_matrix q = matrix_of(w, &w->job->k->in[ATT_Q]);
    dense_pack(w, &q, w->from, w->nquery, w->a->queries, w->r.q, w->r.q_turned);
}

static void
dense_slopes(struct worker *w)
{
    struct tile_matrix g = matrix_of(w, &w->job->k->in[ATT_OUT_GRAD]);
    dense_pack(w, &g, w->from, w->nquery, w->a->queries, w->r.g, w->r.g_turned);
}

static void
dense_means(struct worker *w, float *mean)
{
    const struct view *in = w->job->k->in;
    struct tile_matrix g = matrix_of(w, &in[ATT_OUT_GRAD]), out = matrix_of(w, &in[ATT_OUT]);
    int64_t n = w->a->width;
    matrix_load(&g, w->from, w->nquery, w->r.lines[0], n);
    matrix_load(&out, w->from, w->nquery, w->r.lines[1], n);
    for (int64_t c = 0; c < w->nquery; c++) mean[c] = vec_dot(n, w->r.lines[0] + c * n, w->r.lines[1] + c * n);
}

/* ---- products ---- */

static int64_t
dense_rows(const struct worker *w, int64_t i)
{
    UNUSED(i);
    return w->a->keys;
}

static void
dense_multiply(const struct worker *w, int which, void *a, void *b, float *c)
{
    if (prim_at(w->product[which], (void *[]){a, b, c}, w->r.product, "attention")) w->job->failed = true;
}

/* Converts a tile of scores to the dtype of products, and returns the address of the result. */
static void *
dense_rounded(const struct worker *w, const float *s)
{
    block_store(COMP_F32, DT_BF16, s, w->a->keys * w->a->queries, w->r.tile[0], 1);
    return w->r.tile[0];
}

static void
dense_scores(const struct worker *w, int64_t i, float *s)
{
    dense_multiply(w, SCORES, halves_at(w, w->r.k, w->a->size, i), w->r.q_turned, s);
}

static void
dense_exps(const struct worker *w, int64_t i, float scale, float *s, float *sum)
{
    UNUSED(i);
    cols_exp(w->a->keys, w->a->queries, scale, s, w->max, sum);
}

static void
dense_score_grads(const struct worker *w, int64_t i, float *t)
{
    dense_multiply(w, SLOPES, halves_at(w, w->r.v, w->a->width, i), w->r.g_turned, t);
}

/* Clears the block's result, before the first tile is added. */
static void
begin_result(const struct worker *w, int64_t i, int64_t size)
{
    if (i == w->begin) memset(w->r.result, 0, sizeof(float) * (size_t)(size * w->a->queries));
}

static void
dense_to_result(const struct worker *w, int64_t i, const float *p)
{
    begin_result(w, i, w->a->width);
    dense_multiply(w, RESULT, halves_at(w, w->r.v_other, w->a->width, i), dense_rounded(w, p), w->r.result);
}

static void
dense_to_values(const struct worker *w, int64_t i, float *p)
{
    cols_times(w->a->keys, w->a->queries, p, w->inverse);
    dense_multiply(w, TO_V, dense_rounded(w, p), w->r.g, dense_tile(w, w->r.sum_v, w->a->width, sizeof(float), i));
}

static void
dense_to_operands(const struct worker *w, int64_t i, const float *p, const float *mean, float *t)
{
    int64_t size = w->a->size;
    cols_softmax_grad(w->a->keys, w->a->queries, w->a->scale, p, mean, t);
    void *e = dense_rounded(w, t);
    begin_result(w, i, size);
    dense_multiply(w, TO_K, e, w->r.q, dense_tile(w, w->r.sum_k, size, sizeof(float), i));
    dense_multiply(w, TO_Q, halves_at(w, w->r.k_other, size, i), e, w->r.result);
}

/* ---- results ---- */

static void
dense_store_result(struct worker *w, const float *factor)
{
    struct tile_matrix to = matrix_of(w, &w->job->k->out[0]);
    transpose_cols(to.size, w->a->queries, w->r.result, w->a->queries, w->r.lines[0], to.size);
    matrix_store(w->r.lines[0], to.size, &to, w->from, w->nquery, factor);
}

static void
dense_store_sums(struct worker *w)
{
    struct tile_matrix dk = matrix_of(w, &w->job->k->out[1]), dv = matrix_of(w, &w->job->k->out[2]);
    matrix_store(w->r.sum_k, dk.size, &dk, 0, w->a->nkey, NULL);
    matrix_store(w->r.sum_v, dv.size, &dv, 0, w->a->nkey, NULL);
}

const struct tiles attention_dense = {dense_make,      dense_drop,        dense_lay_out,      dense_rows,
                                      dense_head,      dense_block,       dense_slopes,       dense_means,
                                      dense_scores,    dense_exps,        dense_to_result,    dense_score_grads,
                                      dense_to_values, dense_to_operands, dense_store_result, dense_store_sums};
