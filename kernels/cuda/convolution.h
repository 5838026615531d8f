/* convolution.h - convolutions and their gradients by a library (cuDNN).
 *
 * The record of an operator says which calls are convolutions (gpu.convolution). The library computes
 * convolutions of floats whose images are dense in one of the known orders. Pure. */
#ifndef RILLE_KERNELS_CUDA_CONVOLUTION_H
#define RILLE_KERNELS_CUDA_CONVOLUTION_H

#include "kernels/cuda/product.h"

/* Returns true if the step, the only one of its chain, is a convolution. at->y is nin: the first output. Views as in
 * exec_new(). */
bool cuda_convolution_of(const struct fuse_step *step, int nin, const struct view *in, const struct view *out,
                         struct cuda_convolution *c, struct cuda_places *at);

#endif
