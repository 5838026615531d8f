/* loaded.h - operators of shared libraries (rille_operator.h), loaded while the program runs.
 *
 * loaded_library.c opens libraries and registers their operators. loaded_record.c makes an internal record from a
 * public record; no other file knows how the two correspond. loaded_check.c checks the internal record on its
 * samples. Libraries and records live as long as the process. Any thread may load libraries, one thread at a time. */
#ifndef RILLE_KERNELS_LOADED_H
#define RILLE_KERNELS_LOADED_H

#include "rille_operator.h"
#include "runtime/graph/op.h"

enum { LOADED_OUT = 4 }; /* maximum number of results of an operator of a library */
struct loaded {
    struct op op;                      /* must be the first member: loaded_of() converts pointers */
    struct rille_operator record;      /* copy of the library's record; fields that an older library lacks are 0 */
    const struct rille_operator *from; /* record in the library */
    struct kernel_variant variant[2];
    const struct op *gradient[RILLE_OPERATOR_OPERANDS];
    char saves[RILLE_OPERATOR_OPERANDS + OP_OUT + 1];
};
static inline const struct loaded *
loaded_of(const struct op *op)
{
    return (const struct loaded *)op;
}

#endif
