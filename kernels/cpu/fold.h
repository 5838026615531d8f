/* fold.h - sums, products and sums of squares of floats that lie one after the other.
 *
 * They accumulate in f64, but for a few halves, in lanes fixed by position: the same bits every run, on every level of
 * machine. Any thread: calls keep nothing. */
#ifndef RILLE_KERNELS_CPU_FOLD_H
#define RILLE_KERNELS_CPU_FOLD_H

#include "runtime/type.h"

enum { FOLD_ROWS = 16 };
double fold_sum(const float *x, int64_t n);
double fold_prod(const float *x, int64_t n);
double fold_squares(const float *x, int64_t n);
/* Adds the sums of rows of n elements, `apart`, each to its own. */
void fold_sums(const float *x, int64_t apart, int64_t rows, int64_t n, double *sum);
/* Adds 1 to FOLD_ROWS rows of n elements, `apart`, to n sums, which are aligned to 64 bytes. far: rows lie in memory,
 * not in a cache. */
void fold_rows(const float *x, int64_t apart, int64_t rows, int64_t n, bool far, double *sum);
/* Adds n floats each to its sum, wherever these lie. */
void fold_add(const float *x, int64_t n, double *sum);
/* n sums of up to FOLD_ROWS rows of halves d, as floats, which have their digits; false, of bf16: one is infinite or
 * NaN, which may be of what floats do not hold. */
bool fold_halves(enum dtype d, const uint16_t *x, int64_t apart, int64_t rows, int64_t n, float *sum);

#endif
