/* exp_pairs.h - sums of exponentials to 17 digits and to 30, in pairs of doubles: a number and what it lacks.
 *
 * What is left of a sum near 1 when that is taken off, whose digits a double has not. An element takes 2 and 6 ns of
 * one core of a Zen 4, where an exponential of doubles takes 0.9. Twice the same bits, on every level of machine. Any
 * thread: calls keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_EXP_PAIRS_H
#define RILLE_KERNELS_CPU_EXP_PAIRS_H

#include "runtime/type.h"

/* The logarithm of the sum of e^x, of n reals of a dtype, F32 or F64; y is it to 2^-18, and below 512. Off by 2^-58,
 * and by half a unit of its last place. */
double exp_pairs_log(enum dtype d, int64_t n, const void *x, double y);
/* The same of EXP_COLS lines beside each other: real i of line l is x[i * EXP_COLS + l]. */
enum { EXP_COLS = 16 };
void exp_pairs_log_cols(int64_t n, const double *x, double *y);
/* The sum of e^(x - y) less 1, where that is small; off by 2^-100. */
double exp_pairs_left(enum dtype d, int64_t n, const void *x, double y);
/* The sum of e^(x - y) of doubles in units of 2^-80, each rounded, as it wraps around in 64 bits. */
int64_t exp_pairs_units_at(int64_t n, const double *x, double y);
/* The sum of e^x in units of 2^-76, each rounded, as it wraps around in 32 bits; of x above 1, or NaN, nothing. */
int32_t exp_pairs_units(enum dtype d, int64_t n, const void *x);

#endif
