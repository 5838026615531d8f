/* log_sums.h - logarithms of sums of exponentials: y = m + log(sum of e^(x - m)), where m is the maximum of x.
 *
 * If m and the logarithm have opposite signs, their sum may lose digits, and exponentials of floats have too few.
 * So lines of floats with |y| < 2 use exponentials of doubles. Error of f32: one unit in the last place, or 2^-48
 * if that is more. Error of f64: 3 units in the last place of the largest of 1, |m| and |y|. Any thread: calls
 * keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_LOG_SUMS_H
#define RILLE_KERNELS_CPU_LOG_SUMS_H

#include "runtime/tensor/type.h"

#include <math.h>

/* Returns true if y has too few digits when computed with exponentials of floats. */
static inline bool
log_sum_is_near(double y)
{
    return fabs(y) < 2;
}
/* Returns y of a line of n floats with finite maximum m, computed with exponentials of doubles. */
double log_sum_wide(int64_t n, const float *x, double m);

/* Sets y[l] to the logarithm of the sum of exponentials of line l, for `count` <= LOG_SUMS consecutive lines of n
 * <= LOG_SUM_SHORT elements each. A line's result has the same bits whichever lines are computed with it. */
enum { LOG_SUMS = 16, LOG_SUM_SHORT = 64 };
void log_sums_short(enum dtype d, int64_t n, int64_t count, const void *x, double *y);

#endif
