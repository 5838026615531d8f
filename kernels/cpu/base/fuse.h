/* fuse.h - a chain of element-wise calls as one pass: step s reads operands of the chain or results of earlier
 * steps. The maker of the arrays owns them; any thread. */
#ifndef RILLE_KERNELS_CPU_FUSE_H
#define RILLE_KERNELS_CPU_FUSE_H

#include "runtime/graph/op.h"

struct fuse_arg {
    bool step; /* result of step `index`; else operand `index` of the chain */
    int index;
};
struct fuse_step {
    const struct call *call;
    struct fuse_arg arg[OP_OPERAND];
    int out;    /* output of the chain that the step writes, or -1 */
    int others; /* (several results) output for the second result; further results use the next outputs */
};
#endif
