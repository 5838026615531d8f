/* log_sums.h - logarithms of sums of exponentials, within 1 unit of the last place of what they are of f32 or f64.
 *
 * The greatest and a logarithm, added, may take each other away: what is left is of the digits that exponentials of
 * floats do not have, and near 0 of those that doubles do not have. Any thread: calls keep nothing, and all memory is
 * the caller's. */
#ifndef RILLE_KERNELS_CPU_LOG_SUMS_H
#define RILLE_KERNELS_CPU_LOG_SUMS_H

#include "runtime/type.h"

/* n reals of a dtype, F32 or F64, whose greatest, m, is finite; y, as m + log of a sum of exponentials gives it. Gives
 * it with the digits that it lacks. */
double log_sum_refined(enum dtype d, int64_t n, const void *x, double m, double y);

/* y[l] for each of `count` <= LOG_SUMS lines of n <= LOG_SUM_SHORT reals, one behind the other. A line has the same
 * bits whatever is beside it. */
enum { LOG_SUMS = 16, LOG_SUM_SHORT = 64 };
void log_sums_short(enum dtype d, int64_t n, int64_t count, const void *x, double *y);

#endif
