/* gemm_inner.h - describes how the matrices of a product are laid out in memory. oneDNN's products (gemm.c) and our own
 * (gemm_own.c) begin with this description.
 *
 * Any thread: no state. */
#ifndef RILLE_KERNELS_CPU_GEMM_GEMM_INNER_H
#define RILLE_KERNELS_CPU_GEMM_GEMM_INNER_H

#include "runtime/graph/op.h"

enum { A, B, C, NMATRIX }; /* matrices of the product c[m,n] = sum of a[m,k] b[k,n] */

struct matrix {
    int64_t rows, cols;
    int64_t row, col; /* strides, in elements, between rows and between columns */
};
struct batch {
    int64_t size, step[NMATRIX]; /* size: number of products; step: stride of each matrix, elements; 0: broadcast */
};
struct gemm {
    enum dtype dtype[NMATRIX]; /* dtype of each matrix; c may be f32 if a and b are 16-bit floats */
    struct matrix x[NMATRIX];
    int nbatch;
    struct batch batch[MAX_DIM]; /* batch dimensions, outermost first */
};

/* f32 sums of more than GEMM_LONG products are computed in parts of about GEMM_PART products. The sums of the
 * parts are then added up, in the same way for any number of threads. Parts limit the rounding error: a sum of 1e6
 * products 0.1 * 0.1 is too small by 0.35 % if added in sequence, by 0.05 % if added in lanes, and by less than
 * 0.01 % if added in parts. */
enum { GEMM_LONG = 1 << 16, GEMM_PART = 1 << 13 };

/* Sets *g to the product that a call computes. If the operator's record sets sums_leading, the call is a contract
 * call: the sum over all leading dimensions of a[..., m] b[..., n]. Otherwise the call is a matmul. Returns false
 * for a contract call whose leading dimensions cannot be merged into one k, because their strides are not uniform
 * in both operands. */
bool gemm_of(const struct kcall *k, struct gemm *g);
/* Returns true if the dtypes of a call match and no operand is empty. */
bool gemm_fits(const struct kcall *k);
/* Sets the strides of dimensions of size 1 to those of a dense matrix. Returns false if a matrix is neither row-
 * nor column-major. */
bool gemm_settle(struct gemm *g);
/* Replaces the product g by its transpose, c^T = b^T a^T, so that a column-major c becomes row-major. */
void gemm_transpose(struct gemm *g);
/* Makes a single-threaded primitive for one product of g, which prim_at() runs (cpu/base/dnnl.h). gemm_settle()
 * must have succeeded on g. add: adds the product to c. */
int gemm_one(const struct gemm *g, bool add, void **product, size_t *scratch_bytes);
/* batch_count() returns the number of products in the batch. batch_skip() sets skip[i] to the offset, in elements,
 * of product r in matrix i. */
int64_t batch_count(const struct gemm *g);
void batch_skip(const struct gemm *g, int64_t r, int64_t *skip);

#endif
