/* attention_inner.h - declarations shared by attention.c and the two files that multiply its tiles:
 * attention_small.c with our own loops, attention_dense.c with oneDNN.
 *
 * A worker iterates over heads, and over the blocks of queries in each head, in its own workspace. Scores are stored
 * tile by tile, with one row per key and one column per query of the block. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_ATTENTION_INNER_H
#define RILLE_KERNELS_CPU_ATTENTION_ATTENTION_INNER_H

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/gemm/gemm_small.h"
#include "kernels/cpu/rows/rows.h"

#include <assert.h>

/* QUERIES: maximum number of queries in a block. KEYS: maximum number of keys in a tile if every query sees all
 * keys. */
enum { QUERIES = ATT_TILE, KEYS = 128 };
static_assert((int)COLS == (int)SMALL_COLS, "COLS differs from SMALL_COLS");
enum { SCORES, RESULT, SLOPES, TO_V, TO_K, TO_Q, NPRODUCT };

struct attention {
    const struct tiles *by; /* functions that multiply tiles: attention_small or attention_dense */
    bool backward, causal;
    bool spans, ranged;  /* spans: the call has spans; ranged: it has a window or spans */
    int64_t left, right; /* left: number of visible keys before a query's own position; right: number after it */
    enum dtype dtype;    /* dtype of the products' operands: f32 or bf16 */
    float scale;
    float softcap;                            /* bound of scores; 0: none */
    int64_t nhead, nquery, nkey, size, width; /* size: elements of a query and of a key; width: elements of a value */
    /* queries: maximum number of queries in a block. keys: number of keys in a tile. nblock, ntile: numbers of blocks
     * and of tiles. */
    int64_t queries, keys, nblock, ntile;
    int64_t near;              /* largest number of tiles that one block sees */
    const struct pairs *pairs; /* functions for products of bf16 pairs; NULL: not used */
    int nworker;
    size_t room_bytes;
    small_product *multiply;    /* function with which attention_small.c multiplies tiles */
    void *(*product)[NPRODUCT]; /* oneDNN products of attention_dense.c, one set per worker */
    size_t product_scratch;
};

/* A worker's buffers. NULL: the buffer is not needed. */
struct workspace {
    /* scores of a block, their gradients, and the derivatives of bounded scores, tile by tile */
    float *score, *score_grad, *slope;
    void *k, *v, *q, *g; /* dense rows: k and v of the whole head, tile by tile; q and g of the block */
    void *k_other, *v_other, *q_other, *g_other; /* k, v, q, g as second operands of products */
    void *q_turned, *g_turned, *out;
    /* result: the block's result, or its dq in the backward pass; sum_k, sum_v: dk and dv of the head. */
    float *result, *sum_k, *sum_v;
    float *lines[2]; /* f32 buffers for conversion between tensors and the other buffers */
    void *tile[2];   /* scores, converted to operands of products */
    void *product;
};

/* An allocator of arrays in one block of memory that starts at `base`. base NULL: attention_take() allocates nothing
 * and only counts bytes. */
struct taker {
    char *base;
    size_t bytes;
};
void *attention_take(struct taker *t, bool wanted, int64_t n, size_t bytes);

struct job {
    const struct attention *a;
    const struct kcall *k;
    struct view scores;
    _Atomic bool failed;
};

/* The matrix of one head in an operand or result. */
struct tile_matrix {
    char *data;
    enum dtype dtype;
    int64_t row, col; /* distance between adjacent rows, and between adjacent columns, elements */
    int64_t size;     /* number of elements of a row */
};

/* The rows to which a product is added. */
struct sums {
    float *data;
    int64_t row;
    bool there; /* true: the rows are in the result tensor; false: in the workspace */
};

struct worker {
    const struct attention *a;
    struct job *job;
    struct workspace r;
    void *const *product;
    int64_t head, from, nquery; /* the current block: queries from .. from + nquery - 1 of the head */
    int64_t first;              /* global position of query `from` */
    int64_t begin, ntile;       /* the block sees tiles begin .. ntile - 1 */
    int64_t begun;              /* number of tiles whose dk and dv already hold a partial sum */
    /* Query c of the block sees keys key_first[c] .. key_end[c] - 1; all queries of the block see keys first_most ..
     * end_least - 1. */
    int32_t key_first[QUERIES], key_end[QUERIES];
    int64_t first_most, end_least;
    float sink; /* score of the head's sink; -infinity: none */
    /* max: maximum score of each query. inverse: 1 / l of each query (l: attention.c). */
    float max[QUERIES], inverse[QUERIES];
    /* Operands of products, used by attention_small.c. */
    struct small_operand k, v, q, g, k_other, v_other, q_other, g_other;
    struct sums result, sum_k, sum_v;
};

/* Functions that multiply tiles and round intermediate values. i: index of a tile that the block sees. attention.c
 * defines the letters of the matrices. */
struct tiles {
    int (*make)(struct attention *a);
    void (*drop)(struct attention *a);
    void (*lay_out)(const struct attention *a, struct taker *t, struct workspace *r);
    int64_t (*rows)(const struct worker *w, int64_t i); /* returns the number of rows of tile i that products read */
    void (*head)(struct worker *w);                     /* prepares the keys and values of the worker's head */
    void (*block)(struct worker *w);                    /* prepares the queries of the worker's block */
    void (*slopes)(struct worker *w);                   /* prepares g, the gradients of the block's results */
    void (*means)(struct worker *w, float *mean);       /* computes d, the dot product of g and the result per query */
    void (*scores)(const struct worker *w, int64_t i, float *s); /* computes the scores s = k q' */
    /* Computes the weights p = exp(scale s - max), not yet divided by their sum l. */
    void (*exps)(const struct worker *w, int64_t i, float scale, float *s, float *sum);
    /* Adds p' v to the result; the block's first tile sets the result instead. */
    void (*to_result)(const struct worker *w, int64_t i, const float *p);
    /* computes t = v g', the gradients of the weights */
    void (*score_grads)(const struct worker *w, int64_t i, float *t);
    /* Adds p g to dv, the gradient of the values. p is already divided by l. */
    void (*to_values)(const struct worker *w, int64_t i, float *p);
    void (*to_operands)(const struct worker *w, int64_t i, const float *p, const float *mean,
                        /* computes e, the gradients of the scores; adds e q to dk, and e' k to the result, which
                         * is dq */
                        float *t);
    /* Stores the block's result; multiplies each row by its factor (NULL: 1). */
    void (*give)(struct worker *w, const float *factor);
    void (*give_sums)(struct worker *w); /* stores dk and dv of the head */
};
extern const struct tiles attention_small, attention_dense;

/* ---- functions of attention.c that the files of both kinds of tiles use ---- */

struct tile_matrix matrix_of(const struct worker *w, const struct view *v);
/* Loads n rows of x, from row `from` on, as floats with `pitch` floats per row. Sets the rest of each row to zero. */
void matrix_load(const struct tile_matrix *x, int64_t from, int64_t n, float *to, int64_t pitch);
/* Stores n rows in x, from row `from` on, and multiplies each row by its factor (NULL: 1). pitch: distance between
 * rows, floats. May change the contents of `rows`. */
void matrix_store(float *rows, int64_t pitch, const struct tile_matrix *x, int64_t from, int64_t n,
                  const float *factor);
/* Copies rows of n floats, each multiplied by its factor (NULL: 1). */
void lines_load(int64_t lines, int64_t n, const float *x, int64_t row, const float *factor, float *to, int64_t pitch);
int64_t keys_in(const struct worker *w, int64_t tile); /* returns the number of keys in a tile */
/* Returns how many of the block's first queries do not see key `key` of the tile, because a causal mask hides the
 * key. */
int64_t blind(const struct worker *w, int64_t tile, int64_t key);

/* Rounds up to a multiple of SMALL_COLS. */
static inline int64_t
up(int64_t n)
{
    return (n + COLS - 1) / COLS * COLS;
}

#endif
