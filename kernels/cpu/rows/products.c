/* products.c - loops over products.
 *
 * Products are rounded to the type of the elements, as mul rounds them; sums are accumulated in f64. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/rows/products.h"

#include "runtime/base/simd.h"

/* Defines set_TYPE, which sets y to the products. The loop is inlined with constant conditions. */
#define SET(type)                                                                                                      \
    INLINE void loop_##type(int64_t n, const type *x, const type *a, const type *c, int64_t step, type *y)             \
    {                                                                                                                  \
        INDEPENDENT                                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type distance = c ? x[i] - c[i * step] : x[i];                                                             \
            y[i] = distance * (a ? a[i] : distance);                                                                   \
        }                                                                                                              \
    }                                                                                                                  \
    VECTOR static void set_##type(int64_t n, const type *x, const type *a, const type *c, bool moves, type *y)         \
    {                                                                                                                  \
        if (!c)                                                                                                        \
            a ? loop_##type(n, x, a, NULL, 0, y) : loop_##type(n, x, NULL, NULL, 0, y);                                \
        else if (moves)                                                                                                \
            a ? loop_##type(n, x, a, c, 1, y) : loop_##type(n, x, NULL, c, 1, y);                                      \
        else                                                                                                           \
            a ? loop_##type(n, x, a, c, 0, y) : loop_##type(n, x, NULL, c, 0, y);                                      \
    }
SET(float)
SET(double)

/* Defines fold_TYPE, which sums the products of rows in LANES lanes. At the end, the upper half of the lanes is added
 * to the lower half, until one lane is left. */
enum { LANES = 32 };
#define FOLD(type)                                                                                                     \
    INLINE double row_##type(int64_t n, const type *x, const type *a, type c)                                          \
    {                                                                                                                  \
        double lane[LANES] = {0};                                                                                      \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES)                                                                             \
            for (int l = 0; l < LANES; l++) {                                                                          \
                type distance = x[i + l] - c, product = distance * (a ? a[i + l] : distance);                          \
                lane[l] += product;                                                                                    \
            }                                                                                                          \
        for (int l = 0; i + l < n; l++) {                                                                              \
            type distance = x[i + l] - c, product = distance * (a ? a[i + l] : distance);                              \
            lane[l] += product;                                                                                        \
        }                                                                                                              \
        _Pragma("GCC unroll 5") for (int half = LANES / 2; half > 0; half /= 2) for (int l = 0; l < half; l++)         \
            lane[l] += lane[l + half];                                                                                 \
        return lane[0];                                                                                                \
    }                                                                                                                  \
    VECTOR static void fold_##type(int64_t rows, int64_t n, int64_t apart, const type *x, const type *a,               \
                                   const type *c, int64_t c_apart, double *sum)                                        \
    {                                                                                                                  \
        for (int64_t r = 0; r < rows; r++) {                                                                           \
            type center = c ? c[r * c_apart] : 0;                                                                      \
            const type *row = x + r * apart;                                                                           \
            sum[r] += a ? row_##type(n, row, a + r * apart, center) : row_##type(n, row, NULL, center);                \
        }                                                                                                              \
    }
FOLD(float)
FOLD(double)

void
products_set(enum compute type, int64_t n, const void *x, const void *a, const void *c, bool c_moves, void *y)
{
    type == COMP_F32 ? set_float(n, x, a, c, c_moves, y) : set_double(n, x, a, c, c_moves, y);
}

void
products_fold(enum compute type, int64_t rows, int64_t n, int64_t apart, const void *x, const void *a, const void *c,
              int64_t c_apart, double *sum)
{
    type == COMP_F32 ? fold_float(rows, n, apart, x, a, c, c_apart, sum)
                     : fold_double(rows, n, apart, x, a, c, c_apart, sum);
}
