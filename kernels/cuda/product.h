/* product.h - runs matrix products, convolutions included (convolution.h), with a library, alone or with an
 * epilogue.
 *
 * The rule of a call tells whether it is a product: each letter occurs in two of x, w and y, or in all three, and
 * letters of one kind are adjacent in memory. The records of element-wise operators (struct eltwise, follow) tell
 * which operators can be an epilogue: a bias, gelu, or a multiplication by gelu's derivative. The owner of a
 * cuda_multiply needs a second method for addresses that do not suit the library. The session's thread makes a
 * cuda_multiply; a stream's thread runs it. */
#ifndef RILLE_KERNELS_CUDA_PRODUCT_H
#define RILLE_KERNELS_CUDA_PRODUCT_H

#include "kernels/cpu/base/fuse.h"
#include "runtime/base/arena.h"
#include "runtime/device/device_cuda.h"

/* Where the matrices of a product are: index of an operand of the chain, or nin + index of an output; -1: there is
 * no such matrix. */
struct cuda_places {
    int x, w, bias, aux, y;
};
/* Returns true if the whole chain is one product, step `lead`, and its epilogue. lead -1: no step is a product.
 * Operands, views and steps are as in exec_fused(). */
bool cuda_product_of(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin, const struct view *in,
                     const struct view *out, struct cuda_product *p, struct cuda_places *at);

/* Sets the dtypes of a product's factors and result, and whether the call allows rounding the factors to TF32.
 * Returns false if no library computes with these dtypes. */
bool cuda_reals_of(const struct call *c, const struct view *x, const struct view *w, const struct view *y,
                   int64_t *from, int64_t *to, int64_t *tf32);

struct cuda_multiply {
    const char *name; /* name of the library that computes the product */
    struct cuda_algo *algo;
    struct cuda_places at;
    int nin;
    size_t scratch_bytes; /* size of scratch, bytes; a multiple of 64 */
};
/* Makes a product in arena a. NULL: the chain is no product, or no library for this kind of device can compute it. */
struct cuda_multiply *cuda_multiply_new(struct arena *a, int device, int lead, int nstep, const struct fuse_step *step,
                                        int nin, const struct view *in, const struct view *out);
/* Returns true if the addresses suit the library. */
bool cuda_multiply_fits(const struct cuda_multiply *m, void *const *in, void *const *out);
/* Launches the product; fails with E_KERNEL. */
int cuda_multiply_run(const struct cuda_multiply *m, int device, void *const *in, void *const *out, void *scratch);

#endif
