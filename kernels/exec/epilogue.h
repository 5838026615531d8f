/* epilogue.h - a chain of element-wise calls after a GEMM, convolution or row kernel, its producer.
 *
 * The epilogue (bias, activation, residual) is computed on the producer's first result within one task, so that
 * result has no register. Alternatively, a single call follows a product and overwrites its result (OP_FOLLOWS). An
 * exec owns the chain; a chain runs on one thread at a time. */
#ifndef RILLE_KERNELS_EPILOGUE_H
#define RILLE_KERNELS_EPILOGUE_H

#include "kernels/cpu/base/fuse.h"
#include "kernels/exec/kernel.h"

struct epilogue {
    struct exec *exec; /* the producer */
    struct exec *then; /* the epilogue; the chain's owner frees both execs */
    int nfrom;
    int from[OP_OPERAND]; /* per operand of the producer: index among the chain's operands; -1: absent */
    int to;               /* output of the chain that holds the producer's first result; -1: in scratch */
    int nmade;            /* number of the producer's results */
    int others;   /* output of the chain for the producer's second result; further results use the next outputs */
    size_t at;    /* offset of the first result if it is in scratch, bytes */
    bool follows; /* the epilogue is one call in place, with its operands in the call's order */
    int nin; /* epilogue operands: operand 0 is the producer's result, operand i > 0 is operand in[i] of the chain */
    int in[EXEC_IN];
    int nout; /* epilogue outputs: output k is output out[k] of the chain */
    int out[EXEC_IN];
    size_t scratch_bytes;
};

/* Returns the index of the producer, the last step whose operator has OP_LEADS; -1: none. */
int epilogue_by(int nstep, const struct fuse_step *step);
/* Makes the chain whose producer is step `lead`, from the arguments of exec_fused(). The arena owns the chain
 * without the execs. After a failure *made has execs to free, or is NULL. */
int epilogue_new(struct arena *a, int lead, int nstep, const struct fuse_step *step, const struct view *in,
                 const struct view *out, int device, int threads, struct epilogue **made);
/* Runs the chain; arguments as for exec_on(). */
int epilogue_run(const struct epilogue *l, void *const *in, void *const *out, void *scratch, int device, uint64_t piece,
                 struct finding *find);

#endif
