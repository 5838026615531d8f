/* convert.h - blocks of elements between the dtypes of memory and the types that kernels compute in. Any thread: calls
 * keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_CONVERT_H
#define RILLE_KERNELS_CPU_CONVERT_H

#include "runtime/type.h"

/* What an element-wise call computes in: f32 for f32, bf16, f16; f64; i64 for integers and bool. i32 takes its place
 * where operands and result are bool, u8 or i32, and the low bits of a result do not depend on the high ones of what it
 * is made of: half the bytes, and none to convert. */
enum compute { COMP_F32, COMP_F64, COMP_I64, COMP_I32, NCOMPUTE };

/* The compute type of a dtype (of integers i64), and the dtype whose memory is just that type. */
enum compute compute_of(enum dtype d);
enum dtype compute_dtype(enum compute c);
bool compute_narrow(enum dtype d); /* is every value of d one of COMP_I32? */
static inline size_t
compute_bytes(enum compute c)
{
    return c == COMP_F32 || c == COMP_I32 ? 4 : 8;
}

/* Converts n elements of dtype d, `stride` elements apart, from memory into a block of type c, and back; rounds and
 * cuts as elem_set_f() and elem_set_i() do (runtime/type.h). */
void block_load(enum compute c, enum dtype d, const void *memory, int64_t stride, int64_t n, void *block);
void block_store(enum compute c, enum dtype d, const void *block, int64_t n, void *memory, int64_t stride);
/* Makes a block of type `from` one of type `to`, as if it had gone through memory of dtype d. */
/* Rows of `row` elements, each what x has for it: y[i * row + j] = x[i], i < n. Any memory of the type's elements. */
void block_spread(enum compute c, const void *x, int64_t n, int64_t row, void *y);
/* y[i * apart] = x[i] */
void block_scatter(enum compute c, const void *x, int64_t n, int64_t apart, void *y);
void block_convert(enum compute from, enum dtype d, enum compute to, int64_t n, const void *x, void *y);

#endif
