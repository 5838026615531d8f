/* exp_pairs.h - sums of exponentials to 17 and to 30 digits in pairs of doubles (a number and its rounding error).
 *
 * Used for the difference of a sum near 1 from 1, for which a double has too few digits. An element costs 2 and 6 ns
 * of one Zen 4 core; an exponential of doubles costs 0.9 ns. Bit-identical on every run and machine level. Any
 * thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_EXP_PAIRS_H
#define RILLE_KERNELS_CPU_EXP_PAIRS_H

#include "runtime/tensor/type.h"

/* Returns the logarithm of the sum of e^x over n reals of dtype F32 or F64. y: the result to within 2^-18, below
 * 512. Error: 2^-58 plus half a unit in the last place. */
double exp_pairs_log(enum dtype d, int64_t n, const void *x, double y);
/* Sets y[l] likewise for EXP_COLS interleaved lines: real i of line l is x[i * EXP_COLS + l]. */
enum { EXP_COLS = 16 };
void exp_pairs_log_cols(int64_t n, const double *x, double *y);
/* Returns the sum of e^(x - y), minus 1, if that is small; error 2^-100. */
double exp_pairs_left(enum dtype d, int64_t n, const void *x, double y);
/* Returns the sum of e^(x - y) of doubles in units of 2^-80, each addend rounded, wrapping around in 64 bits. */
int64_t exp_pairs_units_at(int64_t n, const double *x, double y);
/* Returns the sum of e^x in units of 2^-76, each addend rounded, wrapping around in 32 bits. x above 1 or NaN adds
 * 0. */
int32_t exp_pairs_units(enum dtype d, int64_t n, const void *x);

#endif
