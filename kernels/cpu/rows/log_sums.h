/* log_sums.h - logarithms of sums of exponentials, within 1 unit in the last place of f32 or f64.
 *
 * The maximum and the logarithm may cancel when added. The remainder then needs digits that exponentials of floats
 * do not have; near 0, digits that doubles do not have. Any thread: calls keep no state, and the caller owns all
 * memory. */
#ifndef RILLE_KERNELS_CPU_LOG_SUMS_H
#define RILLE_KERNELS_CPU_LOG_SUMS_H

#include "runtime/tensor/type.h"

/* Returns y with the digits that it lacks through cancellation. x: n reals of dtype F32 or F64; m: their maximum,
 * finite; y: m + log of a sum of exponentials. */
double log_sum_refined(enum dtype d, int64_t n, const void *x, double m, double y);

/* Sets y[l] for each of `count` <= LOG_SUMS consecutive lines of n <= LOG_SUM_SHORT reals. The bits of a line do not
 * depend on the other lines. */
enum { LOG_SUMS = 16, LOG_SUM_SHORT = 64 };
void log_sums_short(enum dtype d, int64_t n, int64_t count, const void *x, double *y);

#endif
