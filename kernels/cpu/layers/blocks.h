/* blocks.h - products of f32 rows with weights that stay in blocks of a quantised type (runtime/tensor/coding.h).
 *
 * Operand 0 is x (..., k), operand 1 is w (n, blocks, bytes of a block), result 0 is y (..., n). Any thread; the state
 * that prepare makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_GEMM_BLOCKS_H
#define RILLE_KERNELS_CPU_GEMM_BLOCKS_H

#include "runtime/tensor/coding.h"
#include "runtime/graph/op.h"

/* Names of the quantised types, which attribute 0 accepts. */
#define BLOCK_KINDS                                                                                                    \
    "Q8_0|Q4_0|Q4_1|Q5_0|Q5_1|Q8_1|Q2_K|Q3_K|Q4_K|Q5_K|Q6_K|Q8_K|IQ1_S|IQ1_M|IQ2_XXS|IQ2_XS|IQ2_S|IQ3_XXS|IQ3_S|"      \
    "IQ4_NL|IQ4_XS|TQ1_0|TQ2_0|MXFP4|NVFP4"

/* Returns the type that attribute 0 of a call names. */
const struct coding *blocks_coding(const struct call *c);

/* A row of x for a product with few rows, rounded as blocks.c describes. */
enum { BLOCKS_FEW = 128 };
struct rounded;
/* Returns the maximum number of rows, at most BLOCKS_FEW, whose product with weights of type c is fastest in this way.
 */
int blocks_few(const struct coding *c);
size_t blocks_rounded_bytes(int64_t k);
/* Rounds a row of k elements. scratch: blocks_rounded_bytes(k) bytes, which hold the result. */
struct rounded *blocks_round(const struct coding *c, int64_t k, const float *x, void *scratch);
/* Multiplies n rows of x, 1 to BLOCKS_FEW, by rows lo to hi - 1 of the weights w. y[i]: row i of the result. */
void blocks_multiply(int64_t n, struct rounded *const *x, const uint8_t *w, int64_t lo, int64_t hi, float *const *y);

bool blocks_accepts(const struct kcall *k);
int blocks_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int blocks_run(const struct kcall *k, const void *state);
void blocks_drop(void *state);

#endif
