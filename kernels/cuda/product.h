/* product.h - products of matrices by a library, alone or with what follows them; and how such a call is run, which
 * convolutions are too (convolution.h).
 *
 * Which calls are products follows from their rules: each letter is in two of the operands and the result, or in all
 * three of them, and the letters of a kind lie together in memory. What follows one - a bias, gelu, gelu's derivative
 * times it - is in the records of element-wise operators (struct eltwise, follow). Whoever has a cuda_multiply has
 * another way too: for addresses that do not suit the library. Made by the session's thread, run by a stream's. */
#ifndef RILLE_KERNELS_CUDA_PRODUCT_H
#define RILLE_KERNELS_CUDA_PRODUCT_H

#include "kernels/cpu/fuse.h"
#include "runtime/arena.h"
#include "runtime/device_cuda.h"

/* Which operand of a chain, or output - nin, is what; -1: there is none. */
struct cuda_places {
    int x, w, bias, aux, y;
};
/* Is the whole chain one product, which step `lead` is (-1: there is none), and what follows it? Operands, views and
 * steps as exec_fused() has them. */
bool cuda_product_of(struct arena *a, int lead, int nstep, const struct fuse_step *step, int nin, const struct view *in,
                     const struct view *out, struct cuda_product *p, struct cuda_places *at);

/* The dtypes of a product's factors and result, and whether the call lets factors be rounded. False: no library
 * computes with these. */
bool cuda_reals_of(const struct call *c, const struct view *x, const struct view *w, const struct view *y,
                   int64_t *from, int64_t *to, int64_t *tf32);

struct cuda_multiply {
    const char *name; /* of the library */
    struct cuda_way *way;
    struct cuda_places at;
    int nin;
    size_t scratch_bytes; /* a multiple of 64 */
};
/* In arena a; NULL: it is none, or no library that a device of this kind has knows a way. */
struct cuda_multiply *cuda_multiply_new(struct arena *a, int device, int lead, int nstep, const struct fuse_step *step,
                                        int nin, const struct view *in, const struct view *out);
/* Does it suit these addresses? */
bool cuda_multiply_fits(const struct cuda_multiply *m, void *const *in, void *const *out);
/* Launches it. E_KERNEL. */
int cuda_multiply_run(const struct cuda_multiply *m, int device, void *const *in, void *const *out, void *scratch);

#endif
