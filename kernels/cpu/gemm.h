/* gemm.h - a product of matrices as it lies in memory: what oneDNN's (gemm.c) and our own (gemm_own.c) begin with. Any
 * thread: nothing is kept. */
#ifndef RILLE_KERNELS_CPU_GEMM_H
#define RILLE_KERNELS_CPU_GEMM_H

#include "runtime/op.h"

enum { A, B, C, NMATRIX }; /* c[m,n] = sum of a[m,k] b[k,n] */

struct matrix {
    int64_t rows, cols;
    int64_t row, col; /* strides in elements from one row, one column to the next */
};
struct batch {
    int64_t size, step[NMATRIX]; /* step 0 where an operand is broadcast */
};
struct gemm {
    enum dtype dtype[NMATRIX]; /* halves may be summed to f32 */
    struct matrix x[NMATRIX];
    int nbatch;
    struct batch batch[MAX_DIM]; /* outermost first */
};

/* A sum in f32 of more than GEMM_LONG products is made in parts of about GEMM_PART, one added to the other, whatever
 * the threads: of 1e6 times 0.1 * 0.1 one after the other 0.35 % are missing, in lanes 0.05 %, so less than 0.01 %. */
enum { GEMM_LONG = 1 << 16, GEMM_PART = 1 << 13 };

/* Of matmul and of contract, which is a sum over all leading dimensions of a[..., m] b[..., n]; false: these are not
 * one k, since they do not go on evenly in both. */
struct gemm gemm_of_matmul(const struct kcall *k);
bool gemm_of_contract(const struct kcall *k, struct gemm *g);
/* Dtypes go together, and no operand is empty. */
bool gemm_fits(const struct kcall *k);
/* Strides of dimensions of size 1 become what a dense matrix has; false: some matrix has elements neither row by row
 * nor column by column. */
bool gemm_settle(struct gemm *g);
/* The transpose, b^T a^T: of c column by column it lies row by row. */
void gemm_transpose(struct gemm *g);
/* The primitive of one product of a settled g by one thread, for prim_at() (cpu/dnnl.h); add: to what c holds. */
int gemm_one(const struct gemm *g, bool add, void **product, size_t *scratch_bytes);
/* Products in the batch; elements from the first to the r-th, of each matrix. */
int64_t batch_count(const struct gemm *g);
void batch_skip(const struct gemm *g, int64_t r, int64_t *skip);

#endif
