/* fuse.h - describes a chain of element-wise calls that are computed in one pass. A step reads operands of the chain
 * or results of earlier steps.
 *
 * The arrays belong to the caller that makes them; any thread. */
#ifndef RILLE_KERNELS_CPU_FUSE_H
#define RILLE_KERNELS_CPU_FUSE_H

#include "runtime/graph/op.h"

struct fuse_arg {
    bool step; /* true: the argument is the result of step `index`; false: operand `index` of the chain */
    int index;
};
struct fuse_step {
    const struct call *call;
    struct fuse_arg arg[OP_OPERAND];
    int out; /* output of the chain that the step writes; -1: none */
    /* (a step with several results) number of the output that receives the second result; the further results are
     * written to the outputs after that one */
    int others;
};
#endif
