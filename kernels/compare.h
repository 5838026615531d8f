/* compare.h - a kernel's result beside the reference's (RILLE_CHECK=ref). Allocates; any thread. */
#ifndef RILLE_KERNELS_COMPARE_H
#define RILLE_KERNELS_COMPARE_H

#include "runtime/view.h"

/* Result i, as a kernel gave it, and dense as the reference did: E_KERNEL at the first element that is too far. */
int compare(const char *op, const char *kernel, int i, const struct view *got, const struct view *want);

#endif
