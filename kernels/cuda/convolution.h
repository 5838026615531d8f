/* convolution.h - convolutions and their gradients by a library.
 *
 * Which calls are convolutions their records say (struct op, convolution). A library computes those of floats, whose
 * images lie without gaps in one dimension and nowhere over each other; what it computes of these is its own to say.
 * Pure. */
#ifndef RILLE_KERNELS_CUDA_CONVOLUTION_H
#define RILLE_KERNELS_CUDA_CONVOLUTION_H

#include "kernels/cuda/product.h"

/* Is the step, of a chain that has no other, a convolution? at->y is nin: the first output. Views as exec_new() has
 * them. */
bool cuda_convolution_of(const struct fuse_step *step, int nin, const struct view *in, const struct view *out,
                         struct cuda_convolution *c, struct cuda_places *at);

#endif
