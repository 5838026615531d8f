/* eltwise.h - computes element-wise calls, one or a chain, block by block.
 *
 * elt_new() compiles a chain into a small program for given shapes and strides (chain.h); elt_run() executes the
 * program without allocating. A block stays in registers or the first-level cache from the first load to the last
 * store, so a chain of any length reads and writes memory once. An arena owns the program. Any thread with scratch
 * of its own may call elt_run(), which only reads the program. */
#ifndef RILLE_KERNELS_CPU_ELTWISE_H
#define RILLE_KERNELS_CPU_ELTWISE_H

#include "kernels/cpu/base/fuse.h"
#include "runtime/data/arena.h"

struct elt;
size_t elt_scratch(const struct elt *e);
void elt_run(const struct elt *e, void *const *in, void *const *out, void *scratch);

/* Computes a call of an element-wise operator as the reference does: in one loop over dense operands, in f64 or
 * i64. */
int elt_ref(const struct kcall *k);

#endif
