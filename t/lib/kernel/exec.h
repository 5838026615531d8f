/* exec.h - runs a kernel once, for tests of kernels. The caller owns operands and results. */
#ifndef RILLE_T_EXEC_H
#define RILLE_T_EXEC_H

#include "kernels/exec/exec.h"
#include "kernels/exec/sample.h"
#include "kernels/op/base/table.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/device/device.h"
#include "t/lib/tap.h"

/* Runs a prepared kernel and frees it. Scratch memory is filled with NaN, so that a test notices reads of scratch
 * memory that was not written. */
static inline int
exec_once(struct exec **e, void *const *in, void *const *out, uint64_t piece)
{
    size_t bytes = (exec_scratch(*e) + 127) / 64 * 64;
    void *scratch = memset(aligned_alloc(64, bytes), 0xff, bytes);
    int status = exec_run(*e, in, out, scratch, piece);
    free(scratch);
    exec_free(e);
    return status;
}

/* Prepares and runs a call. variant: receives the name of the chosen variant; may be NULL. */
static inline int
kcall_once(const struct kcall *k, void *const *in, void *const *out, const char **variant)
{
    struct exec *e;
    TRY(exec_new(k, DEV_CPU, &e));
    if (variant) *variant = exec_variant(e);
    return exec_once(&e, in, out, k->piece);
}

#endif
