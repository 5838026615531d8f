/* nonfinite.h - detects non-finite values that make a kernel's results differ from the reference's. Some kernels
 * multiply by zeros (of padding, of hidden entries) that the reference skips, and 0 * infinity is NaN. Pure; any
 * thread. */
#ifndef RILLE_KERNELS_CPU_NONFINITE_H
#define RILLE_KERNELS_CPU_NONFINITE_H

#include "runtime/graph/op.h"

/* The .doubts of variants. Returns true if result 0 (operand 1) has non-finite values and no operand is entirely
 * NaN. An entirely NaN operand, as after diverged training, makes the results NaN anyway. */
bool nonfinite_result(const struct kcall *k);
bool nonfinite_weight(const struct kcall *k);

#endif
