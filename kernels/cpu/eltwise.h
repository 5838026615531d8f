/* eltwise.h - computes element-wise calls, one or a chain, block by block.
 *
 * elt_new() turns a chain into a small program for given shapes and strides (chain.h); elt_run() carries it out without
 * allocating. A block of elements stays in registers or the first-level cache from the first load to the last store, so
 * a chain reads and writes memory once, however long it is. An arena owns the program; elt_run() only reads it: any
 * thread, with scratch of its own. */
#ifndef RILLE_KERNELS_CPU_ELTWISE_H
#define RILLE_KERNELS_CPU_ELTWISE_H

#include "kernels/cpu/fuse.h"
#include "runtime/arena.h"

struct elt;
/* Makes all of it in arena a; copies calls and views, whose data may be NULL. All outputs have the same local sizes, to
 * which every operand broadcasts. unread: nobody reads them soon. */
int elt_new(struct arena *a, int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
            const struct view *out, int threads, bool unread, struct elt **e);
size_t elt_scratch(const struct elt *e);
void elt_run(const struct elt *e, void *const *in, void *const *out, void *scratch);

/* The meaning of an element-wise operator: one loop over dense f64 and i64. */
int elt_ref(const struct kcall *k);

/* A deep copy of a call (layouts stay shared). */
struct call *call_copy(struct arena *a, const struct call *c);

#endif
