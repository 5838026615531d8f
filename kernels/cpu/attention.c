/* attention.c - attention a block of queries at a time: their scores stay in the cache.
 *
 * Scores are turned, so that each loop of the softmax runs down columns, a column a query. Of a block of queries and a
 * tile of keys:
 *
 *     s = k q'                 keys x queries, scaled: of floats q is, else s, since q would be rounded once more
 *     p = exp(s - max)         not divided by their sum l
 *     out += p' v              divided by l at the end
 *
 *     g = dout / l,  t = v g',  d = row sums of g out
 *     dv += p g
 *     e = p (t - d),  dk += e q,  dq += e' k    scaled at the end, dk of floats by its q
 *
 * Tiles beyond the last key that the block sees are left out, and of a tile that it sees in part, bands of keys or
 * queries leave out what none of them meets. A block's scores are all there before the first is used: 64 x 1024 of
 * them are 256 KiB.
 *
 * Products of f32 are gemm_small.h's, and read keys, or values, where they lie. Those of bf16 are oneDNN's, where it
 * has them (else they are products of f32), of dense rows: v', p and k' are operands, out' and dq' results, all made up
 * with zeros to whole blocks and tiles, so that one primitive does for each product. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/attention.h"

#include "kernels/cpu/convert.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/gemm_small.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/team.h"
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/simd.h"
#include "runtime/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = ATT_TILE, KEYS = 128 }; /* of a block; of a tile of keys that all are seen, at most */
enum { SCORES, RESULT, SLOPES, TO_V, TO_K, TO_Q, NPRODUCT };

struct attention {
    bool backward, causal;
    enum dtype dtype;         /* of the products' operands */
    bool small;               /* that is f32: products are gemm_small's */
    float scale, early, late; /* of scores; early by the packed q, late by what comes of it: one of them is 1 */
    int64_t nhead, nquery, nkey, size, width; /* size of a query and key, width of a value */
    int64_t size_row, width_row;              /* elements from a packed row to the next: whole SMALL_COLS */
    int64_t queries, keys, nblock, ntile;
    int nworker;
    void *(*product)[NPRODUCT]; /* struct prim; a worker's own: [nworker]; NULL with small */
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

static_assert((int)COLS == (int)SMALL_COLS, "columns of scores are those of a product");

static int64_t
up(int64_t n)
{
    return (n + COLS - 1) / COLS * COLS;
}

/* n in as few pieces as there must be, all of one length, which is a multiple of COLS. */
static int64_t
even(int64_t n, int64_t most, int64_t *pieces)
{
    *pieces = (n + most - 1) / most;
    return up((n + *pieces - 1) / *pieces);
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
        const struct dense_product of = {
            .dtype = a->dtype, .m = product[i].m, .n = product[i].n, .k = product[i].k, .add = product[i].add};
        TRY(gemm_dense(&of, &p[i], &bytes));
        a->product_scratch = MAX(a->product_scratch, bytes);
    }
    return 0;
}

/* What a worker works in. */
struct workspace {
    void *k, *k_turned, *v, *v_turned;         /* of a head, tile by tile */
    void *q, *q_turned, *g, *g_turned;         /* of a block */
    void *tile;                                /* a tile of scores as operand of oneDNN's */
    float *score, *score_grad, *sum_k, *sum_v; /* tile by tile */
    float *result;                             /* the block's, or dq; turned where products are oneDNN's */
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
    int64_t keys = a->ntile * a->keys, size = a->size_row, width = a->width_row;
    int64_t lines = MAX(a->queries, a->keys) * MAX(size, width);
    size_t bytes = dtype_bytes(a->dtype);
    bool back = a->backward, dense = !a->small;
    *r = (struct workspace){
        .k = take(&t, true, keys * size, bytes),
        .k_turned = take(&t, back && dense, keys * size, bytes),
        .v = take(&t, back || a->small, keys * width, bytes),
        .v_turned = take(&t, !back && dense, keys * width, bytes),
        .q = take(&t, back, a->queries * size, bytes),
        .q_turned = take(&t, true, a->queries * size, bytes),
        .g = take(&t, back, a->queries * width, bytes),
        .g_turned = take(&t, back, a->queries * width, bytes),
        .tile = take(&t, dense, a->keys * a->queries, bytes),
        .score = take(&t, true, keys * a->queries, sizeof(float)),
        .score_grad = take(&t, back, keys * a->queries, sizeof(float)),
        .sum_k = take(&t, back, keys * size, sizeof(float)),
        .sum_v = take(&t, back, keys * width, sizeof(float)),
        .result = take(&t, true, a->queries * MAX(size, width), sizeof(float)),
        .lines = {take(&t, true, lines, sizeof(float)), take(&t, dense, lines, sizeof(float))},
        .product = take(&t, dense, (int64_t)a->product_scratch, 1),
    };
    return t.bytes;
}

void
attention_drop(void *state)
{
    struct attention *a = state;
    for (int w = 0; w < a->nworker && a->product; w++)
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
    a->small = k->in[ATT_Q].dtype != DT_BF16 || !prim_multiplies(DT_BF16);
    a->dtype = a->small ? DT_F32 : DT_BF16;
    a->scale = (float)k->call->attr[ATT_SCALE].f;
    a->early = a->small ? a->scale : 1;
    a->late = a->small ? 1 : a->scale;
    a->nquery = s.dim[last - 1], a->nkey = s.dim[last];
    a->size = k->in[ATT_Q].dim[last], a->width = k->in[ATT_V].dim[last];
    a->size_row = a->small ? up(a->size) : a->size;
    a->width_row = a->small ? up(a->width) : a->width;
    a->queries = even(a->nquery, QUERIES, &a->nblock);
    a->keys = even(a->nkey, a->causal ? QUERIES : KEYS, &a->ntile);
    for (int d = 0; d < last - 1; d++) a->nhead *= s.dim[d];
    a->nworker = (int)MIN((int64_t)MAX(k->threads, 1), backward ? a->nhead : a->nhead * a->nblock);
    if (!a->small) a->product = must_alloc(sizeof *a->product * (size_t)a->nworker);
    for (int w = 0; w < a->nworker && a->product; w++) {
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
    struct small_operand k, v;            /* of the head, a row a key; with small */
    int64_t head, from, nquery;           /* queries from.. of the head, how many there are */
    int64_t first, ntile;                 /* where the first one stands in the whole; tiles that the block sees */
    bool nan;                             /* a query's weights are NaN, of hidden keys too */
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

/* Rows of n floats, each times its factor (NULL: one). */
VECTOR static void
load_lines(int64_t lines, int64_t n, const float *x, int64_t row, const float *factor, float *to, int64_t pitch)
{
    for (int64_t i = 0; i < lines; i++, x += row, to += pitch) {
        float f = factor ? factor[i] : 1;
        for (int64_t j = 0; j < n; j++) to[j] = f * x[j];
    }
}

static bool
lies_by_rows(const struct matrix *x)
{
    return x->dtype == DT_F32 && x->col == 1;
}

/* Rows from .. from + n of x, each times its factor (NULL: one), `pitch` elements apart. */
static void
load_rows(const struct matrix *x, int64_t from, int64_t n, const float *factor, float *to, int64_t pitch)
{
    if (lies_by_rows(x)) {
        load_lines(n, x->size, (const float *)x->data + from * x->row, x->row, factor, to, pitch);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += pitch) {
        struct row r = row_in(x, from + i);
        block_load(COMP_F32, r.dtype, r.data, r.stride, r.n, to);
        if (factor) vec_affine(r.n, factor[i], to, 0, to);
    }
}

/* Rows from .. from + n of x, each times its factor (NULL: one), as `lines` rows, `pitch` elements apart, and as
 * columns; NULL: not wanted. What is missing of rows is zero. */
static void
pack(const struct worker *w, const struct matrix *x, int64_t from, int64_t n, int64_t lines, int64_t pitch,
     const float *factor, void *rows, void *turned)
{
    enum dtype d = w->a->dtype;
    bool plain = d == DT_F32;
    float *to = plain && rows ? rows : w->r.lines[0], *turn = plain ? turned : w->r.lines[1];
    load_rows(x, from, n, factor, to, pitch);
    for (int64_t i = 0; i < n && pitch > x->size; i++)
        memset(to + i * pitch + x->size, 0, (size_t)(pitch - x->size) * sizeof *to);
    memset(to + n * pitch, 0, (size_t)((lines - n) * pitch) * sizeof *to);
    if (turned) cols_turn(lines, x->size, to, pitch, turn, lines);
    if (plain) return;
    if (rows) block_store(COMP_F32, d, to, lines * pitch, rows, 1);
    if (turned) block_store(COMP_F32, d, turn, lines * x->size, turned, 1);
}

/* n rows of a result from `from` on, `pitch` floats apart, each times its factor (NULL: one); x may be changed. */
static void
unpack(float *x, int64_t pitch, const struct matrix *to, int64_t from, int64_t n, const float *factor)
{
    if (lies_by_rows(to)) {
        load_lines(n, to->size, x, pitch, factor, (float *)to->data + from * to->row, to->row);
        return;
    }
    for (int64_t i = 0; i < n; i++, x += pitch) {
        struct row r = row_in(to, from + i);
        if (factor) vec_affine(r.n, factor[i], x, 0, x);
        row_store(&r, 0, r.n, x);
    }
}

/* The block's. */
static void
unpack_result(const struct worker *w, const struct matrix *to, int64_t pitch, const float *factor)
{
    float *x = w->r.result;
    if (!w->a->small) {
        cols_turn(to->size, w->a->queries, x, w->a->queries, w->r.lines[0], to->size);
        x = w->r.lines[0];
    }
    unpack(x, pitch, to, w->from, w->nquery, factor);
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

/* A tile of scores as the operand of oneDNN's product. */
static const void *
tile_operand(const struct worker *w, const float *x)
{
    block_store(COMP_F32, w->a->dtype, x, w->a->keys * w->a->queries, w->r.tile, 1);
    return w->r.tile;
}

static int64_t
keys_in(const struct worker *w, int64_t tile)
{
    return MIN(w->a->keys, w->a->nkey - tile * w->a->keys);
}

/* The keys, or values, of a head: where they lie, if that does, else packed; packed: also by whole tiles. */
static struct small_operand
rows_of(const struct worker *w, const struct matrix *x, bool packed, float *to, int64_t pitch)
{
    const struct attention *a = w->a;
    if (!packed && lies_by_rows(x)) return (struct small_operand){(const float *)x->data, x->row, 1};
    pack(w, x, 0, a->nkey, a->ntile * a->keys, pitch, NULL, to, NULL);
    return (struct small_operand){to, pitch, 1};
}

/* What is read row by row more than once is packed. */
static void
pack_head(struct worker *w)
{
    const struct attention *a = w->a;
    struct matrix k = matrix_of(w, &w->job->k->in[ATT_K]), v = matrix_of(w, &w->job->k->in[ATT_V]);
    if (a->small) {
        w->k = rows_of(w, &k, a->backward, w->r.k, a->size_row);
        w->v = rows_of(w, &v, !a->backward, w->r.v, a->width_row);
        return;
    }
    for (int64_t i = 0; i < a->ntile; i++) {
        int64_t from = i * a->keys, n = keys_in(w, i);
        char *kt = a->backward ? tile_packed(w, w->r.k_turned, a->size, i) : NULL;
        char *vr = a->backward ? tile_packed(w, w->r.v, a->width, i) : NULL;
        char *vt = a->backward ? NULL : tile_packed(w, w->r.v_turned, a->width, i);
        pack(w, &k, from, n, a->keys, a->size, NULL, tile_packed(w, w->r.k, a->size, i), kt);
        pack(w, &v, from, n, a->keys, a->width, NULL, vr, vt);
    }
}

static void
block_start(struct worker *w, int64_t block)
{
    const struct attention *a = w->a;
    float scale[QUERIES];
    w->nan = false;
    w->from = block * a->queries;
    w->nquery = MIN(a->queries, a->nquery - w->from);
    w->first = w->job->scores.offset[w->job->scores.ndim - 2] + w->from;
    int64_t seen = a->causal ? MIN(a->nkey, w->first + w->nquery) : a->nkey;
    w->ntile = (seen + a->keys - 1) / a->keys;
    for (int64_t i = 0; i < a->queries; i++) scale[i] = a->early;
    struct matrix q = matrix_of(w, &w->job->k->in[ATT_Q]);
    pack(w, &q, w->from, w->nquery, a->queries, a->size_row, scale, w->r.q, w->r.q_turned);
}

/* ---- products of scores ---- */

/* How many of the block's queries do not see this key of a tile for causality: the first ones. */
static int64_t
blind(const struct worker *w, int64_t tile, int64_t key)
{
    return w->a->causal ? MIN(MAX(tile * w->a->keys + key - w->first, 0), w->a->queries) : 0;
}

/* Some query does not see the last key of the tile: then products go in bands of COLS rows. */
static int64_t
band_of(const struct worker *w, int64_t tile, int64_t rows)
{
    return !w->nan && blind(w, tile, w->a->keys - 1) ? COLS : rows;
}

/* The columns, of queries, that a product of the band from `key` on leaves out. */
static int64_t
skip_of(const struct worker *w, int64_t tile, int64_t key)
{
    return w->nan ? 0 : blind(w, tile, key) / COLS * COLS;
}

/* This value where a query does not see a key of the tile for causality, and at keys that are not there. */
static void
hide(const struct worker *w, int64_t tile, float *s, float value)
{
    const struct attention *a = w->a;
    int64_t n = keys_in(w, tile);
    if (n == a->keys && !blind(w, tile, a->keys - 1)) return;
    for (int64_t i = 0; i < a->keys; i++) {
        int64_t hidden = i < n ? blind(w, tile, i) : a->queries;
        for (int64_t c = 0; c < hidden; c++) s[i * a->queries + c] = value;
    }
}

/* s = x b of a tile's rows x, keys or values of k elements, and queries b as columns; what is hidden is anything. */
static void
by_columns(const struct worker *w, int64_t tile, struct small_operand x, int64_t k, const float *b, float *s)
{
    int64_t queries = w->a->queries, n = keys_in(w, tile), band = band_of(w, tile, n);
    x.data += tile * w->a->keys * x.row;
    for (int64_t i = 0; i < n; i += band) {
        int64_t skip = skip_of(w, tile, i);
        struct small_operand rows = {x.data + i * x.row, x.row, x.col};
        gemm_small(MIN(band, n - i), queries - skip, k, rows, b + skip, queries, false, s + i * queries + skip,
                   queries);
    }
}

/* c += s b of a tile of scores s and the block's rows b, a row of c a key. */
static void
to_keys(const struct worker *w, int64_t tile, const float *s, const float *b, int64_t pitch, float *c)
{
    int64_t queries = w->a->queries, n = keys_in(w, tile), band = band_of(w, tile, n);
    c += tile * w->a->keys * pitch;
    for (int64_t i = 0; i < n; i += band) {
        int64_t skip = skip_of(w, tile, i);
        gemm_small(MIN(band, n - i), pitch, queries - skip, (struct small_operand){s + i * queries + skip, queries, 1},
                   b + skip * pitch, pitch, true, c + i * pitch, pitch);
    }
}

/* c = s' b, of the first tile, or c += of a tile of scores s and its rows b, keys or values; a row of c a query. */
static void
to_queries(const struct worker *w, int64_t tile, const float *s, struct small_operand b, int64_t pitch, float *c)
{
    int64_t queries = w->a->queries, n = keys_in(w, tile), band = band_of(w, tile, queries);
    int64_t seen = band == queries ? n : w->first - tile * w->a->keys; /* with the band's last query */
    for (int64_t i = 0; i < queries; i += band)
        gemm_small(band, pitch, MIN(band == queries ? n : MAX(seen + i + band, 0), n),
                   (struct small_operand){s + i, 1, queries}, b.data + tile * w->a->keys * b.row, b.row, tile > 0,
                   c + i * pitch, pitch);
}

/* ---- scores and their exponentials ---- */

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
scores(const struct worker *w, int64_t tile, float *s)
{
    const struct attention *a = w->a;
    if (a->small) {
        by_columns(w, tile, w->k, a->size, w->r.q_turned, s);
        return;
    }
    product(w, SCORES, tile_packed(w, w->r.k, a->size, tile), w->r.q_turned, s);
    vec_affine(a->keys * a->queries, a->late, s, 0, s);
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
        scores(w, i, s);
        if (w->job->k->in[ATT_MASK].dtype != DT_NONE) add_mask(w, i);
        hide(w, i, s, -INFINITY);
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
    if (!a->small) memset(w->r.result, 0, sizeof(float) * (size_t)(a->width * a->queries));
    for (int64_t i = 0; i < w->ntile; i++) {
        const float *p = tile_scores(w, w->r.score, i);
        if (a->small)
            to_queries(w, i, p, w->v, a->width_row, w->r.result);
        else
            product(w, RESULT, tile_packed(w, w->r.v_turned, a->width, i), tile_operand(w, p), w->r.result);
    }
    unpack_result(w, &out, a->width_row, w->inverse);
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
    if (!w->a->causal || !any_nan(w)) return;
    w->ntile = w->a->ntile;
    w->nan = true;
    exponentials(w);
}

/* d of each query, of g as it is multiplied: rounded where products are oneDNN's. */
static void
means(const struct worker *w, const struct matrix *out, float *mean)
{
    const struct attention *a = w->a;
    float *x = w->r.result, *y = w->r.lines[0];
    load_rows(out, w->from, w->nquery, NULL, y, a->width);
    for (int64_t c = 0; c < w->nquery; c++) {
        const char *g = (const char *)w->r.g + (size_t)(c * a->width_row) * dtype_bytes(a->dtype);
        block_load(COMP_F32, a->dtype, g, 1, a->width, x);
        mean[c] = vec_dot(a->width, x, y + c * a->width);
    }
    for (int64_t c = w->nquery; c < a->queries; c++) mean[c] = 0;
}

/* t = v g' and dv += p g. */
static void
score_grads(const struct worker *w)
{
    const struct attention *a = w->a;
    for (int64_t i = 0; i < w->ntile; i++) {
        float *p = tile_scores(w, w->r.score, i), *t = tile_scores(w, w->r.score_grad, i);
        if (a->small) {
            by_columns(w, i, w->v, a->width, w->r.g_turned, t);
            hide(w, i, t, 0);
            to_keys(w, i, p, w->r.g, a->width_row, w->r.sum_v);
        } else {
            product(w, SLOPES, tile_packed(w, w->r.v, a->width, i), w->r.g_turned, t);
            product(w, TO_V, tile_operand(w, p), w->r.g, tile_at(w, w->r.sum_v, a->width, sizeof(float), i));
        }
    }
}

/* e = p (t - d), dk += e q, dq = e' k */
static void
through_scores(const struct worker *w, const float *mean)
{
    const struct attention *a = w->a;
    if (!a->small) memset(w->r.result, 0, sizeof(float) * (size_t)(a->size * a->queries));
    for (int64_t i = 0; i < w->ntile; i++) {
        float *t = tile_scores(w, w->r.score_grad, i);
        cols_softmax_grad(a->keys, a->queries, tile_scores(w, w->r.score, i), mean, t);
        if (a->small) {
            to_keys(w, i, t, w->r.q, a->size_row, w->r.sum_k);
            to_queries(w, i, t, w->k, a->size_row, w->r.result);
        } else {
            const void *e = tile_operand(w, t);
            product(w, TO_K, e, w->r.q, tile_at(w, w->r.sum_k, a->size, sizeof(float), i));
            product(w, TO_Q, tile_packed(w, w->r.k_turned, a->size, i), e, w->r.result);
        }
    }
}

static void
backward_block(struct worker *w, int64_t block)
{
    const struct view *in = w->job->k->in;
    struct matrix g = matrix_of(w, &in[ATT_OUT_GRAD]), out = matrix_of(w, &in[ATT_OUT]),
                  dq = matrix_of(w, w->job->k->out);
    float mean[QUERIES], scale[QUERIES];
    block_start(w, block);
    exponentials_or_nan(w);
    pack(w, &g, w->from, w->nquery, w->a->queries, w->a->width_row, w->inverse, w->r.g, w->r.g_turned);
    means(w, &out, mean);
    score_grads(w);
    through_scores(w, mean);
    for (int64_t c = 0; c < w->nquery; c++) scale[c] = w->a->scale;
    unpack_result(w, &dq, w->a->size_row, scale);
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
        memset(w->r.sum_k, 0, keys * (size_t)a->size_row);
        memset(w->r.sum_v, 0, keys * (size_t)a->width_row);
        for (int64_t block = 0; block < a->nblock && !stop_now(); block++) backward_block(w, block);
        if (a->late != 1) vec_affine(a->nkey * a->size_row, a->late, w->r.sum_k, 0, w->r.sum_k);
        unpack(w->r.sum_k, a->size_row, &dk, 0, a->nkey, NULL);
        unpack(w->r.sum_v, a->width_row, &dv, 0, a->nkey, NULL);
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
        struct worker w = {.a = a, .job = job, .product = a->product ? a->product[i] : NULL};
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
