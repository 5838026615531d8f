/* dnnl.h - oneDNN primitives as the state of kernel variants.
 *
 * A variant's prepare() describes its primitive and calls prim_new(), which makes the primitive, its memory objects and
 * its list of arguments once, for fixed shapes, strides and threads. prim_run() and prim_at() only set addresses and
 * execute; the caller owns their scratch. A primitive can repeat over a batch that oneDNN cannot walk itself. Its exec
 * owns it; one thread at a time runs it. One engine serves the process. */
#ifndef RILLE_KERNELS_CPU_DNNL_H
#define RILLE_KERNELS_CPU_DNNL_H

#include "runtime/op.h"

#include <dnnl.h>

enum { PRIM_ARG = 6 };

/* Where the bytes of an argument come from: operand k is k, result k is PRIM_OUT + k. */
enum { PRIM_OUT = 32, PRIM_SCRATCH = 64 };

struct prim_arg {
    int arg; /* DNNL_ARG_SRC... */
    int from;
    dnnl_memory_desc_t desc; /* as it lies; where the primitive wants it otherwise, a run brings it to scratch so */
};

/* The dtype in oneDNN's words; dnnl_data_type_undef when it computes no floats of this kind on this machine: f16 and
 * f64 on none, bf16 on none without AVX-512. */
dnnl_data_type_t prim_dtype(enum dtype d);
/* Are products and convolutions of this dtype worth asking it for? bf16 where they are faster than of f32: cores of AMD
 * that have any take half as long, Intel's by AMX alone; their vectors multiply no more bf16 than f32. */
bool prim_multiplies(enum dtype d);
/* E_KERNEL, naming what we asked of oneDNN, unless status is success. */
int prim_check(dnnl_status_t status, const char *what);

/* A primitive descriptor for `threads` threads with scratch of the caller; hint is that of the forward pass where the
 * kind wants one. prefer: takes the implementation whose name begins so ("gemm"), if there is one; NULL: the first that
 * oneDNN offers. add: adds the result to what is there. The caller destroys it. */
int prim_describe(const_dnnl_op_desc_t op, int threads, const_dnnl_primitive_desc_t hint, const char *prefer, bool add,
                  dnnl_primitive_desc_t *out);
/* Is the first implementation that oneDNN would take a plain loop, slower than anything we have? */
bool prim_is_plain(const_dnnl_primitive_desc_t pd);

struct prim;
/* Takes pd over. */
int prim_new(dnnl_primitive_desc_t pd, int narg, const struct prim_arg *arg, int threads, void **state,
             size_t *scratch_bytes);
/* Makes a call execute p n times; run r adds skip[r * nskip + i] bytes to argument i < nskip. Takes skip over, and
 * frees it. */
void prim_repeat(struct prim *p, int64_t n, int64_t *skip, int nskip);
/* Makes each run of p be followed by n of `more`, which add to its result: the j-th has its arguments first[i] + j *
 * step[i] bytes from those of p, and none in an order of oneDNN's own. Takes more over. */
void prim_add(struct prim *p, struct prim *more, int64_t n, int narg, const int64_t *first, const int64_t *step);
/* Makes a call execute p for at_once images at a time, as many as its shapes have; argument i < n is v[i], NULL: the
 * same each time. The last run ends where the images do, and computes some of them again. */
void prim_repeat_images(struct prim *p, int64_t at_once, int n, const struct view *const *v);
int64_t image_bytes(const struct view *v); /* from one to the next, of a dense one */

/* The run and drop of every such variant. */
int prim_run(const struct kcall *k, const void *state);
void prim_drop(void *state);

/* Runs a primitive that is a part of a variant: at[i] is where its argument i lies, whatever it says of operands and
 * results. */
int prim_at(const struct prim *p, void *const *at, void *scratch, const char *what);

/* ---- variants (cpu/gemm.c, cpu/conv.c, cpu/pool_dnnl.c) ---- */

/* A product of more than so many flops a thread (where the result is halves: twice as many) is computed in panels of
 * its result whose sides are at least `side` elements (of halves: a quarter) and multiples of `step`, and in parts of
 * k, of about so many flops, at most half as many again; a batch of products goes in parts of that. Tests make it
 * small. */
extern struct gemm_panel {
    double flops;
    int64_t side, step;
} gemm_panel;

/* A convolution of more flops goes in parts of about so many: of its images, of bands of at least so many rows of
 * theirs, and of multiples of so many channels. Tests make it small. */
extern struct conv_part {
    double flops;
    int64_t rows, channels;
} conv_part;
/* The same of means over windows, by the bytes of image and result; images of more are not oneDNN's. */
extern int64_t mean_part_bytes;

bool gemm_accepts(const struct kcall *k); /* matmul */
bool gemm_takes(const struct kcall *k, int i);
int gemm_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
bool contract_accepts(const struct kcall *k); /* contract */
bool contract_takes(const struct kcall *k, int i);
int contract_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* The same of rows, not many, by a matrix that lies column by column (cpu/gemm_turned.h). */
bool gemm_turned_accepts(const struct kcall *k);
int gemm_turned_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
/* The same of a few rows of f32, or of bf16, by our own loops (cpu/gemm_few.c). */
bool gemm_few_accepts(const struct kcall *k);
int gemm_few_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_few_run(const struct kcall *k, const void *state);
bool contract_few_accepts(const struct kcall *k);
int contract_few_run(const struct kcall *k, const void *state);
/* The same of small matrices of f32, where the second lies row by row, by our own loops (cpu/gemm_small.c). */
bool gemm_small_accepts(const struct kcall *k);
int gemm_small_run(const struct kcall *k, const void *state);
bool contract_small_accepts(const struct kcall *k);
int contract_small_run(const struct kcall *k, const void *state);
/* The same of doubles, by our own loops (cpu/gemm_f64.c). */
bool gemm_f64_accepts(const struct kcall *k);
int gemm_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_f64_run(const struct kcall *k, const void *state);
bool contract_f64_accepts(const struct kcall *k);
int contract_f64_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int contract_f64_run(const struct kcall *k, const void *state);
/* The same of whole numbers, which wrap (cpu/gemm_int.c). */
bool gemm_int_accepts(const struct kcall *k);
int gemm_int_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int gemm_int_run(const struct kcall *k, const void *state);
/* c[m,n] = a[m,k] b[k,n] in dense memory, or c += with add, for prim_at(): a and b of a dtype, row by row or column by
 * column, c of f32; one thread. */
struct dense_product {
    enum dtype dtype;
    int64_t m, n, k;
    bool a_columns, b_columns, add;
};
int gemm_dense(const struct dense_product *p, void **product, size_t *scratch_bytes);

bool conv_accepts(const struct kcall *k); /* conv2d and its gradients */
int conv_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_x_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_run(const struct kcall *k, const void *state); /* of these two */
void conv_drop(void *state);
int conv_w_prepare(const struct kcall *k, void **state, size_t *scratch_bytes);
int conv_w_run(const struct kcall *k, const void *state);
void conv_w_drop(void *state);

struct plane;
bool mean_accepts(const struct kcall *k, const struct plane *p); /* avg_pool2d and its gradient */
bool mean_back_accepts(const struct kcall *k, const struct plane *p);
int mean_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes);
int mean_back_prepare(const struct kcall *k, const struct plane *p, void **state, size_t *scratch_bytes);

#endif
