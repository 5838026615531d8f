/* dnnl.h - oneDNN primitives, which kernel variants keep as their state.
 *
 * oneDNN 2 and 3 describe layouts and operations with different interfaces. Kernels use struct prim_layout and
 * struct prim_op instead; only dnnl.c uses oneDNN's own descriptions.
 *
 * A variant's prepare() describes its primitive and calls prim_new(). prim_new() makes the primitive, its memory
 * objects and its argument list once, for fixed shapes, strides and threads. prim_run() and prim_at() only set
 * addresses and execute; the caller owns the scratch. If oneDNN cannot iterate over a batch, the primitive is
 * executed for each part of the batch. An exec owns the primitive; one thread at a time runs the exec. The process has
 * one oneDNN engine. */
#ifndef RILLE_KERNELS_CPU_DNNL_H
#define RILLE_KERNELS_CPU_DNNL_H

#include "runtime/graph/op.h"

#include <dnnl.h>

enum { PRIM_ARG = 6 };

/* Numbers that name the source of an argument's data: k for operand k, PRIM_OUT + k for result k, PRIM_SCRATCH for
 * scratch. */
enum { PRIM_OUT = 32, PRIM_SCRATCH = 64 };

/* Memory layout of an argument. */
struct prim_layout {
    dnnl_data_type_t dtype;
    int ndim;
    dnnl_dims_t size, stride; /* strides in elements */
    dnnl_format_tag_t tag;    /* named layout instead of strides; dnnl_format_tag_any: oneDNN chooses; 0: none */
};

enum prim_kind { PRIM_MATMUL, PRIM_CONV, PRIM_CONV_DATA, PRIM_CONV_WEIGHTS, PRIM_MEAN, PRIM_MEAN_DATA };

/* An operation. Its arguments are src, weights and dst of the forward pass, or their gradients. PRIM_CONV_DATA and
 * PRIM_MEAN_DATA compute the gradient of src from the gradient of dst. PRIM_CONV_WEIGHTS computes the gradient of
 * weights from src and the gradient of dst. */
struct prim_op {
    enum prim_kind kind;
    struct prim_layout src, weights, dst;
    dnnl_dims_t stride, dilate, padding, padding_end; /* windows of convolutions and average pooling */
    dnnl_dims_t kernel;                               /* window sizes of average pooling */
    bool count_padding;                               /* true: averages count padding */
    bool add;                                         /* true: the primitive adds to the result */
    const char *prefer; /* preferred implementation: prefix of its name ("gemm"); NULL: none */
};

struct prim_arg {
    int arg; /* oneDNN's number of the argument, such as DNNL_ARG_SRC */
    int from;
    /* Layout of the caller's data; if the primitive needs another layout, a run reorders the data in scratch. */
    struct prim_layout layout;
};

/* Returns the oneDNN dtype for d; dnnl_data_type_undef: oneDNN is not used for this dtype. That holds for f16 and
 * f64, and for bf16 without AVX-512. */
dnnl_data_type_t prim_dtype(enum dtype d);
/* Returns true if oneDNN's products and convolutions of this dtype are fast. bf16 counts as fast only if it is
 * faster than f32. On AMD cores with bf16 instructions bf16 takes half the time of f32. On Intel cores bf16 is
 * faster only with AMX, because their vector units multiply bf16 no faster than f32. */
bool prim_multiplies(enum dtype d);
/* Returns true if oneDNN's instruction set `isa` includes AMX. isa: oneDNN's mask; a mask includes AMX if it has all
 * bits of oneDNN's mask for AMX. */
bool prim_isa_has_amx(unsigned isa);
bool prim_has_amx(void); /* returns true if oneDNN uses AMX on this processor */

/* Makes a primitive descriptor for `threads` threads; the caller provides the primitive's scratch. forward: the
 * operation of the forward pass if op is a gradient; otherwise NULL. The caller destroys the descriptor. */
int prim_describe(const struct prim_op *op, const struct prim_op *forward, int threads, dnnl_primitive_desc_t *out);
/* Returns true if oneDNN's first choice is its reference loop, which is slower than any of our own loops. */
bool prim_is_plain(const_dnnl_primitive_desc_t pd);

struct prim;
/* Makes a primitive from the descriptor pd. The primitive then owns pd. */
int prim_new(dnnl_primitive_desc_t pd, int narg, const struct prim_arg *arg, int threads, void **state,
             size_t *scratch_bytes);
/* Makes each call execute p n times. Execution r adds skip[r * nskip + i] bytes to the address of argument i <
 * nskip. p owns skip and frees it. */
void prim_repeat(struct prim *p, int64_t n, int64_t *skip, int nskip);
/* Makes each run of p be followed by n runs of the primitive `more`, which add to p's result. In run j of `more`,
 * the address of argument i is its address in p's run plus first[i] + j * step[i] bytes. No argument may be in a
 * blocked layout of oneDNN. p owns `more`. */
void prim_add(struct prim *p, struct prim *more, int64_t n, int narg, const int64_t *first, const int64_t *step);
/* Makes each call execute p once for every at_once images, where at_once is the number of images in p's shapes.
 * v[i]: view of all images of argument i < n; NULL: every execution uses the same data. The last execution ends at
 * the last image, so it may compute some images a second time. */
void prim_repeat_images(struct prim *p, int64_t at_once, int n, const struct view *const *v);
int64_t image_bytes(const struct view *v); /* returns the size of one image in a dense view, bytes */

/* Run and drop a variant whose state is a primitive. */
int prim_run(const struct kcall *k, const void *state);
void prim_drop(void *state);

/* Runs a primitive that is a part of a variant. at[i] is the address of argument i; the call's operands and results
 * are not used. */
int prim_at(const struct prim *p, void *const *at, void *scratch, const char *what);
/* Ends the threads that primitives use on the calling thread; the next primitive starts new ones. Must be called
 * before fork(), because a child process would wait for ever for threads that only its parent has. */
void prim_end_threads(void);

#endif
