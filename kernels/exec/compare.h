/* compare.h - compares a kernel's result with the reference's result (RILLE_CHECK=ref). Allocates; any thread. */
#ifndef RILLE_KERNELS_COMPARE_H
#define RILLE_KERNELS_COMPARE_H

#include "runtime/tensor/view.h"

/* Compares result i of a kernel with `want`, the dense result of the reference. Fails with E_KERNEL at the first
 * element outside the tolerance. */
int compare(const char *op, const char *kernel, int i, const struct view *got, const struct view *want);

#endif
