/* products.h - products by cuBLASLt, for struct cuda_plugin. Any thread. */
#ifndef RILLE_KERNELS_CUDA_PLUGIN_PRODUCTS_H
#define RILLE_KERNELS_CUDA_PLUGIN_PRODUCTS_H

#include <stddef.h>

struct cuda_factors;
struct cuda_product;

/* products.cu implements the functions library, product and multiply of struct cuda_plugin. */
const char *products_library(const char **why);
void *products_find(int gpu, const struct cuda_product *p, size_t *scratch_bytes);
const char *products_multiply(int gpu, const void *algo, const struct cuda_factors *at);

#endif
