/* attention.h - softmax(scale q k^T + mask) v and its gradient, without the matrix of all scores.
 *
 * Variants of the operators attention and attention_grad, and the keys that a mask and is_causal leave visible for a
 * query. With is_causal, query i of the global tensor sees keys 0..i, wherever its shard begins. Any thread; the
 * state that prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_H
#define RILLE_KERNELS_CPU_ATTENTION_H

#include "runtime/graph/op.h"

#include <math.h>

/* Operands of attention and attention_grad. q, k, v, the gradient of the result and the result have the shape
 * [batch..., length, size]. */
enum { ATT_Q, ATT_K, ATT_V, ATT_MASK, ATT_OUT_GRAD, ATT_OUT };
enum { ATT_SCALE, ATT_CAUSAL };
/* Maximum number of queries in a block. With a causal mask, also the maximum number of keys in a tile. */
enum { ATT_TILE = 64 };

/* The keys that one query sees: its row of the mask (NULL: no mask), the stride between entries of that row, and the
 * number of keys that the causal mask leaves. */
struct keys {
    const void *mask;
    enum dtype dtype;
    int64_t step, seen;
};
/* Returns the visible keys of row r of the scores [batch..., queries, keys]. Reads no scores, so their data may be
 * NULL. */
struct keys keys_of(const struct view *scores, const struct view *mask, bool causal, int64_t r);
/* Returns the number that the mask adds to the score of key i: 0, -infinity, or the mask's entry. */
double keys_add(const struct keys *l, int64_t i);
/* Adds the mask's entries to the scores of keys from .. from + n - 1. Ignores the causal mask. */
void keys_add_to(const struct keys *l, int64_t from, int64_t n, float *score);

/* Return the two numbers for computing the weights of a query: a weight is exp(score - attention_base(max)) *
 * attention_inverse(sum of the exponentials). If a query sees no key, its greatest score is -inf and its sum 0; its
 * weights are then 0 instead of NaN. */
static inline double
attention_base(double max)
{
    return max == -INFINITY ? 0 : max;
}
static inline double
attention_inverse(double sum)
{
    return sum == 0 ? 0 : 1 / sum;
}

/* Returns a view of the scores of an attention or attention_grad call: sizes and global position, no data. */
struct view attention_scores(const struct kcall *k);
/* Returns the offset, in elements, of the matrix that head r of the scores uses in an operand or result. */
int64_t attention_head(const struct view *v, const struct view *scores, int64_t r);

/* True: uses products of bf16 pairs if the machine has them (gemm_small.h). Tests set attention_pairs to false. */
extern bool attention_pairs;

bool attention_accepts(const struct kcall *k);
int attention_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_run(const struct kcall *k, const void *state);
int attention_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
void attention_drop(void *state);

/* Variant of attention for at most GEMM_FEW queries (attention_few.c). */
bool attention_few_accepts(const struct kcall *k);
int attention_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_few_run(const struct kcall *k, const void *state);
void attention_few_drop(void *state);

#endif
