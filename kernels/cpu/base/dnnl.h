/* dnnl.h - oneDNN primitives, which kernel variants keep as their state.
 *
 * The interfaces of oneDNN 2 and 3 differ in how layouts and operations are described. Kernels use struct prim_layout
 * and struct prim_op instead; only dnnl.c uses oneDNN's own descriptions.
 *
 * A variant's prepare() describes its primitive and calls prim_new(). prim_new() makes the primitive, its memory
 * objects and its argument list once, for fixed shapes, strides and threads. prim_run() and prim_at() only set
 * addresses and execute; the caller owns their scratch. A primitive can be repeated for a batch that oneDNN cannot
 * iterate over. An exec owns the primitive; one thread at a time runs it. The process has one oneDNN engine. */
#ifndef RILLE_KERNELS_CPU_DNNL_H
#define RILLE_KERNELS_CPU_DNNL_H

#include "runtime/graph/op.h"

#include <dnnl.h>

enum { PRIM_ARG = 6 };

/* Numbers that say which operand or result an argument's data comes from: k for operand k, PRIM_OUT + k for result
 * k. */
enum { PRIM_OUT = 32, PRIM_SCRATCH = 64 };

/* Memory layout of an argument. */
struct prim_layout {
    dnnl_data_type_t dtype;
    int ndim;
    dnnl_dims_t size, stride; /* strides in elements */
    dnnl_format_tag_t tag; /* named layout, which replaces the strides; dnnl_format_tag_any: oneDNN chooses; 0: none */
};

enum prim_kind { PRIM_MATMUL, PRIM_CONV, PRIM_CONV_DATA, PRIM_CONV_WEIGHTS, PRIM_MEAN, PRIM_MEAN_DATA };

/* An operation. A gradient has the layouts of the forward pass: PRIM_CONV_DATA and PRIM_MEAN_DATA compute src from dst,
 * PRIM_CONV_WEIGHTS computes weights from src and dst. */
struct prim_op {
    enum prim_kind kind;
    struct prim_layout src, weights, dst;
    dnnl_dims_t stride, dilate, padding, padding_end; /* windows of convolutions and means */
    dnnl_dims_t kernel;                               /* sizes of windows of means */
    bool count_padding;                               /* true: the divisor of a mean includes padding */
    bool add;                                         /* true: the primitive adds to the result */
    const char *prefer; /* prefix of an implementation's name ("gemm") that is used if available; NULL: none */
};

struct prim_arg {
    int arg; /* oneDNN's number of the argument, such as DNNL_ARG_SRC */
    int from;
    /* Layout of the caller's data; if the primitive needs another layout, a run reorders the data in scratch. */
    struct prim_layout layout;
};

/* Returns the oneDNN dtype for d. Returns dnnl_data_type_undef if oneDNN cannot compute floats of this dtype on this
 * machine: f16 and f64 never, bf16 without AVX-512. */
dnnl_data_type_t prim_dtype(enum dtype d);
/* Returns true if oneDNN's products and convolutions of this dtype are fast. bf16 counts as fast only if it is
 * faster than f32: AMD cores with bf16 take half the time, but Intel cores only with AMX, because their vector units
 * multiply bf16 no faster than f32. */
bool prim_multiplies(enum dtype d);
/* Returns true if oneDNN's instruction set `isa` includes AMX. Sets above AMX have all bits of AMX, and others. */
bool prim_isa_has_amx(unsigned isa);
/* Fails with E_KERNEL and a message with `what`, the requested operation, unless status is success. */
int prim_check(dnnl_status_t status, const char *what);

/* Makes a primitive descriptor for `threads` threads, with scratch from the caller. forward: the forward pass of a
 * gradient; NULL for other operations. The caller destroys the descriptor. */
int prim_describe(const struct prim_op *op, const struct prim_op *forward, int threads, dnnl_primitive_desc_t *out);
/* Returns true if oneDNN's first choice is a plain loop, slower than any of our own. */
bool prim_is_plain(const_dnnl_primitive_desc_t pd);

struct prim;
/* Makes a primitive from the descriptor pd, which the primitive then owns. */
int prim_new(dnnl_primitive_desc_t pd, int narg, const struct prim_arg *arg, int threads, void **state,
             size_t *scratch_bytes);
/* Makes each call execute p n times. Run r adds skip[r * nskip + i] bytes to the address of argument i < nskip. p
 * owns skip and frees it. */
void prim_repeat(struct prim *p, int64_t n, int64_t *skip, int nskip);
/* Lets each run of p be followed by n runs of `more`, which add to p's result. Run j uses the addresses of p's run
 * plus first[i] + j * step[i] bytes for argument i. No argument may be in a blocked layout of oneDNN. p owns `more`. */
void prim_add(struct prim *p, struct prim *more, int64_t n, int narg, const int64_t *first, const int64_t *step);
/* Makes each call execute p for at_once images at a time, as many as p's shapes have. Argument i < n is v[i]; NULL:
 * the same data for all images. The last execution ends at the last image, so it may compute some images a second time.
 */
void prim_repeat_images(struct prim *p, int64_t at_once, int n, const struct view *const *v);
int64_t image_bytes(const struct view *v); /* returns the bytes from one image to the next in a dense view */

/* Run and drop a variant whose state is a primitive. */
int prim_run(const struct kcall *k, const void *state);
void prim_drop(void *state);

/* Runs a primitive that is a part of a variant. at[i] is the address of argument i, instead of its operand or
 * result. */
int prim_at(const struct prim *p, void *const *at, void *scratch, const char *what);

/* ---- variants that oneDNN computes, and our own products (cpu/gemm, cpu/conv) ---- */

/* Limits on the work between two checks for a stop. A product of more than `flops` per thread (twice that for 16-bit
 * floats) is computed in panels of its result and in parts of k. Each panel or part has about `flops` operations, at
 * most 1.5 times that. The sides of a panel are multiples of `step` and at least `side` (a quarter of it for 16-bit
 * floats). A batch is split into parts of that size. Tests lower the limits. */
extern struct gemm_panel {
    double flops;
    int64_t side, step;
} gemm_panel;

/* Limits on the work between two checks for a stop. A larger convolution is computed in parts of about `flops`:
 * groups of images, bands of at least `rows` rows, multiples of `channels` channels. Tests lower the limits. */
extern struct conv_part {
    double flops;
    int64_t rows, channels;
} conv_part;
/* Limit for means over windows, bytes of one image and its result. oneDNN does not compute larger images. */
extern int64_t mean_part_bytes;

bool gemm_accepts(const struct kcall *k); /* variants of matmul and contract */
bool gemm_takes(const struct kcall *k, int i);
int gemm_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* Variant of matmul: few rows by a column-major matrix (cpu/gemm/gemm_transposed.h). */
bool gemm_transposed_accepts(const struct kcall *k);
int gemm_transposed_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* Variant of both: a few rows of f32 or bf16, by our own loops (cpu/gemm/gemm_few.c). */
bool gemm_few_accepts(const struct kcall *k);
int gemm_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_few_run(const struct kcall *k, const void *state);
/* Variant of both: small f32 matrices with a row-major second operand, by our own loops (cpu/gemm/gemm_small.c). */
bool gemm_small_accepts(const struct kcall *k);
int gemm_small_run(const struct kcall *k, const void *state);
/* Variant of both: doubles, by our own loops (cpu/gemm/gemm_f64.c). */
bool gemm_f64_accepts(const struct kcall *k);
int gemm_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_f64_run(const struct kcall *k, const void *state);
/* Variant of matmul: integers, which wrap around (cpu/gemm/gemm_int.c). */
bool gemm_int_accepts(const struct kcall *k);
int gemm_int_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_int_run(const struct kcall *k, const void *state);
/* Sizes of a single-threaded product c[m,n] = a[m,k] b[k,n] in dense memory, which prim_at() runs. add: adds the
 * product to c. a and b have one dtype and are row- or column-major; c is f32. */
struct dense_product {
    enum dtype dtype;
    int64_t m, n, k;
    bool a_columns, b_columns, add;
};
int gemm_dense(const struct dense_product *p, void **product, size_t *scratch_bytes);

bool conv_accepts(const struct kcall *k); /* variants of conv2d and its gradients */
int conv_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_x_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_run(const struct kcall *k, const void *state); /* runs conv2d and the gradient of the image */
void conv_drop(void *state);
int conv_w_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_w_run(const struct kcall *k, const void *state);
void conv_w_drop(void *state);

struct plane;
bool mean_accepts(const struct kcall *k, const struct plane *p); /* variants of avg_pool2d and its gradient */
bool mean_back_accepts(const struct kcall *k, const struct plane *p);
int mean_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes);
int mean_back_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes);

#endif
