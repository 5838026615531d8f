/* exp_pairs.h - sums of exponentials to 30 digits, in pairs of doubles: a number and what it lacks.
 *
 * What is left of a sum near 1 when that is taken off, whose digits a double has not. 6.3 ns an element of one core of
 * a Zen 4, where an exponential of doubles takes 0.9. Twice the same bits, on every level of machine. Any thread: calls
 * keep nothing, and all memory is the caller's. */
#ifndef RILLE_KERNELS_CPU_EXP_PAIRS_H
#define RILLE_KERNELS_CPU_EXP_PAIRS_H

#include "runtime/type.h"

/* The sum of e^(x - y) less 1, of n reals of a dtype, F32 or F64, where that is small; off by 2^-100. */
double exp_pairs_left(enum dtype d, int64_t n, const void *x, double y);
/* The sum of e^x in units of 2^-76, each rounded, as it wraps around in 32 bits; of x above 1, or NaN, nothing. */
int32_t exp_pairs_units(enum dtype d, int64_t n, const void *x);

#endif
