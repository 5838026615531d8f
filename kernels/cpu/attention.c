/* attention.c - attention a block of queries at a time: their scores stay in the cache.
 *
 * Everything is turned, so that each product is of dense rows and each loop of the
 * softmax runs down columns, a column a query. Of a block of queries and a tile of keys:
 *
 *     s = k q'                 keys x queries; q is scaled
 *     p = exp(s - max)         not divided by their sum l
 *     out' += v' p             divided by l at the end
 *
 *     g = dout / l,  t = v g',  d = column sums of p t
 *     dv += p g
 *     e = p (t - d / l),  dk += e q,  dq' += k' e
 *
 * Tiles beyond the last key that the block sees are left out. Lengths are made
 * up with zeros to whole blocks and tiles, so that one primitive does for each
 * product. A block's scores are all there before the first is used: 64 x 1024 of
 * them are 256 KiB.
 *
 * One core, f32, 12 heads of 1024 x 64, causal, forward and backward: 33 ms, the
 * seven products 25 of them; with the scores in memory 66. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/attention.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/team.h"
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = ATT_TILE, KEYS = 128 }; /* of a block; of a tile of keys that all are seen, at most */
enum { SCORES, RESULT, SLOPES, TO_V, TO_K, TO_Q, NPRODUCT };

struct attention {
    bool backward, causal;
    enum dtype dtype; /* of the products' operands */
    float scale;
    int64_t nhead, nquery, nkey, size, width; /* size of a query and key, width of a value */
    int64_t queries, keys, nblock, ntile;
    int nworker;
    void *(*product)[NPRODUCT]; /* struct prim; a worker's own: [nworker] */
    size_t product_scratch, room_bytes;
};

/* ---- what a query sees ---- */

struct keys
keys_of(const struct view *scores, const struct view *mask, bool causal, int64_t r)
{
    int last = scores->ndim - 1, shift = scores->ndim - mask->ndim;
    struct keys l = {.dtype = mask->dtype, .seen = scores->dim[last]};
    int64_t at = 0;
    if (causal) l.seen = MIN(l.seen, scores->offset[last - 1] + r % scores->dim[last - 1] + 1);
    if (mask->dtype == DT_NONE) return l;
    for (int d = last - 1; d >= 0; r /= scores->dim[d], d--)
        if (d - shift >= 0 && mask->dim[d - shift] != 1) at += r % scores->dim[d] * mask->stride[d - shift];
    bool repeated = last - shift < 0 || mask->dim[last - shift] == 1;
    l.step = repeated ? 0 : mask->stride[last - shift];
    l.mask = (const char *)mask->data + at * (int64_t)dtype_bytes(mask->dtype);
    return l;
}

double
keys_add(const struct keys *l, int64_t i)
{
    if (i >= l->seen) return -INFINITY;
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

int64_t
attention_head(const struct view *v, const struct view *scores, int64_t r)
{
    int64_t at = 0;
    for (int d = v->ndim - 3; d >= 0; r /= scores->dim[d], d--)
        if (v->dim[d] != 1) at += r % scores->dim[d] * v->stride[d];
    return at;
}

/* ---- making ---- */

bool
attention_accepts(const struct kcall *k)
{
    enum dtype d = k->in[ATT_Q].dtype;
    for (int i = ATT_Q; i <= ATT_V; i++)
        if (k->in[i].dtype != d || view_numel(&k->in[i]) == 0) return false;
    return d == DT_F32 || dtype_is_half(d);
}

/* n in as few pieces as there must be, all of one length, which is a multiple of COLS. */
static int64_t
even(int64_t n, int64_t most, int64_t *pieces)
{
    *pieces = (n + most - 1) / most;
    int64_t each = (n + *pieces - 1) / *pieces;
    return (each + COLS - 1) / COLS * COLS;
}

static int
make_products(struct attention *a, void **p)
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
        TRY(gemm_dense(a->dtype, product[i].m, product[i].n, product[i].k, product[i].add, &p[i], &bytes));
        a->product_scratch = MAX(a->product_scratch, bytes);
    }
    return 0;
}

/* What a worker works in. */
struct workspace {
    void *k, *k_turned, *v, *v_turned;         /* of a head, tile by tile */
    void *q, *q_turned, *g, *g_turned;         /* of a block */
    void *tile;                                /* a tile of scores as operand of a product, where that is not f32 */
    float *score, *score_grad, *sum_k, *sum_v; /* tile by tile */
    float *turned;                             /* the block's result, or dq */
    float *lines[2];                           /* on the way between the matrices in memory and the above */
    void *product;
};

struct taker {
    char *base; /* NULL: only bytes are counted */
    size_t bytes;
};

static void *
take(struct taker *t, bool wanted, int64_t n, size_t bytes)
{
    if (!wanted) return NULL;
    void *at = t->base ? t->base + t->bytes : NULL;
    t->bytes += ((size_t)n * bytes + 63) / 64 * 64;
    return at;
}

static size_t
lay_out(const struct attention *a, char *base, struct workspace *r)
{
    struct taker t = {.base = base};
    int64_t keys = a->ntile * a->keys, size = a->size, width = a->width;
    int64_t lines = MAX(a->queries, a->keys) * MAX(size, width);
    size_t bytes = dtype_bytes(a->dtype);
    bool back = a->backward;
    *r = (struct workspace){
        .k = take(&t, true, keys * size, bytes),
        .k_turned = take(&t, back, keys * size, bytes),
        .v = take(&t, back, keys * width, bytes),
        .v_turned = take(&t, !back, keys * width, bytes),
        .q = take(&t, back, a->queries * size, bytes),
        .q_turned = take(&t, true, a->queries * size, bytes),
        .g = take(&t, back, a->queries * width, bytes),
        .g_turned = take(&t, back, a->queries * width, bytes),
        .tile = take(&t, a->dtype != DT_F32, a->keys * a->queries, bytes),
        .score = take(&t, true, keys * a->queries, sizeof(float)),
        .score_grad = take(&t, back, keys * a->queries, sizeof(float)),
        .sum_k = take(&t, back, keys * size, sizeof(float)),
        .sum_v = take(&t, back, keys * width, sizeof(float)),
        .turned = take(&t, true, a->queries * MAX(size, width), sizeof(float)),
        .lines = {take(&t, true, lines, sizeof(float)), take(&t, a->dtype != DT_F32, lines, sizeof(float))},
        .product = take(&t, true, (int64_t)a->product_scratch, 1),
    };
    return t.bytes;
}

void
attention_drop(void *state)
{
    struct attention *a = state;
    for (int w = 0; w < a->nworker; w++)
        for (int i = 0; i < NPRODUCT; i++) prim_drop(a->product[w][i]);
    free(a->product);
    free(a);
}

static int
make(const struct kcall *k, bool backward, void **state, size_t *scratch_bytes)
{
    struct view s = attention_scores(k);
    int last = s.ndim - 1;
    struct attention *a = must_alloc(sizeof *a);
    struct workspace r;
    *a = (struct attention){.backward = backward, .causal = k->call->attr[ATT_CAUSAL].i, .nhead = 1};
    a->dtype = k->in[ATT_Q].dtype == DT_BF16 ? DT_BF16 : DT_F32;
    a->scale = (float)k->call->attr[ATT_SCALE].f;
    a->nquery = s.dim[last - 1], a->nkey = s.dim[last];
    a->size = k->in[ATT_Q].dim[last], a->width = k->in[ATT_V].dim[last];
    a->queries = even(a->nquery, QUERIES, &a->nblock);
    a->keys = even(a->nkey, a->causal ? QUERIES : KEYS, &a->ntile);
    for (int d = 0; d < last - 1; d++) a->nhead *= s.dim[d];
    a->nworker = (int)MIN((int64_t)MAX(k->threads, 1), backward ? a->nhead : a->nhead * a->nblock);
    a->product = must_alloc(sizeof *a->product * (size_t)a->nworker);
    for (int w = 0; w < a->nworker; w++) {
        int status = make_products(a, a->product[w]);
        if (!status) continue;
        attention_drop(a);
        return status;
    }
    a->room_bytes = lay_out(a, NULL, &r);
    *scratch_bytes = a->room_bytes * (size_t)a->nworker;
    *state = a;
    return 0;
}

int
attention_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return make(k, false, state, scratch_bytes);
}

int
attention_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes)
{
    return make(k, true, state, scratch_bytes);
}

/* ---- a worker ---- */

struct job {
    const struct attention *a;
    const struct kcall *k;
    struct view scores;
    _Atomic bool failed;
};

struct worker {
    const struct attention *a;
    struct job *job;
    void *const *product;
    struct workspace r;
    int64_t head, from, nquery;           /* queries from.. of the head, how many there are */
    int64_t first, ntile;                 /* where the first one stands in the whole; tiles that the block sees */
    float max[QUERIES], inverse[QUERIES]; /* of each column; inverse: 1 / sum of exponentials */
};

/* One head of an operand or result. */
struct matrix {
    char *data;
    enum dtype dtype;
    int64_t row, col, size; /* strides; elements of a row */
};

static struct matrix
matrix_of(const struct worker *w, const struct view *v)
{
    int64_t at = attention_head(v, &w->job->scores, w->head);
    int last = v->ndim - 1;
    return (struct matrix){(char *)v->data + at * (int64_t)dtype_bytes(v->dtype), v->dtype, v->stride[last - 1],
                           v->stride[last], v->dim[last]};
}

static struct row
row_in(const struct matrix *x, int64_t i)
{
    return (struct row){x->data + i * x->row * (int64_t)dtype_bytes(x->dtype), x->dtype, x->col, x->size};
}

/* Rows from .. from + n of x, each times its factor (NULL: one), as `lines` dense rows, and as columns; NULL: not
 * wanted. Rows that are missing are zero. */
static void
pack(const struct worker *w, const struct matrix *x, int64_t from, int64_t n, int64_t lines, const float *factor,
     void *rows, void *turned)
{
    enum dtype d = w->a->dtype;
    bool plain = d == DT_F32;
    float *to = plain && rows ? rows : w->r.lines[0], *turn = plain ? turned : w->r.lines[1];
    for (int64_t i = 0; i < n; i++) {
        struct row r = row_in(x, from + i);
        float *line = to + i * r.n;
        block_load(COMP_F32, r.dtype, r.data, r.stride, r.n, line);
        if (factor) vec_affine(r.n, factor[i], line, 0, line);
    }
    memset(to + n * x->size, 0, (size_t)((lines - n) * x->size) * sizeof *to);
    if (turned) cols_turn(lines, x->size, to, x->size, turn, lines);
    if (plain) return;
    if (rows) block_store(COMP_F32, d, to, lines * x->size, rows, 1);
    if (turned) block_store(COMP_F32, d, turn, lines * x->size, turned, 1);
}

/* n rows of a result from `from` on, each times its factor (NULL: one); x may be changed. */
static void
unpack(float *x, const struct matrix *to, int64_t from, int64_t n, const float *factor)
{
    for (int64_t i = 0; i < n; i++, x += to->size) {
        struct row r = row_in(to, from + i);
        if (factor) vec_affine(r.n, factor[i], x, 0, x);
        row_store(&r, 0, r.n, x);
    }
}

static void
unpack_turned(const struct worker *w, const struct matrix *to, const float *factor)
{
    cols_turn(to->size, w->a->queries, w->r.turned, w->a->queries, w->r.lines[0], to->size);
    unpack(w->r.lines[0], to, w->from, w->nquery, factor);
}

static void
product(const struct worker *w, int which, const void *a, const void *b, void *c)
{
    if (prim_at(w->product[which], (void *[]){(void *)a, (void *)b, c}, w->r.product, "attention"))
        w->job->failed = true;
}

/* Where tile i of something of `size` elements a key begins. */
static void *
tile_at(const struct worker *w, const void *x, int64_t size, size_t bytes, int64_t i)
{
    return (char *)x + (size_t)(i * w->a->keys * size) * bytes;
}

static void *
tile_packed(const struct worker *w, const void *x, int64_t size, int64_t i)
{
    return tile_at(w, x, size, dtype_bytes(w->a->dtype), i);
}

static float *
tile_scores(const struct worker *w, float *x, int64_t i)
{
    return tile_at(w, x, w->a->queries, sizeof *x, i);
}

/* A tile of scores as the operand of a product. */
static const void *
tile_operand(const struct worker *w, const float *x)
{
    if (w->a->dtype == DT_F32) return x;
    block_store(COMP_F32, w->a->dtype, x, w->a->keys * w->a->queries, w->r.tile, 1);
    return w->r.tile;
}

static int64_t
keys_in(const struct worker *w, int64_t tile)
{
    return MIN(w->a->keys, w->a->nkey - tile * w->a->keys);
}

static void
pack_head(const struct worker *w)
{
    const struct attention *a = w->a;
    struct matrix k = matrix_of(w, &w->job->k->in[ATT_K]), v = matrix_of(w, &w->job->k->in[ATT_V]);
    for (int64_t i = 0; i < a->ntile; i++) {
        int64_t from = i * a->keys, n = keys_in(w, i);
        char *kt = a->backward ? tile_packed(w, w->r.k_turned, a->size, i) : NULL;
        char *vr = a->backward ? tile_packed(w, w->r.v, a->width, i) : NULL;
        char *vt = a->backward ? NULL : tile_packed(w, w->r.v_turned, a->width, i);
        pack(w, &k, from, n, a->keys, NULL, tile_packed(w, w->r.k, a->size, i), kt);
        pack(w, &v, from, n, a->keys, NULL, vr, vt);
    }
}

static void
block_start(struct worker *w, int64_t block)
{
    const struct attention *a = w->a;
    float scale[QUERIES];
    w->from = block * a->queries;
    w->nquery = MIN(a->queries, a->nquery - w->from);
    w->first = w->job->scores.offset[w->job->scores.ndim - 2] + w->from;
    int64_t seen = a->causal ? MIN(a->nkey, w->first + w->nquery) : a->nkey;
    w->ntile = (seen + a->keys - 1) / a->keys;
    for (int64_t i = 0; i < a->queries; i++) scale[i] = a->scale;
    struct matrix q = matrix_of(w, &w->job->k->in[ATT_Q]);
    pack(w, &q, w->from, w->nquery, a->queries, scale, w->r.q, w->r.q_turned);
}

/* ---- scores and their exponentials ---- */

/* Minus infinity where a query does not see a key of this tile for causality, and at keys that are not there. */
static void
hide(const struct worker *w, int64_t tile)
{
    const struct attention *a = w->a;
    float *s = tile_scores(w, w->r.score, tile);
    int64_t from = tile * a->keys, unseen = a->causal ? from + a->keys - 1 - w->first : 0;
    if (unseen <= 0 && from + a->keys <= a->nkey) return;
    for (int64_t i = 0; i < a->keys; i++) {
        int64_t n = from + i >= a->nkey ? a->queries : a->causal ? MIN(from + i - w->first, a->queries) : 0;
        for (int64_t c = 0; c < n; c++) s[i * a->queries + c] = -INFINITY;
    }
}

static void
add_mask(const struct worker *w, int64_t tile)
{
    const struct attention *a = w->a;
    float column[KEYS], *s = tile_scores(w, w->r.score, tile);
    int64_t n = keys_in(w, tile);
    for (int64_t c = 0; c < w->nquery; c++) {
        struct keys l = keys_of(&w->job->scores, &w->job->k->in[ATT_MASK], false, w->head * a->nquery + w->from + c);
        for (int64_t i = 0; i < n; i++) column[i] = s[i * a->queries + c];
        keys_add_to(&l, tile * a->keys, n, column);
        for (int64_t i = 0; i < n; i++) s[i * a->queries + c] = column[i];
    }
}

static void
exponentials(struct worker *w)
{
    const struct attention *a = w->a;
    float sum[QUERIES];
    double total[QUERIES] = {0};
    for (int64_t c = 0; c < a->queries; c++) w->max[c] = -INFINITY;
    for (int64_t i = 0; i < w->ntile; i++) {
        float *s = tile_scores(w, w->r.score, i);
        product(w, SCORES, tile_packed(w, w->r.k, a->size, i), w->r.q_turned, s);
        if (w->job->k->in[ATT_MASK].dtype != DT_NONE) add_mask(w, i);
        hide(w, i);
        cols_max(a->keys, a->queries, s, w->max);
    }
    for (int64_t i = 0; i < w->ntile; i++) {
        cols_exp(a->keys, a->queries, tile_scores(w, w->r.score, i), w->max, sum);
        for (int64_t c = 0; c < a->queries; c++) total[c] += sum[c];
    }
    for (int64_t c = 0; c < a->queries; c++) w->inverse[c] = (float)(1 / total[c]);
}

/* ---- forward ---- */

static void
forward_block(struct worker *w, int64_t block)
{
    const struct attention *a = w->a;
    struct matrix out = matrix_of(w, &w->job->k->out[0]);
    block_start(w, block);
    exponentials(w);
    memset(w->r.turned, 0, sizeof(float) * (size_t)(a->width * a->queries));
    for (int64_t i = 0; i < w->ntile; i++)
        product(w, RESULT, tile_packed(w, w->r.v_turned, a->width, i), tile_operand(w, tile_scores(w, w->r.score, i)),
                w->r.turned);
    unpack_turned(w, &out, w->inverse);
}

static void
forward(struct worker *w, int64_t lo, int64_t hi)
{
    for (int64_t u = lo; u < hi && !stop_now(); u++) {
        w->head = u / w->a->nblock;
        if (u == lo || u % w->a->nblock == 0) pack_head(w);
        forward_block(w, u % w->a->nblock);
    }
}

/* ---- backward ---- */

static bool
any_nan(const struct worker *w)
{
    bool any = false;
    for (int64_t c = 0; c < w->nquery; c++) any |= isnan(w->inverse[c]);
    return any;
}

/* The weights of a query that sees nothing are NaN for every key. */
static void
exponentials_or_nan(struct worker *w)
{
    exponentials(w);
    if (w->ntile == w->a->ntile || !any_nan(w)) return;
    w->ntile = w->a->ntile;
    exponentials(w);
}

/* t = v g' and dv += p g; d / l of each query. */
static void
score_grads(const struct worker *w, float *mean)
{
    const struct attention *a = w->a;
    double total[QUERIES] = {0};
    for (int64_t i = 0; i < w->ntile; i++) {
        float sum[QUERIES], *p = tile_scores(w, w->r.score, i), *t = tile_scores(w, w->r.score_grad, i);
        product(w, SLOPES, tile_packed(w, w->r.v, a->width, i), w->r.g_turned, t);
        product(w, TO_V, tile_operand(w, p), w->r.g, tile_at(w, w->r.sum_v, a->width, sizeof(float), i));
        cols_dot(a->keys, a->queries, p, t, sum);
        for (int64_t c = 0; c < a->queries; c++) total[c] += sum[c];
    }
    for (int64_t c = 0; c < a->queries; c++) mean[c] = (float)total[c] * w->inverse[c];
}

/* e = p (t - d / l), dk += e q, dq' = k' e */
static void
through_scores(const struct worker *w, const float *mean)
{
    const struct attention *a = w->a;
    memset(w->r.turned, 0, sizeof(float) * (size_t)(a->size * a->queries));
    for (int64_t i = 0; i < w->ntile; i++) {
        float *t = tile_scores(w, w->r.score_grad, i);
        cols_softmax_grad(a->keys, a->queries, tile_scores(w, w->r.score, i), mean, t);
        const void *e = tile_operand(w, t);
        product(w, TO_K, e, w->r.q, tile_at(w, w->r.sum_k, a->size, sizeof(float), i));
        product(w, TO_Q, tile_packed(w, w->r.k_turned, a->size, i), e, w->r.turned);
    }
}

static void
backward_block(struct worker *w, int64_t block)
{
    struct matrix g = matrix_of(w, &w->job->k->in[ATT_OUT_GRAD]), dq = matrix_of(w, &w->job->k->out[0]);
    float mean[QUERIES], scale[QUERIES];
    block_start(w, block);
    exponentials_or_nan(w);
    pack(w, &g, w->from, w->nquery, w->a->queries, w->inverse, w->r.g, w->r.g_turned);
    score_grads(w, mean);
    through_scores(w, mean);
    for (int64_t c = 0; c < w->nquery; c++) scale[c] = w->a->scale;
    unpack_turned(w, &dq, scale);
}

static void
backward(struct worker *w, int64_t lo, int64_t hi)
{
    const struct attention *a = w->a;
    const struct view *out = w->job->k->out;
    size_t keys = (size_t)(a->ntile * a->keys) * sizeof(float);
    for (w->head = lo; w->head < hi; w->head++) {
        struct matrix dk = matrix_of(w, &out[1]), dv = matrix_of(w, &out[2]);
        pack_head(w);
        memset(w->r.sum_k, 0, keys * (size_t)a->size);
        memset(w->r.sum_v, 0, keys * (size_t)a->width);
        for (int64_t block = 0; block < a->nblock && !stop_now(); block++) backward_block(w, block);
        unpack(w->r.sum_k, &dk, 0, a->nkey, NULL);
        unpack(w->r.sum_v, &dv, 0, a->nkey, NULL);
    }
}

/* ---- all ---- */

static void
part(void *arg, int64_t lo, int64_t hi)
{
    struct job *job = arg;
    const struct attention *a = job->a;
    int64_t n = a->backward ? a->nhead : a->nhead * a->nblock;
    for (int64_t i = lo; i < hi; i++) {
        struct worker w = {.a = a, .job = job, .product = a->product[i]};
        lay_out(a, (char *)job->k->scratch + (size_t)i * a->room_bytes, &w.r);
        (a->backward ? backward : forward)(&w, n * i / a->nworker, n * (i + 1) / a->nworker);
    }
}

int
attention_run(const struct kcall *k, const void *state)
{
    const struct attention *a = state;
    struct job job = {.a = a, .k = k, .scores = attention_scores(k)};
    team_run(a->nworker, a->nworker, 1, part, &job);
    return job.failed ? fail(E_KERNEL, "oneDNN: a product of %s failed", k->call->op->name) : 0;
}
