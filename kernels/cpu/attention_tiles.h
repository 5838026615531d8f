/* attention_tiles.h - what attention.c shares with those who multiply its tiles: attention_small.c by our own loops,
 * attention_dense.c by oneDNN's.
 *
 * A worker goes through heads, and blocks of queries of each; memory is its own. Scores lie tile by tile, a row a key
 * and a column a query of the block. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_TILES_H
#define RILLE_KERNELS_CPU_ATTENTION_TILES_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/gemm_small.h"
#include "kernels/cpu/rows.h"

#include <assert.h>

enum { QUERIES = ATT_TILE, KEYS = 128 }; /* of a block; of a tile of keys that all are seen, at most */
static_assert((int)COLS == (int)SMALL_COLS, "columns of scores are those of a product");
enum { SCORES, RESULT, SLOPES, TO_V, TO_K, TO_Q, NPRODUCT };

struct attention {
    const struct tiles *by; /* how they are multiplied */
    bool backward, causal;
    enum dtype dtype; /* of operands of products: f32, or bf16 */
    float scale;
    int64_t nhead, nquery, nkey, size, width; /* size of a query and key, width of a value */
    int64_t queries, keys, nblock, ntile;     /* of a block, of a tile; how many */
    const struct pairs *pairs;                /* products are of pairs of bf16 */
    int nworker;
    size_t room_bytes;
    small_product *multiply; /* attention_small.c */
    /* attention_dense.c */
    void *(*product)[NPRODUCT]; /* struct prim; a worker's own: [nworker] */
    size_t product_scratch;
};

/* What a worker works in; NULL: not wanted. */
struct workspace {
    float *score, *score_grad;                   /* tile by tile */
    void *k, *v, *q, *g;                         /* a row each; of a head, tile by tile, and of a block */
    void *k_other, *v_other, *q_other, *g_other; /* the same as the products' second operands, or turned */
    void *q_turned, *g_turned, *out;
    float *result, *sum_k, *sum_v; /* the block's, or dq; dk and dv of a head */
    float *lines[2];               /* on the way between the matrices in memory and the above */
    void *tile[2];                 /* scores as operands */
    void *product;
};

/* Memory for n elements each; base NULL: bytes are only counted. */
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
    int64_t row, col, size; /* strides; elements of a row */
};

/* Rows that a product adds to: where a result lies, or in the workspace. */
struct sums {
    float *data;
    int64_t row;
    bool there; /* where the result lies */
};

struct worker {
    const struct attention *a;
    struct job *job;
    struct workspace r;
    void *const *product;
    int64_t head, from, nquery;           /* queries from.. of the head, how many there are */
    int64_t first, ntile;                 /* where the first one stands in the whole; tiles that the block sees */
    int64_t begun;                        /* tiles whose keys and values have a part of their gradient */
    bool nan;                             /* a query's weights are NaN, of hidden keys too */
    float max[QUERIES], inverse[QUERIES]; /* of each column; inverse: 1 / sum of exponentials */
    struct small_operand k, v, q, g, k_other, v_other, q_other, g_other; /* attention_small.c */
    struct sums result, sum_k, sum_v;
};

/* How tiles are multiplied, and what is rounded on the way; i is one of those that the block sees. */
struct tiles {
    int (*make)(struct attention *a);
    void (*drop)(struct attention *a);
    void (*lay_out)(const struct attention *a, struct taker *t, struct workspace *r);
    int64_t (*rows)(const struct worker *w, int64_t i);          /* of a tile that products read */
    void (*head)(struct worker *w);                              /* makes ready: keys and values; */
    void (*block)(struct worker *w);                             /* queries; */
    void (*slopes)(struct worker *w);                            /* gradients g of what queries gave */
    void (*means)(struct worker *w, float *mean);                /* of each query, g times what it gave */
    void (*scores)(const struct worker *w, int64_t i, float *s); /* k q' */
    void (*exps)(const struct worker *w, int64_t i, float scale, float *s, float *sum); /* p = exp(scale s - max) */
    void (*to_result)(const struct worker *w, int64_t i, const float *p); /* result += p' v, of the first tile = */
    void (*score_grads)(const struct worker *w, int64_t i, float *t);     /* v g' */
    void (*to_values)(const struct worker *w, int64_t i, float *p);       /* dv += p g, of p / l */
    void (*to_operands)(const struct worker *w, int64_t i, const float *p, const float *mean,
                        float *t);                       /* e as attention.c has it; dk += e q, result += e' k */
    void (*give)(struct worker *w, const float *factor); /* the block's result, each row times its factor (NULL: one) */
    void (*give_sums)(struct worker *w);                 /* dk and dv of a head */
};
extern const struct tiles attention_small, attention_dense;

/* ---- attention.c, for both ---- */

struct matrix matrix_of(const struct worker *w, const struct view *v);
/* Rows from .. from + n of x as floats, `pitch` apart; what is beyond their size is zero. */
void matrix_load(const struct matrix *x, int64_t from, int64_t n, float *to, int64_t pitch);
/* n rows, `pitch` floats apart, each times its factor (NULL: one), to rows of x from `from` on; they may be changed. */
void matrix_store(float *rows, int64_t pitch, const struct matrix *x, int64_t from, int64_t n, const float *factor);
/* Rows of n floats, each times its factor (NULL: one). */
void lines_load(int64_t lines, int64_t n, const float *x, int64_t row, const float *factor, float *to, int64_t pitch);
int64_t keys_in(const struct worker *w, int64_t tile); /* that are there */
/* How many of the block's queries do not see this key of a tile for causality: the first ones. */
int64_t blind(const struct worker *w, int64_t tile, int64_t key);

/* Whole SMALL_COLS. */
static inline int64_t
up(int64_t n)
{
    return (n + COLS - 1) / COLS * COLS;
}

#endif
