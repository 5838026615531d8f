/* gemm.h - products of matrices, by oneDNN and by our own loops: the description of a product, with which gemm.c and
 * gemm_own.c begin, and kernel variants of matmul and contract. Any thread, except for the state of a variant. */
#ifndef RILLE_KERNELS_CPU_GEMM_GEMM_H
#define RILLE_KERNELS_CPU_GEMM_GEMM_H

#include "runtime/graph/op.h"

/* ---- how the matrices of a product are laid out in memory; no state ---- */

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

/* ---- kernel variants; an exec owns the state of a variant, one thread at a time runs the exec ---- */

/* Limits on the work of a product between two checks whether the run was stopped. A product of more than `flops`
 * operations per thread (for 16-bit floats twice that) is computed in panels of its result and in parts of k.
 * Each panel or part has about `flops` operations, at most 1.5 times that. The sides of a panel are multiples of
 * `step` and at least `side` (for 16-bit floats a quarter of `side`). A batch is split into parts with about as
 * many operations. For 16-bit floats with AMX, `flops` is multiplied by `amx`, if `amx` is above 1. Tests lower the
 * limits. */
extern struct gemm_panel {
    double flops;
    int64_t side, step;
    double amx;
} gemm_panel;

bool gemm_accepts(const struct kcall *k); /* variants of matmul and contract */
bool gemm_takes(const struct kcall *k, int i);
int gemm_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* Variant of matmul for few rows by a column-major matrix: computes the product of the transposes
 * (cpu/gemm/gemm_transposed.h). */
bool gemm_transposed_accepts(const struct kcall *k);
int gemm_transposed_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* A single-threaded product c[m,n] = a[m,k] b[k,n] of dense matrices, which prim_at() runs. a and b have one dtype;
 * c is f32. a_columns, b_columns: true if a (b) is column-major. b_step: distance between the rows of a row-major b
 * that is not dense, elements; 0: b is dense. add: true: the product is added to c. */
struct dense_product {
    enum dtype dtype;
    int64_t m, n, k, b_step;
    bool a_columns, b_columns, add;
};
int gemm_dense(const struct dense_product *p, void **product, size_t *scratch_bytes);

#endif
