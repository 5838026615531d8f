/* method_epilogue.h - computes a product or row kernel and the element-wise calls after it. Any thread. */
#ifndef RILLE_KERNELS_EXEC_METHOD_EPILOGUE_H
#define RILLE_KERNELS_EXEC_METHOD_EPILOGUE_H

struct fuse_step;

/* Returns the index of a chain's producer: the last step whose operator is a product or row kernel (OP_LEADS). The
 * chain's element-wise steps read the producer's result. -1: the chain has no producer. */
int epilogue_by(int nstep, const struct fuse_step *step);

#endif
