/* cuda_product.h - caches the algorithms that libraries choose for products and convolutions. Any thread. */
#ifndef RILLE_RUNTIME_DEVICE_CUDA_PRODUCT_H
#define RILLE_RUNTIME_DEVICE_CUDA_PRODUCT_H

#include "runtime/device/device_cuda.h"

/* Returns the algorithm for a product. *out NULL: a GPU of the process has no library or no algorithm. Session's
 * thread. */
void cuda_product_get(const struct cuda_product *p, struct cuda_algo **out);
void cuda_convolution_get(const struct cuda_convolution *c, struct cuda_algo **out);
size_t cuda_algo_scratch(const struct cuda_algo *w);
/* Launches a product or convolution. E_KERNEL: the device is broken. */
int cuda_algo_run(const struct cuda_algo *w, int device, const struct cuda_factors *at);

#endif
