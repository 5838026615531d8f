/* op_impl.h - declarations that a file of kernels/op/ needs to define its operator.
 *
 * Includes the headers of the record and of the builders. Declares small functions that read attributes and numbers,
 * and loops over dense memory, so that a reference stays one obvious loop. Pure, except for writes to the caller's
 * memory; any thread. */
#ifndef RILLE_KERNELS_OP_BASE_OP_IMPL_H
#define RILLE_KERNELS_OP_BASE_OP_IMPL_H

#include "kernels/cpu/rows/lines.h"
#include "kernels/op/base/build.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/graph/graph.h"
#include "runtime/graph/op.h"
#include "runtime/base/stop.h"
#include "runtime/data/str.h"
#include "sbp/write.h"
#include "sbp/infer.h"

/* Turns C++ code into the text of a GPU body, such as the field `element` or `line` of a record;
 * docs/gpu-bodies.md lists the names that the code may use. */
#define BODY(...) #__VA_ARGS__

/* The attribute tf32 of products and convolutions, set by rille_allow_tf32(). */
#define TF32_ATTR                                                                                                      \
    {                                                                                                                  \
        "tf32", ATTR_BOOL, ATTR_HIDDEN, .doc = "allow GPUs to round f32 factors to TF32"                               \
    }

/* Return the data of a view in the element type of the reference, double or int64_t. */
static inline double *
f64_of(const struct view *v)
{
    assert(v->dtype == DT_F64);
    return v->data;
}
static inline int64_t *
i64_of(const struct view *v)
{
    assert(v->dtype == DT_I64);
    return v->data;
}
static inline bool
is_real(const struct view *v)
{
    return v->dtype == DT_F64;
}

/* Returns the value of a number operand, or `other` if the operand is absent. */
double number_f(const struct view *v, double other);
int64_t number_i(const struct view *v, int64_t other);
static inline bool
absent(const struct type *t)
{
    return t->dtype == DT_NONE;
}
static inline bool
is_number(const struct type *t)
{
    return t->weak;
}

/* The dimensions that an axis attribute (INT or INTS) lists, ascending, without duplicates; not set: all dimensions. */
struct axes {
    int n;
    int8_t axis[MAX_DIM];
    bool has[MAX_DIM];
};
struct axes axes_of(const struct attr *a, enum attr_kind kind, int ndim);

/* Iterates over the positions of a shard in row-major order. at: position in the shard; global: row-major index of
 * its element in the global tensor. */
struct walk {
    int64_t at[MAX_DIM];
    int64_t left; /* number of elements not yet visited; 0 also if the run was stopped (runtime/base/stop.h) */
    int64_t global;
};
void walk_start(struct walk *w, const struct view *v);
void walk_next(struct walk *w, const struct view *v);

/* Iterates over a dense view in stretches: at most STRETCH_MOST adjacent elements along the last dimension. A
 * stretch has `n` elements, from element `at` of the view on. That element has the index `global` in the global
 * tensor. n is 0 after the last stretch, or if the run was stopped. */
enum { STRETCH_MOST = 1024 };
struct stretch {
    int64_t at, n, global;
    struct walk walk; /* position of the start of the current line */
    struct view starts;
    /* line: number of elements in a line; done: number of elements of the line before this stretch */
    int64_t line, done;
};
void stretch_start(struct stretch *s, const struct view *v);
void stretch_next(struct stretch *s);

/* Implement the callback line_dims, which marks the dimensions of operand 0 that a line spans. all_dims: the whole
 * operand is one line. no_dims: each element is a line. */
void all_dims(const struct call *c, bool *gone);
void no_dims(const struct call *c, bool *gone);

/* Returns the letter of dimension i in an SBP rule: a, b, c... */
static inline char
letter(int i)
{
    return (char)(i < 26 ? 'a' + i : 'A' + i - 26);
}

/* Adds two sizes of dimensions. On overflow returns INT64_MAX, which type_check() rejects. */
static inline int64_t
size_add(int64_t a, int64_t b)
{
    int64_t n;
    return __builtin_add_overflow(a, b, &n) ? INT64_MAX : n;
}

/* Returns op_partial.linear for add and sub: "01" (linear in both operands together) if both are tensors, so that
 * partial sums can be added without completing them; else NULL. */
const char *linear_if_tensors(const struct call *c);

/* Checks the result dtype of a product, given by attribute `at`. The dtype must be the operands' promoted dtype, or
 * f32 for 16-bit floats; else fails with E_DTYPE. */
int product_dtype(const struct call *c, int at);

/* cut_parts returns the number of shards along dimension d of operand k. is_cut returns true if this number is more
 * than 1. */
int64_t cut_parts(const struct call *c, int k, int d);
bool is_cut(const struct call *c, int k, int d);

/* Implements flops() for operators that copy: one operation per element of the result. */
double flops_of_copy(const struct call *c);

/* Sets every element of a view to `value`, whatever the strides of the view. */
void fill_view(const struct view *v, double value);
void fill_view_int(const struct view *v, int64_t value);
/* Returns the random key of a call. The key is computed from the seed and the ordinal of the call, its last two
 * operands. */
uint64_t random_key(const struct kcall *k);
/* Implements accepts() for variants that write results element by element: returns true if result 0 is dense. */
bool dense_out(const struct kcall *k);
/* Variants that run the reference directly on memory of any dtype, without conversion. kernel_direct needs dense
 * memory; kernel_strided accepts memory of any strides. */
extern const struct kernel_variant kernel_direct[], kernel_strided[];

/* Implements infer() for an operator that adds a dimension; fails with E_SHAPE if the first operand already has
 * MAX_DIM dimensions. */
int infer_one_more(const struct call *c, int64_t *size);
/* Implements infer() for arithmetic that is undefined for bool; fails with E_DTYPE if the result would be bool, that
 * is, if all operands are bool. */
int infer_no_truth(const struct call *c, int64_t *size);
/* Implements build() for comparisons. If a number is compared with a 16-bit float tensor, rounds the number to the
 * 16-bit dtype first, because a tensor of that number would be rounded, too. */
int build_comparison(struct build *b, const struct call *c, struct val *const *in, struct val **out);
/* Implements infer() for sources, which have no tensors as operands; attributes give the shape. The dtype of the
 * result is f32, unless an attribute gives another. */
int source_f32(const struct call *c, int64_t *size);

#endif
