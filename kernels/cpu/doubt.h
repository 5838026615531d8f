/* doubt.h - when a kernel's results may not be the reference's: some kernels multiply zeros - of padding, of what is
 * hidden - that the reference leaves out, which shows where the other factor is infinite or NaN. Pure; any thread. */
#ifndef RILLE_KERNELS_CPU_DOUBT_H
#define RILLE_KERNELS_CPU_DOUBT_H

#include "runtime/op.h"

/* The .doubts of variants: result 0, or operand 1, has values that are not finite, and no operand is NaN throughout, as
 * after a training that went astray: then the results are. */
bool doubts_result(const struct kcall *k);
bool doubts_weight(const struct kcall *k);

#endif
