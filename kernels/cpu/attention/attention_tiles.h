/* attention_tiles.h - shared by attention.c and the two ways to multiply its tiles: attention_small.c by our own
 * loops, attention_dense.c by oneDNN.
 *
 * A worker iterates over heads, and over the blocks of queries in each head, in memory of its own. Scores are stored
 * tile by tile, a row per key and a column per query of the block. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_TILES_H
#define RILLE_KERNELS_CPU_ATTENTION_TILES_H

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/gemm/gemm_small.h"
#include "kernels/cpu/rows/rows.h"

#include <assert.h>

enum { QUERIES = ATT_TILE, KEYS = 128 }; /* maxima: queries of a block; keys of a tile in which every key is seen */
static_assert((int)COLS == (int)SMALL_COLS, "columns of scores are those of a product");
enum { SCORES, RESULT, SLOPES, TO_V, TO_K, TO_Q, NPRODUCT };

struct attention {
    const struct tiles *by; /* multiplies tiles */
    bool backward, causal;
    enum dtype dtype; /* of the products' operands: f32 or bf16 */
    float scale;
    int64_t nhead, nquery, nkey, size, width; /* size: of a query and a key; width: of a value */
    int64_t queries, keys, nblock, ntile;     /* sizes of a block and a tile; their numbers */
    const struct pairs *pairs;                /* functions for products of bf16 pairs; else NULL */
    int nworker;
    size_t room_bytes;
    small_product *multiply; /* attention_small.c */
    /* attention_dense.c */
    void *(*product)[NPRODUCT]; /* struct prim; one set per worker */
    size_t product_scratch;
};

/* A worker's buffers; NULL: not needed. */
struct workspace {
    float *score, *score_grad;                   /* tile by tile */
    void *k, *v, *q, *g;                         /* dense rows: k, v of a head, tile by tile; q, g of a block */
    void *k_other, *v_other, *q_other, *g_other; /* k, v, q, g as second operands, or transposed */
    void *q_turned, *g_turned, *out;
    float *result, *sum_k, *sum_v; /* the block's result, or dq; dk and dv of a head */
    float *lines[2];               /* f32 buffers between tensors and the above */
    void *tile[2];                 /* scores as operands */
    void *product;
};

/* An allocator for arrays of n elements; base NULL: only counts bytes. */
struct taker {
    char *base;
    size_t bytes;
};
void *take(struct taker *t, bool wanted, int64_t n, size_t bytes);

struct job {
    const struct attention *a;
    const struct kcall *k;
    struct view scores;
    _Atomic bool failed;
};

/* One head of an operand or result. */
struct matrix {
    char *data;
    enum dtype dtype;
    int64_t row, col, size; /* row, col: strides; size: elements of a row */
};

/* Rows that a product adds to: in the result tensor, or in the workspace. */
struct sums {
    float *data;
    int64_t row;
    bool there; /* in the result tensor */
};

struct worker {
    const struct attention *a;
    struct job *job;
    struct workspace r;
    void *const *product;
    int64_t head, from, nquery;           /* queries from..from + nquery of the head */
    int64_t first, ntile;                 /* global position of query `from`; tiles that the block sees */
    int64_t begun;                        /* tiles whose dk and dv hold a partial sum */
    float max[QUERIES], inverse[QUERIES]; /* per column; inverse: 1 / sum of exponentials */
    struct small_operand k, v, q, g, k_other, v_other, q_other, g_other; /* attention_small.c */
    struct sums result, sum_k, sum_v;
};

/* Multiplies tiles and rounds intermediate values; i is a tile that the block sees. */
struct tiles {
    int (*make)(struct attention *a);
    void (*drop)(struct attention *a);
    void (*lay_out)(const struct attention *a, struct taker *t, struct workspace *r);
    int64_t (*rows)(const struct worker *w, int64_t i);          /* rows of tile i that products read */
    void (*head)(struct worker *w);                              /* prepares the keys and values of a head */
    void (*block)(struct worker *w);                             /* prepares the queries of a block */
    void (*slopes)(struct worker *w);                            /* prepares g, the gradients of the queries' results */
    void (*means)(struct worker *w, float *mean);                /* per query: g . result */
    void (*scores)(const struct worker *w, int64_t i, float *s); /* k q' */
    void (*exps)(const struct worker *w, int64_t i, float scale, float *s, float *sum); /* p = exp(scale s - max) */
    void (*to_result)(const struct worker *w, int64_t i, const float *p); /* result += p' v; the first tile: = */
    void (*score_grads)(const struct worker *w, int64_t i, float *t);     /* v g' */
    void (*to_values)(const struct worker *w, int64_t i, float *p);       /* dv += p g; p: already divided by l */
    void (*to_operands)(const struct worker *w, int64_t i, const float *p, const float *mean,
                        float *t);                       /* e of attention.c; dk += e q, result += e' k */
    void (*give)(struct worker *w, const float *factor); /* stores the block's result; factor: per row (NULL: 1) */
    void (*give_sums)(struct worker *w);                 /* stores dk and dv of a head */
};
extern const struct tiles attention_small, attention_dense;

/* ---- attention.c, for both ---- */

struct matrix matrix_of(const struct worker *w, const struct view *v);
/* Loads rows from..from + n of x as floats, `pitch` apart; zeroes the rest of each row. */
void matrix_load(const struct matrix *x, int64_t from, int64_t n, float *to, int64_t pitch);
/* Stores n rows, `pitch` floats apart, each times its factor (NULL: 1), to rows of x starting at `from`; may modify
 * `rows`. */
void matrix_store(float *rows, int64_t pitch, const struct matrix *x, int64_t from, int64_t n, const float *factor);
/* Copies rows of n floats, each times its factor (NULL: 1). */
void lines_load(int64_t lines, int64_t n, const float *x, int64_t row, const float *factor, float *to, int64_t pitch);
int64_t keys_in(const struct worker *w, int64_t tile); /* the number of keys in a tile */
/* Returns the number of the block's queries that causality prevents from seeing this key of a tile; these come
 * first. */
int64_t blind(const struct worker *w, int64_t tile, int64_t key);

/* Rounds up to a multiple of SMALL_COLS. */
static inline int64_t
up(int64_t n)
{
    return (n + COLS - 1) / COLS * COLS;
}

#endif
