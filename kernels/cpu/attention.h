/* attention.h - softmax(scale q k^T + mask) v and its gradient, without the matrix of all scores.
 *
 * The variants of the operators attention and attention_grad, and what a mask and
 * causality say of a query's keys. With is_causal query i of the global tensor sees keys
 * 0..i, wherever its part begins. Any thread; the state that prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_ATTENTION_H
#define RILLE_KERNELS_CPU_ATTENTION_H

#include "runtime/op.h"

/* Operands and attributes of both; q, k, v, the gradient of the result and the result: [batch..., length, size]. */
enum { ATT_Q, ATT_K, ATT_V, ATT_MASK, ATT_OUT_GRAD, ATT_OUT };
enum { ATT_SCALE, ATT_CAUSAL };
/* Queries of a block, and keys of a tile where causality hides some, at most. */
enum { ATT_TILE = 64 };

/* What one query sees: its row of the mask (NULL: none), the step between entries, and how many keys causality leaves.
 */
struct keys {
    const void *mask;
    enum dtype dtype;
    int64_t step, seen;
};
/* Of row r of scores [batch..., queries, keys]; reads no data of theirs. */
struct keys keys_of(const struct view *scores, const struct view *mask, bool causal, int64_t r);
/* What the mask adds to the score of key i: nothing, minus infinity, or what it holds. */
double keys_add(const struct keys *l, int64_t i);
/* The same for keys from..from + n, whatever causality says. */
void keys_add_to(const struct keys *l, int64_t from, int64_t n, float *score);

/* The scores of a call of either operator: sizes and place in the whole, no data. */
struct view attention_scores(const struct kcall *k);
/* Elements from the start of an operand or result to its matrix of head r of the scores. */
int64_t attention_head(const struct view *v, const struct view *scores, int64_t r);

/* Are products of bf16 of pairs, where the machine has such (gemm_small.h)? Tests say no. */
extern bool attention_pairs;

bool attention_accepts(const struct kcall *k);
int attention_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_run(const struct kcall *k, const void *state);
int attention_grad_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
void attention_drop(void *state);

/* The same of as few queries as a product of few rows has (attention_few.c). */
bool attention_few_accepts(const struct kcall *k);
int attention_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int attention_few_run(const struct kcall *k, const void *state);
void attention_few_drop(void *state);

#endif
