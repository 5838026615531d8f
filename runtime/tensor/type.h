/* type.h - the type of a tensor: dtype and shape.
 *
 * Shapes are global unless stated otherwise. dim[i] >= 0; a type with ndim 0 has one element. A number in the
 * user's program has a weak type: ndim is 0, and promotion considers only its class (PyTorch's rule). Plain
 * values; any thread. */
#ifndef RILLE_RUNTIME_TYPE_H
#define RILLE_RUNTIME_TYPE_H

#include "runtime/base/base.h"
#include "runtime/data/str.h"

enum dtype {
    DT_NONE = 0, /* the operand is absent */
#define DTYPE(name, text, bytes, class) DT_##name,
#include "runtime/tensor/dtypes.def"
#undef DTYPE
    NDTYPE
};

struct type {
    uint8_t dtype;
    uint8_t ndim;
    uint8_t weak; /* 1: the operand is a number, of which type promotion considers only the class (integer or float) */
    int64_t dim[MAX_DIM];
};

size_t dtype_bytes(enum dtype d);
const char *dtype_text(enum dtype d);
bool dtype_is_float(enum dtype d);
bool dtype_is_half(enum dtype d); /* returns true for bf16 and f16 */
/* returns the number of binary digits of a float dtype's significand, including the hidden bit; 0: not a float */
int dtype_digits(enum dtype d);
bool dtype_is_int(enum dtype d); /* returns true for i64, i32 and u8, not for bool */
/* Returns the dtype with this name. If there is none, calls fail(E_DTYPE) and returns DT_NONE. */
enum dtype dtype_parse(const char *text);
/* Returns true if the class of `from` (bool, integer, float) is no wider than the class of `to`. Otherwise a
 * conversion truncates values. */
bool dtype_class_fits(enum dtype from, enum dtype to);
/* Returns PyTorch's promotion of two dtypes, weak or not. If one is DT_NONE, returns the other. */
enum dtype dtype_promote(enum dtype a, bool a_weak, enum dtype b, bool b_weak);
/* State of the promotion of any number of operands, as in PyTorch. If an operand has dimensions, operands without
 * dimensions count only by their class. Numbers always count only by their class. Initialise with {0}. Absent
 * operands are ignored. */
struct promotion {
    enum dtype tensor, scalar, number;
};
void promotion_add(struct promotion *p, const struct type *t);
enum dtype promotion_end(const struct promotion *p);

struct type type_of(enum dtype d, int ndim, const int64_t *dim);
bool type_equal(const struct type *a, const struct type *b); /* ignores `weak` */
bool shape_equal(const struct type *a, const struct type *b);
int64_t type_numel(const struct type *t);
int64_t type_bytes(const struct type *t);
/* Checks a type. E_SHAPE: a dimension is negative, or there are more than 2^62 elements or bytes. */
int type_check(const struct type *t);
/* Computes row-major strides, in elements. */
void type_strides(const struct type *t, int64_t *stride);
/* type_print prints "f32{4, 5}"; shape_print, "{4, 5}". */
void type_print(const struct type *t, struct str *s);
void shape_print(const struct type *t, struct str *s);

/* Read and write element i of dense memory as double or int64_t. A float becomes an integer by truncation and
 * saturation. Any value becomes a bool by comparison with zero. */
double elem_get_f(enum dtype d, const void *p, int64_t i);
int64_t elem_get_i(enum dtype d, const void *p, int64_t i);
void elem_set_f(enum dtype d, void *p, int64_t i, double v);
void elem_set_i(enum dtype d, void *p, int64_t i, int64_t v);

#endif
