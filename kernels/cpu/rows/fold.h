/* fold.h - sums, products and sums of squares of contiguous floats.
 *
 * Sums are accumulated in f64 (a few 16-bit floats in f32). The position of an element determines the lane that
 * adds it, so results are bit-identical on every run and machine level. Any thread: calls keep no state. */
#ifndef RILLE_KERNELS_CPU_FOLD_H
#define RILLE_KERNELS_CPU_FOLD_H

#include "runtime/tensor/type.h"

enum { FOLD_ROWS = 16 };
double fold_sum(const float *x, int64_t n);
double fold_prod(const float *x, int64_t n);
double fold_squares(const float *x, int64_t n);
/* Adds the sum of each row to the row's entry of `sum`. Rows have n elements; apart: distance between rows,
 * elements. */
void fold_sums(const float *x, int64_t apart, int64_t rows, int64_t n, double *sum);
/* Adds each element of up to FOLD_ROWS rows, at least one, to the sum of its column. The n column sums are aligned
 * to 64 bytes. apart: distance between rows, elements. far: the rows are in memory, not in a cache. */
void fold_rows(const float *x, int64_t apart, int64_t rows, int64_t n, bool far, double *sum);
/* Adds x[i] to sum[i] for n floats; no alignment needed. */
void fold_add(const float *x, int64_t n, double *sum);
/* Sets `sum` to the column sums of up to FOLD_ROWS rows of dtype d (bf16 or f16). Floats have enough digits for so
 * few rows. Returns false if a bf16 sum is infinite or NaN, possibly because f32 overflowed. */
bool fold_halves(enum dtype d, const uint16_t *x, int64_t apart, int64_t rows, int64_t n, float *sum);

#endif
