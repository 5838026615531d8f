/* product.h - runs matrix products and convolutions (convolution.h) with a library of the device (cuBLASLt,
 * cuDNN), alone or with an epilogue.
 *
 * A call is a product y = x w if each letter of its SBP rule occurs in two of x, w and y, or in all three, and the
 * dimensions form matrices (product.c). Element-wise operators can be an epilogue if their records say so (struct
 * eltwise, field `follow`). They are a bias, gelu, or a multiplication by gelu's derivative. The library needs
 * aligned addresses, so the owner of a struct cuda_multiply needs a second method for other addresses. The
 * session's thread makes a cuda_multiply; a stream's thread runs it. */
#ifndef RILLE_KERNELS_CUDA_PRODUCT_H
#define RILLE_KERNELS_CUDA_PRODUCT_H

#include "kernels/cpu/base/fuse.h"
#include "runtime/data/arena.h"
#include "runtime/device/device_cuda.h"

/* Indices of a product's matrices in the chain. i denotes operand i, nin + k denotes output k; -1: the product has
 * no such matrix. */
struct cuda_places {
    int x, w, bias, aux, y;
};
/* Returns true if the whole chain is one product and its epilogue. lead: index of the step that is the product;
 * -1: none, so the result is false. Operands, views and steps are as in exec_fused(). */
bool cuda_product_of(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin, const struct view *in,
                     const struct view *out, struct cuda_product *p, struct cuda_places *at);

/* Sets *from to the code (CUDA_F32, ...) of the factors' dtype, and *to to that of the result's dtype. Sets *tf32
 * to 1 if the call allows rounding the factors to TF32. Returns false if no library computes with these dtypes. */
bool cuda_reals_of(const struct call *c, const struct view *x, const struct view *w, const struct view *y,
                   int64_t *from, int64_t *to, int64_t *tf32);

struct cuda_multiply {
    const char *name; /* name of the library that computes the product */
    struct cuda_algo *algo;
    struct cuda_places at;
    int nin;
    size_t scratch_bytes; /* size of scratch, bytes; a multiple of 64 */
};
/* Makes a product in arena a. Returns NULL if the chain is not a product, or if no library of this kind of device
 * can compute it. */
struct cuda_multiply *cuda_multiply_new(struct arena *a, int device, int lead, int nstep, const struct fuse_step *step,
                                        int nin, const struct view *in, const struct view *out);
/* Returns true if the addresses are aligned as the library requires. */
bool cuda_multiply_fits(const struct cuda_multiply *m, void *const *in, void *const *out);
/* Launches the product; fails with E_KERNEL. */
int cuda_multiply_run(const struct cuda_multiply *m, int device, void *const *in, void *const *out, void *scratch);

#endif
