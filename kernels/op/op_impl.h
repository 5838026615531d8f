/* op_impl.h - what a file of kernels/op/ needs to define its operator.
 *
 * Besides the headers of the record and of the builders: small readers of attributes and numbers, and walkers over
 * dense memory, so that a reference stays one obvious loop. Pure, but for what they write to the caller's memory; any
 * thread. */
#ifndef RILLE_KERNELS_OP_IMPL_H
#define RILLE_KERNELS_OP_IMPL_H

#include "kernels/cpu/lines.h"
#include "kernels/op/build.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/graph.h"
#include "runtime/op.h"
#include "runtime/stop.h"
#include "runtime/str.h"
#include "sbp/rule.h"

/* A body in C++ of a record's element or line; kernels/cuda/source.h says which words it has. */
#define BODY(...) #__VA_ARGS__

/* Of products and convolutions: rille_allow_tf32() sets it. */
#define TF32_ATTR                                                                                                      \
    {                                                                                                                  \
        "tf32", ATTR_BOOL, ATTR_HIDDEN,                                                                                \
            .doc = "f32 factors may be rounded to the 11 digits of TF32 where GPUs have it"                            \
    }

/* Element type of a view as references see it. */
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

/* The value of a number operand; other when it is absent. */
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

/* The dimensions that an axis attribute (INT or INTS) names, ascending, each once; not set: all of them. */
struct axes {
    int n;
    int8_t axis[MAX_DIM];
    bool has[MAX_DIM];
};
struct axes axes_of(const struct attr *a, enum attr_kind kind, int ndim);

/* Walks local positions in row-major order: at[] is the position, *global its index in the global tensor. */
struct walk {
    int64_t at[MAX_DIM];
    int64_t left; /* elements yet to visit; 0 as well when nobody wants the result (runtime/stop.h) */
    int64_t global;
};
void walk_start(struct walk *w, const struct view *v);
void walk_next(struct walk *w, const struct view *v);

/* The elements of a dense view in their order, so many neighbours of the last dimension at a time: `n` from element
 * `at` on; the first of them is element `global` of the whole. n is 0 after the last, or when nobody wants the result.
 */
enum { STRETCH_MOST = 1024 };
struct stretch {
    int64_t at, n, global;
    struct walk walk; /* over the beginnings of lines */
    struct view starts;
    int64_t line, done; /* elements of a line; those before this stretch */
};
void stretch_start(struct stretch *s, const struct view *v);
void stretch_next(struct stretch *s);

/* For line_dims: a line is all of operand 0; one element. */
void all_dims(const struct call *c, bool *gone);
void no_dims(const struct call *c, bool *gone);

/* The letter for dimension i of a rule: a, b, c... */
static inline char
letter(int i)
{
    return (char)(i < 26 ? 'a' + i : 'A' + i - 26);
}

/* The sum of two sizes. One that overflows is the largest there is, which type_check() refuses. */
static inline int64_t
size_add(int64_t a, int64_t b)
{
    int64_t n;
    return __builtin_add_overflow(a, b, &n) ? INT64_MAX : n;
}

/* Element-wise operators that pass partial sums when every operand is a tensor: add and sub. */
const char *linear_if_tensors(const struct call *c);

/* Of a product: does what its attribute `at` says of the result's dtype go with the operands'? */
int product_dtype(const struct call *c, int at);

/* Into how many parts is dimension d of operand k cut? is_cut: into several? */
int64_t cut_parts(const struct call *c, int k, int d);
bool is_cut(const struct call *c, int k, int d);

/* Sets every element of a view, whatever its strides, to `value`. */
void fill_view(const struct view *v, double value);
void fill_view_int(const struct view *v, int64_t value);
/* The key of a random operator, whose last two operands are the seed and the ordinal of the call. */
uint64_t random_key(const struct kcall *k);
/* accepts() of variants that write element after element. */
bool dense_out(const struct kcall *k);
/* Where ref takes elements of any dtype one by one, as they lie in dense memory: it, with nothing converted around. */
extern const struct kernel_variant kernel_direct[];

/* E_SHAPE when the first operand has no room for another dimension; as infer() of an operator that adds one. */
int infer_one_more(const struct call *c, int64_t *size);
/* infer() of arithmetic that truth values do not have: when all operands are bool, and the result would be. */
int infer_no_truth(const struct call *c, int64_t *size);
/* build() of comparisons: a number beside halves is one of them, rounded once, as any tensor made of it is. */
int build_comparison(struct build *b, const struct call *c, struct val *const *in, struct val **out);
/* infer() of sources: the call gives their shape; dtype f32 unless the session asks for another. */
int source_f32(const struct call *c, int64_t *size);

#endif
