/* attention.h - softmax(scale q k^T + mask) v and its gradient, without the matrix of all scores.
 *
 * Declares the kernel variants of the operators attention and attention_grad, and functions that determine the keys
 * a query sees. Queries and keys are numbered in the global tensor. With is_causal, query i sees keys 0..i. A window
 * {left, right} leaves keys i - left..i + right (-1: no limit). The operand `spans` limits each query to the keys
 * from a first key to an end. Any thread; the state that prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_H
#define RILLE_KERNELS_CPU_ATTENTION_H

#include "runtime/graph/op.h"

#include <math.h>

/* Operands of attention and attention_grad. q, k, v, the gradient of the result and the result have the shape
 * [batch..., length, size]. */
enum { ATT_Q, ATT_K, ATT_V, ATT_MASK, ATT_SINKS, ATT_SPANS, ATT_OUT_GRAD, ATT_OUT };
/* Attributes. attention_softmax has no ATT_SOFTCAP. */
enum { ATT_SCALE, ATT_CAUSAL, ATT_WINDOW, ATT_SOFTCAP };
/* Maximum number of queries in a block. Also the maximum number of keys in a tile if queries see different keys. */
enum { ATT_TILE = 64 };

/* The keys that one query sees: first..end - 1, except the keys that the mask hides. mask: the query's row of the
 * mask; NULL: no mask. step: stride between entries of the row, elements. */
struct keys {
    const void *mask;
    enum dtype dtype;
    int64_t step, first, end;
};
/* Returns the keys that row r of the scores [batch..., queries, keys] sees. mask: index of the operand `mask`; the
 * operands `sinks` and `spans` have the next two indices. Reads no scores, so `scores` needs no data. */
struct keys keys_of(const struct kcall *k, const struct view *scores, int mask, int64_t r);
/* Returns the number that the mask adds to the score of key i: 0, -infinity, or the mask's entry. */
double keys_add(const struct keys *l, int64_t i);
/* Adds the mask's entries to the scores of keys from .. from + n - 1, whether or not the query sees them. */
void keys_add_to(const struct keys *l, int64_t from, int64_t n, float *score);
/* Returns the sink of row r of the scores; -infinity: none. A sink is an extra score that takes part in the softmax
 * but has no key and no value. */
double sink_of(const struct kcall *k, const struct view *scores, int mask, int64_t r);

/* Return the offset and the factor that turn a score into a softmax weight: exp(score - attention_base(max)) *
 * attention_inverse(sum of the exponentials). If a query sees no key, its maximum is -inf and its sum 0; its weights
 * are then 0 instead of NaN. */
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
/* Returns the offset, in elements, of head r's matrix in an operand or result. r: index of the head in the scores. */
int64_t attention_head(const struct view *v, const struct view *scores, int64_t r);

/* true: attention uses products of bf16 pairs if the machine has them (gemm_small.h). Tests set this to false. */
extern bool attention_pairs;

bool attention_accepts(const struct kcall *k);
int attention_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_run(const struct kcall *k, const void *state);
int attention_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
void attention_drop(void *state);

#endif
