/* copies.h - copies and concatenates strided views, on a kernel's threads.
 *
 * Any thread: calls keep no state, and the caller owns all memory. */
#ifndef RILLE_KERNELS_CPU_COPIES_H
#define RILLE_KERNELS_CPU_COPIES_H

#include "runtime/tensor/view.h"

/* Copies src to dst as view_copy() does, with at most `threads` threads, fewer for small views. dst and src must not
 * overlap. */
void copies_run(const struct view *dst, const struct view *src, int threads);
/* Concatenates n views along dimension `axis` of dst. The size of dst along the axis is the sum of the views' sizes. */
void copies_join(const struct view *dst, int n, const struct view *src, int axis, int threads);

#endif
