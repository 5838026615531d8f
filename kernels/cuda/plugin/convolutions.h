/* convolutions.h - convolutions by cuDNN, for struct cuda_plugin. Any thread. */
#ifndef RILLE_KERNELS_CUDA_PLUGIN_CONVOLUTIONS_H
#define RILLE_KERNELS_CUDA_PLUGIN_CONVOLUTIONS_H

#include <stddef.h>

struct cuda_convolution;
struct cuda_factors;

/* convolutions.cu implements the functions convolver, convolution and convolve of struct cuda_plugin. */
const char *convolutions_library(const char **why);
void *convolutions_find(int gpu, const struct cuda_convolution *c, size_t *scratch_bytes);
const char *convolutions_convolve(int gpu, const void *algo, const struct cuda_factors *at);

#endif
