/* copies.h - copies of strided views on a kernel's threads. Any thread: calls keep nothing, and all memory is the
 * caller's. */
#ifndef RILLE_KERNELS_CPU_COPIES_H
#define RILLE_KERNELS_CPU_COPIES_H

#include "runtime/view.h"

/* view_copy() by as many threads as are worth it, `threads` at most; dst and src do not overlap. */
void copies_run(const struct view *dst, const struct view *src, int threads);
/* n views one after the other along a dimension of dst, which is their sum there. */
void copies_join(const struct view *dst, int n, const struct view *src, int axis, int threads);

#endif
