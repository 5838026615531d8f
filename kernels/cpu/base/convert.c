/* convert.c - converts blocks between the dtypes of memory and the compute types.
 *
 * Vectorised loops convert the pairs that are common in training: equal types, and f32 with bf16, f16, bool and
 * integers. Other pairs are converted element by element. bf16 is loaded from cache at 60 elements per ns (one Zen 5
 * core, AVX-512). */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/base/convert.h"

#include "runtime/tensor/half.h"
#include "runtime/base/simd.h"

#include <assert.h>

enum compute
compute_of(enum dtype d)
{
    return !dtype_is_float(d) ? COMP_I64 : d == DT_F64 ? COMP_F64 : COMP_F32;
}

enum dtype
compute_dtype(enum compute c)
{
    static const enum dtype of[NCOMPUTE] = {DT_F32, DT_F64, DT_I64, DT_I32};
    return of[c];
}

bool
compute_narrow(enum dtype d)
{
    return d == DT_BOOL || d == DT_U8 || d == DT_I32;
}

/* ---- loops ---- */

/* Defines a function name(memory, stride, n, block) that sets block[i] to the expression expr, where x is element i
 * of memory. */
#define LOAD(name, memory_type, block_type, expr)                                                                      \
    VECTOR static void name(const void *memory, int64_t stride, int64_t n, void *block)                                \
    {                                                                                                                  \
        const memory_type *p = memory;                                                                                 \
        block_type *y = block;                                                                                         \
        if (stride == 1) {                                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                memory_type x = p[i];                                                                                  \
                y[i] = (block_type)(expr);                                                                             \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            memory_type x = p[i * stride];                                                                             \
            y[i] = (block_type)(expr);                                                                                 \
        }                                                                                                              \
    }

LOAD(f32_f32, float, float, x)
LOAD(f32_f64, double, float, x)
LOAD(f32_bf16, uint16_t, float, from_bf16(x))
LOAD(f32_f16, uint16_t, float, from_f16(x))
LOAD(f32_i64, int64_t, float, x)
LOAD(f32_i32, int32_t, float, x)
LOAD(f32_u8, uint8_t, float, x)
LOAD(f32_bool, uint8_t, float, x != 0)
LOAD(f64_f32, float, double, x)
LOAD(f64_f64, double, double, x)
LOAD(f64_bf16, uint16_t, double, from_bf16(x))
LOAD(f64_f16, uint16_t, double, from_f16(x))
LOAD(f64_i64, int64_t, double, x)
LOAD(f64_i32, int32_t, double, x)
LOAD(f64_u8, uint8_t, double, x)
LOAD(f64_bool, uint8_t, double, x != 0)
LOAD(i64_i64, int64_t, int64_t, x)
LOAD(i64_i32, int32_t, int64_t, x)
LOAD(i64_u8, uint8_t, int64_t, x)
LOAD(i64_bool, uint8_t, int64_t, x != 0)
LOAD(i32_i32, int32_t, int32_t, x)
LOAD(i32_i64, int64_t, int32_t, (uint32_t)x)
LOAD(i32_u8, uint8_t, int32_t, x)
LOAD(i32_bool, uint8_t, int32_t, x != 0)

static void
f32_f16_row(const void *memory, int64_t stride, int64_t n, void *block)
{
    if (stride == 1)
        half_widen(DT_F16, block, memory, n);
    else
        f32_f16(memory, stride, n, block);
}

static void (*const load[NCOMPUTE][NDTYPE])(const void *, int64_t, int64_t, void *) = {
    [COMP_F32] = {[DT_F32] = f32_f32,
                  [DT_F64] = f32_f64,
                  [DT_BF16] = f32_bf16,
                  [DT_F16] = f32_f16_row,
                  [DT_I64] = f32_i64,
                  [DT_I32] = f32_i32,
                  [DT_U8] = f32_u8,
                  [DT_BOOL] = f32_bool},
    [COMP_F64] = {[DT_F32] = f64_f32,
                  [DT_F64] = f64_f64,
                  [DT_BF16] = f64_bf16,
                  [DT_F16] = f64_f16,
                  [DT_I64] = f64_i64,
                  [DT_I32] = f64_i32,
                  [DT_U8] = f64_u8,
                  [DT_BOOL] = f64_bool},
    [COMP_I64] = {[DT_I64] = i64_i64, [DT_I32] = i64_i32, [DT_U8] = i64_u8, [DT_BOOL] = i64_bool},
    [COMP_I32] = {[DT_I64] = i32_i64, [DT_I32] = i32_i32, [DT_U8] = i32_u8, [DT_BOOL] = i32_bool},
};

void
block_load(enum compute c, enum dtype d, const void *memory, int64_t stride, int64_t n, void *block)
{
    assert(load[c][d]); /* floats are never loaded as integers */
    load[c][d](memory, stride, n, block);
}

/* Defines a function name(block, n, memory, stride) that sets element i of memory to the expression expr, where x is
 * block[i]. */
#define STORE(name, block_type, memory_type, expr)                                                                     \
    VECTOR static void name(const void *block, int64_t n, void *memory, int64_t stride)                                \
    {                                                                                                                  \
        const block_type *p = block;                                                                                   \
        memory_type *y = memory;                                                                                       \
        if (stride == 1) {                                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                block_type x = p[i];                                                                                   \
                y[i] = (memory_type)(expr);                                                                            \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            block_type x = p[i];                                                                                       \
            y[i * stride] = (memory_type)(expr);                                                                       \
        }                                                                                                              \
    }

/* Truncates x towards zero and clamps it to lo .. hi; NaN becomes 0. top: the least float above the range. */
#define CUT(x, type, lo, hi, top) ((x) != (x) ? 0 : (x) < (lo) ? (lo) : (x) >= (top) ? (hi) : (type)(x))

STORE(store_f32_f32, float, float, x)
STORE(store_f32_f64, float, double, x)
STORE(store_f32_bf16, float, uint16_t, to_bf16(x))
STORE(store_f32_f16, float, uint16_t, to_f16(x))
STORE(store_f32_bool, float, uint8_t, x != 0)
STORE(store_f32_u8, float, uint8_t, CUT(x, int32_t, 0, UINT8_MAX, 256.0f))
STORE(store_f32_i32, float, int32_t, CUT(x, int32_t, INT32_MIN, INT32_MAX, 0x1p31f))
STORE(store_f32_i64, float, int64_t, CUT(x, int64_t, INT64_MIN, INT64_MAX, 0x1p63f))
STORE(store_f64_f32, double, float, x)
STORE(store_f64_f64, double, double, x)
STORE(store_f64_bf16, double, uint16_t, to_bf16(odd_of(x)))
STORE(store_f64_f16, double, uint16_t, to_f16(odd_of(x)))
STORE(store_f64_bool, double, uint8_t, x != 0)
STORE(store_f64_i32, double, int32_t, CUT(x, int32_t, INT32_MIN, INT32_MAX, 0x1p31))
STORE(store_f64_i64, double, int64_t, CUT(x, int64_t, INT64_MIN, INT64_MAX, 0x1p63))
STORE(store_i64_f32, int64_t, float, x)
STORE(store_i64_f64, int64_t, double, x)
STORE(store_i64_i64, int64_t, int64_t, x)
STORE(store_i64_i32, int64_t, int32_t, (uint32_t)x)
STORE(store_i64_u8, int64_t, uint8_t, x)
STORE(store_i64_bool, int64_t, uint8_t, x != 0)
STORE(store_i32_i32, int32_t, int32_t, x)
STORE(store_i32_u8, int32_t, uint8_t, x)
STORE(store_i32_bool, int32_t, uint8_t, x != 0)

static void
store_f32_bf16_row(const void *block, int64_t n, void *memory, int64_t stride)
{
    if (stride == 1)
        half_round(DT_BF16, memory, block, n);
    else
        store_f32_bf16(block, n, memory, stride);
}

static void
store_f32_f16_row(const void *block, int64_t n, void *memory, int64_t stride)
{
    if (stride == 1)
        half_round(DT_F16, memory, block, n);
    else
        store_f32_f16(block, n, memory, stride);
}

static void (*const store[NCOMPUTE][NDTYPE])(const void *, int64_t, void *, int64_t) = {
    [COMP_F32] = {[DT_F32] = store_f32_f32,
                  [DT_F64] = store_f32_f64,
                  [DT_BF16] = store_f32_bf16_row,
                  [DT_F16] = store_f32_f16_row,
                  [DT_BOOL] = store_f32_bool,
                  [DT_U8] = store_f32_u8,
                  [DT_I32] = store_f32_i32,
                  [DT_I64] = store_f32_i64},
    [COMP_F64] = {[DT_F32] = store_f64_f32,
                  [DT_F64] = store_f64_f64,
                  [DT_BF16] = store_f64_bf16,
                  [DT_F16] = store_f64_f16,
                  [DT_BOOL] = store_f64_bool,
                  [DT_I32] = store_f64_i32,
                  [DT_I64] = store_f64_i64},
    [COMP_I64] = {[DT_F32] = store_i64_f32,
                  [DT_F64] = store_i64_f64,
                  [DT_I64] = store_i64_i64,
                  [DT_I32] = store_i64_i32,
                  [DT_U8] = store_i64_u8,
                  [DT_BOOL] = store_i64_bool},
    [COMP_I32] = {[DT_I32] = store_i32_i32, [DT_U8] = store_i32_u8, [DT_BOOL] = store_i32_bool},
};

/* Converts n elements between any two types, one by one. */
static void
store_each(enum compute c, enum dtype d, const void *block, int64_t n, void *memory, int64_t stride)
{
    for (int64_t i = 0; i < n; i++) {
        if (c == COMP_I64)
            elem_set_i(d, memory, i * stride, ((const int64_t *)block)[i]);
        else
            elem_set_f(d, memory, i * stride, elem_get_f(compute_dtype(c), block, i));
    }
}

void
block_store(enum compute c, enum dtype d, const void *block, int64_t n, void *memory, int64_t stride)
{
    if (store[c][d])
        store[c][d](block, n, memory, stride);
    else
        store_each(c, d, block, n, memory, stride);
}

void
block_convert(enum compute from, enum dtype d, enum compute to, int64_t n, const void *x, void *y)
{
    enum { PIECE = 256 };
    _Alignas(16) char memory[PIECE * sizeof(double)];
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = MIN(n - i, PIECE);
        block_store(from, d, (const char *)x + (size_t)i * compute_bytes(from), m, memory, 1);
        block_load(to, d, memory, 1, m, (char *)y + (size_t)i * compute_bytes(to));
    }
}

/* ---- rows ---- */

/* Defines a function that fills each row with one value, in vectors. The last vector of a row overlaps the previous
 * one. Rows shorter than a vector use the next smaller vector size. A row shorter than the smallest vector is
 * written as a full vector, which also writes the elements after the row; the next row then overwrites these. The
 * last rows of a block have no next row, so they are written element by element. */
#define SPREAD(name, type)                                                                                             \
    VECTOR static void name(const type *x, int64_t n, int64_t row, type *y)                                            \
    {                                                                                                                  \
        typedef type v64 __attribute__((vector_size(64), aligned(sizeof(type)), may_alias));                           \
        typedef type v32 __attribute__((vector_size(32), aligned(sizeof(type)), may_alias));                           \
        typedef type v16 __attribute__((vector_size(16), aligned(sizeof(type)), may_alias));                           \
        enum { L64 = 64 / sizeof(type), L32 = L64 / 2, L16 = L64 / 4 };                                                \
        const type *end = y + n * row;                                                                                 \
        if (row >= L64) {                                                                                              \
            for (int64_t i = 0; i < n; i++, y += row) {                                                                \
                v64 all = (v64){0} + x[i];                                                                             \
                for (int64_t j = 0; j < row - L64; j += L64) *(v64 *)(void *)(y + j) = all;                            \
                *(v64 *)(void *)(y + row - L64) = all;                                                                 \
            }                                                                                                          \
        } else if (row >= L32) {                                                                                       \
            for (int64_t i = 0; i < n; i++, y += row)                                                                  \
                *(v32 *)(void *)y = *(v32 *)(void *)(y + row - L32) = (v32){0} + x[i];                                 \
        } else if (row >= L16) {                                                                                       \
            for (int64_t i = 0; i < n; i++, y += row)                                                                  \
                *(v16 *)(void *)y = *(v16 *)(void *)(y + row - L16) = (v16){0} + x[i];                                 \
        } else {                                                                                                       \
            for (; y + L16 <= end; y += row) *(v16 *)(void *)y = (v16){0} + *x++;                                      \
            for (; y < end; y += row, x++)                                                                             \
                for (int64_t j = 0; j < row; j++) y[j] = *x;                                                           \
        }                                                                                                              \
    }
SPREAD(spread_32, int32_t)
SPREAD(spread_64, int64_t)

void
block_spread(enum compute c, const void *x, int64_t n, int64_t row, void *y)
{
    if (compute_bytes(c) == sizeof(int32_t))
        spread_32(x, n, row, y);
    else
        spread_64(x, n, row, y);
}

#define SCATTER(type)                                                                                                  \
    for (int64_t i = 0; i < n; i++) ((type *)y)[i * apart] = ((const type *)x)[i]

void
block_scatter(enum compute c, const void *x, int64_t n, int64_t apart, void *y)
{
    if (compute_bytes(c) == sizeof(int32_t))
        SCATTER(int32_t);
    else
        SCATTER(int64_t);
}
