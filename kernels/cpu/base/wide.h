/* wide.h - computes a call with 16-bit floats by the operator's variant for f32. Operands are converted to f32 in
 * scratch, and results are rounded once.
 *
 * Used by operators whose library has no variant for f16 or bf16, or a slower one. Any thread; the state that
 * prepare() makes is for one run at a time. */
#ifndef RILLE_KERNELS_CPU_WIDE_H
#define RILLE_KERNELS_CPU_WIDE_H

#include "runtime/graph/op.h"

bool wide_accepts(const struct kcall *k);
int wide_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int wide_run(const struct kcall *k, const void *state);
void wide_drop(void *state);
bool wide_nonfinite(const struct kcall *k);

#define WIDE_ROW                                                                                                       \
    {                                                                                                                  \
        "f32", .dense_in = true, .accepts = wide_accepts, .prepare = wide_prepare, .run = wide_run, .drop = wide_drop, \
               .doubts = wide_nonfinite                                                                                \
    }

#endif
