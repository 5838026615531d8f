/* nonfinite.h - detects infinities and NaN because of which a kernel's results may differ from the reference's.
 *
 * Some kernels multiply by zeros (of padding, of masked entries) that the reference skips, and 0 * infinity is NaN.
 * Pure; any thread. */
#ifndef RILLE_KERNELS_CPU_NONFINITE_H
#define RILLE_KERNELS_CPU_NONFINITE_H

#include "runtime/graph/op.h"

/* Implement `doubts` of variants. Return true if result 0 (nonfinite_weight: operand 1) has an infinity or NaN,
 * unless an operand consists of NaN alone. Such an operand, as after diverged training, makes the results NaN
 * anyway. */
bool nonfinite_result(const struct kcall *k);
bool nonfinite_weight(const struct kcall *k);

#endif
