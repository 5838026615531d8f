/* attention.h - softmax(scale q k^T + mask) v and its gradient, without the matrix of all scores.
 *
 * Variants of the operators attention and attention_grad, and the effect of a mask and of causality on a query's
 * keys. With is_causal, query i of the global tensor sees keys 0..i, wherever its shard begins. Any thread; the
 * state that prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_H
#define RILLE_KERNELS_CPU_ATTENTION_H

#include "runtime/graph/op.h"

#include <math.h>

/* Operands and attributes of both operators; q, k, v, the gradient of the result and the result: [batch..., length,
 * size]. */
enum { ATT_Q, ATT_K, ATT_V, ATT_MASK, ATT_OUT_GRAD, ATT_OUT };
enum { ATT_SCALE, ATT_CAUSAL };
/* Maximum number of queries in a block, and of keys in a tile if causality hides some. */
enum { ATT_TILE = 64 };

/* The keys that one query sees: its row of the mask (NULL: none), the stride between entries, and the number of keys
 * that causality leaves. */
struct keys {
    const void *mask;
    enum dtype dtype;
    int64_t step, seen;
};
/* Returns the keys for row r of scores [batch..., queries, keys]; reads no data of the scores. */
struct keys keys_of(const struct view *scores, const struct view *mask, bool causal, int64_t r);
/* Returns the mask's addend for the score of key i: 0, -infinity, or the mask's entry. */
double keys_add(const struct keys *l, int64_t i);
/* Adds the mask's entries to the scores of keys from..from + n, without regard to causality. */
void keys_add_to(const struct keys *l, int64_t from, int64_t n, float *score);

/* Return the addend's base and the factor of the softmax for a query's greatest score and its sum of exponentials. A
 * query that sees no key has greatest score -inf and sum 0; its weights become 0, where the quotient would be NaN. */
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

/* Returns a view of the scores of a call of either operator: sizes and global position, no data. */
struct view attention_scores(const struct kcall *k);
/* Returns the offset, in elements, of the matrix for head r of the scores within an operand or result. */
int64_t attention_head(const struct view *v, const struct view *scores, int64_t r);

/* Enables bf16 products of pairs on machines that support them (gemm_small.h). Tests clear it. */
extern bool attention_pairs;

bool attention_accepts(const struct kcall *k);
int attention_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_run(const struct kcall *k, const void *state);
int attention_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
void attention_drop(void *state);

/* Variant for at most GEMM_FEW queries (attention_few.c). */
bool attention_few_accepts(const struct kcall *k);
int attention_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_few_run(const struct kcall *k, const void *state);
void attention_few_drop(void *state);

#endif
