/* convert.h - converts blocks between the dtypes of memory and the types that kernels compute in.
 *
 * Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_CONVERT_H
#define RILLE_KERNELS_CPU_CONVERT_H

#include "runtime/tensor/type.h"

/* The type in which an element-wise call computes: f32 for f32, bf16 and f16; f64 for f64; i64 for integers and
 * bool. i32 replaces i64 if all operands and results are bool, u8 or i32, and the low bits of each result depend
 * only on the low bits of its operands. i32 is faster, because it has half the bytes and needs no conversion. */
enum compute { COMP_F32, COMP_F64, COMP_I64, COMP_I32, NCOMPUTE };

/* compute_of() returns the compute type of a dtype (i64 for integers). compute_dtype() returns the dtype with the
 * same representation as compute type c. */
enum compute compute_of(enum dtype d);
enum dtype compute_dtype(enum compute c);
bool compute_narrow(enum dtype d); /* returns true if COMP_I32 can represent every value of d */
static inline size_t
compute_bytes(enum compute c)
{
    return c == COMP_F32 || c == COMP_I32 ? 4 : 8;
}

/* Convert n elements of dtype d, which are `stride` elements apart in memory: block_load() from memory to a block of
 * type c, block_store() back. They round and truncate as elem_set_f() and elem_set_i() do (runtime/tensor/type.h). */
void block_load(enum compute c, enum dtype d, const void *memory, int64_t stride, int64_t n, void *block);
void block_store(enum compute c, enum dtype d, const void *block, int64_t n, void *memory, int64_t stride);
/* Repeats each element of x over a row of y: y[i * row + j] = x[i] for i < n, j < row. x and y need only the
 * alignment of an element. */
void block_spread(enum compute c, const void *x, int64_t n, int64_t row, void *y);
/* Sets y[i * apart] to x[i] for n elements. */
void block_scatter(enum compute c, const void *x, int64_t n, int64_t apart, void *y);
/* Converts n elements from type `from` to type `to`. First rounds each element to dtype d, as if memory of that
 * dtype held it. */
void block_convert(enum compute from, enum dtype d, enum compute to, int64_t n, const void *x, void *y);

#endif
