/* convolution.h - finds convolutions, and gradients of convolutions, that a library (cuDNN) can compute.
 *
 * The record of an operator says which calls are convolutions (gpu.convolution). The library computes convolutions
 * of floats whose images are dense in NCHW or NHWC order. Pure. */
#ifndef RILLE_KERNELS_CUDA_CONVOLUTION_H
#define RILLE_KERNELS_CUDA_CONVOLUTION_H

#include "kernels/cuda/product.h"

/* Returns true if the step, the only one of its chain, is a convolution that the library can compute. Sets *c to
 * the convolution, and *at to the indices of its operands and result in the chain. The views are those that
 * exec_new() receives. */
bool cuda_convolution_of(const struct fuse_step *step, int nin, const struct view *in, const struct view *out,
                         struct cuda_convolution *c, struct cuda_places *at);

#endif
