/* nonfinite.h - detects infinities and NaN that may make a kernel's results differ from the reference's.
 *
 * Some kernels multiply by zeros (of padding, of masked entries) that the reference skips, but 0 * infinity is NaN.
 * Pure; any thread. */
#ifndef RILLE_KERNELS_CPU_NONFINITE_H
#define RILLE_KERNELS_CPU_NONFINITE_H

#include "runtime/graph/op.h"

/* The callback `doubts` of kernel variants, in two versions. It returns true if the reference must compute the
 * results again. nonfinite_result() checks result 0 for infinities and NaN; nonfinite_weight() checks operand 1.
 * Both return false if all elements of an operand are NaN, as after diverged training, because the results are NaN
 * anyway. */
bool nonfinite_result(const struct kcall *k);
bool nonfinite_weight(const struct kcall *k);

#endif
