/* nonfinite.h - detects infinities and NaN because of which a kernel's results may differ from the reference's.
 *
 * Some kernels multiply by zeros (of padding, of masked entries) that the reference skips, and 0 * infinity is NaN.
 * Pure; any thread. */
#ifndef RILLE_KERNELS_CPU_NONFINITE_H
#define RILLE_KERNELS_CPU_NONFINITE_H

#include "runtime/graph/op.h"

/* Implement the callback `doubts` of kernel variants, which detects results that the reference must recompute.
 * nonfinite_result() returns true if result 0 has an infinity or NaN, nonfinite_weight() if operand 1 has. Both return
 * false if all elements of an operand are NaN, as after diverged training, because the results are NaN anyway. */
bool nonfinite_result(const struct kcall *k);
bool nonfinite_weight(const struct kcall *k);

#endif
