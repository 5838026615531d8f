/* type.h - the type of a tensor: dtype and shape.
 *
 * Shapes are global unless stated otherwise. dim[i] >= 0; ndim 0 is one element. A weak type is that of a number in
 * the user's program: only its class takes part in promotion (PyTorch's rule), and its ndim is 0. A value; any
 * thread. */
#ifndef RILLE_RUNTIME_TYPE_H
#define RILLE_RUNTIME_TYPE_H

#include "runtime/base/base.h"
#include "runtime/base/str.h"

enum dtype {
    DT_NONE = 0, /* an operand that is absent */
#define DTYPE(name, text, bytes, class) DT_##name,
#include "runtime/tensor/dtypes.def"
#undef DTYPE
    NDTYPE
};

struct type {
    uint8_t dtype;
    uint8_t ndim;
    uint8_t weak; /* a number: class counts, width does not */
    int64_t dim[MAX_DIM];
};

size_t dtype_bytes(enum dtype d);
const char *dtype_text(enum dtype d);
bool dtype_is_float(enum dtype d);
bool dtype_is_half(enum dtype d); /* bf16, f16 */
int dtype_digits(enum dtype d);   /* binary digits of a float, with the hidden bit; 0: not a float */
bool dtype_is_int(enum dtype d);  /* i64 i32 u8, not bool */
/* Returns the dtype; DT_NONE after fail(E_DTYPE), which quotes the text. */
enum dtype dtype_parse(const char *text);
/* Returns true if the class of from (bool, integers, floats) is no wider than that of to. Otherwise a conversion
 * truncates values. */
bool dtype_class_fits(enum dtype from, enum dtype to);
/* Returns PyTorch's promotion of two dtypes, weak or not. If one is DT_NONE, returns the other. */
enum dtype dtype_promote(enum dtype a, bool a_weak, enum dtype b, bool b_weak);
/* Promotion of any number of operands, as in PyTorch. An operand without dimensions counts by its class only, beside
 * an operand with dimensions; a number counts so beside both. Start with {0}; absent operands are ignored. */
struct promotion {
    enum dtype tensor, scalar, number;
};
void promotion_add(struct promotion *p, const struct type *t);
enum dtype promotion_end(const struct promotion *p);

struct type type_of(enum dtype d, int ndim, const int64_t *dim);
bool type_equal(const struct type *a, const struct type *b); /* ignores weak */
bool shape_equal(const struct type *a, const struct type *b);
int64_t type_numel(const struct type *t);
int64_t type_bytes(const struct type *t);
/* E_SHAPE when a dim is negative or elements or bytes pass 2^62. */
int type_check(const struct type *t);
/* Row-major strides in elements. */
void type_strides(const struct type *t, int64_t *stride);
/* "f32{4, 5}"; a shape alone: "{4, 5}". */
void type_print(const struct type *t, struct str *s);
void shape_print(const struct type *t, struct str *s);

/* Convert half precision with rounding to nearest even; NaN stays NaN. */
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
/* Read and write element i of dense memory as double or int64. Float to integer truncates and saturates; any value
 * to bool is "not zero". */
double elem_get_f(enum dtype d, const void *p, int64_t i);
int64_t elem_get_i(enum dtype d, const void *p, int64_t i);
void elem_set_f(enum dtype d, void *p, int64_t i, double v);
void elem_set_i(enum dtype d, void *p, int64_t i, int64_t v);

#endif
