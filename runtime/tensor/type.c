/* type.c - functions on dtypes and shapes: promotion, sizes, half precision, and single elements in memory. */
#include "runtime/tensor/type.h"

#include "runtime/base/error.h"
#include "runtime/tensor/half.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *text;
    size_t bytes;
    char class;
} dtypes[NDTYPE] = {
    [DT_NONE] = {"none", 0, 0},
#define DTYPE(name, text, bytes, class) [DT_##name] = {text, bytes, class},
#include "runtime/tensor/dtypes.def"
#undef DTYPE
};

size_t
dtype_bytes(enum dtype d)
{
    return dtypes[d].bytes;
}

const char *
dtype_text(enum dtype d)
{
    return dtypes[d].text;
}

bool
dtype_is_float(enum dtype d)
{
    return dtypes[d].class == 'F';
}

bool
dtype_is_half(enum dtype d)
{
    return d == DT_BF16 || d == DT_F16;
}

int
dtype_digits(enum dtype d)
{
    static const int digits[NDTYPE] = {[DT_F64] = 53, [DT_F32] = 24, [DT_F16] = 11, [DT_BF16] = 8};
    return digits[d];
}

bool
dtype_is_int(enum dtype d)
{
    return dtypes[d].class == 'I';
}

/* Returns Rille's name for a dtype that has this name in other libraries; NULL: none. */
static const char *
dtype_of_others(const char *text)
{
    static const char *const names[][2] = {
        {"float32", "f32"}, {"float", "f32"}, {"float64", "f64"}, {"double", "f64"}, {"bfloat16", "bf16"},
        {"float16", "f16"}, {"half", "f16"},  {"int32", "i32"},   {"int", "i32"},    {"int64", "i64"},
        {"long", "i64"},    {"uint8", "u8"},  {"byte", "u8"}};
    for (size_t i = 0; i < countof(names); i++)
        if (!strcmp(text, names[i][0])) return names[i][1];
    return NULL;
}

/* Fails because a text is no dtype. If the text is another library's name of a dtype, or names a device, the error
 * says what to write instead. */
static void
unknown_dtype(const char *text)
{
    size_t n = strcspn(text, ":");
    const char *ours = dtype_of_others(text);
    bool device = (n == 3 && !strncmp(text, "cpu", n)) || (n == 4 && !strncmp(text, "cuda", n));
    if (ours)
        fail(E_DTYPE, "unknown dtype \"%s\": write \"%s\"", text, ours);
    else if (device)
        fail(E_DTYPE,
             "expected a dtype such as \"f32\", found the device \"%s\"; x:to_global{placement = "
             "rille.placement(\"%.*s\", {0}), sbp = \"B\"} moves x there",
             text, (int)n, text);
    else
        fail(E_DTYPE, "unknown dtype \"%s\": expected f32, f64, bf16, f16, i32, i64, u8 or bool", text);
}

enum dtype
dtype_parse(const char *text)
{
    for (int d = DT_NONE + 1; d < NDTYPE; d++)
        if (!strcmp(text, dtypes[d].text)) return (enum dtype)d;
    unknown_dtype(text);
    return DT_NONE;
}

/* ---- promoting dtypes ---- */

static int
class_rank(enum dtype d)
{
    return dtype_is_float(d) ? 2 : dtype_is_int(d) ? 1 : 0;
}

bool
dtype_class_fits(enum dtype from, enum dtype to)
{
    return class_rank(from) <= class_rank(to);
}

/* Returns the dtype of a promotion in which the widest class occurs only in numbers of the program, not in
 * tensors. */
static enum dtype
class_default(enum dtype d)
{
    static const enum dtype by_rank[] = {DT_BOOL, DT_I64, DT_F32};
    return by_rank[class_rank(d)];
}

/* Returns the wider of two dtypes of one class. The lines of dtypes.def are in order of promotion, except bf16 and
 * f16: neither holds the values of the other. */
static enum dtype
promote_strong(enum dtype a, enum dtype b)
{
    if ((a == DT_BF16 && b == DT_F16) || (a == DT_F16 && b == DT_BF16)) return DT_F32;
    return MAX(a, b);
}

enum dtype
dtype_promote(enum dtype a, bool a_weak, enum dtype b, bool b_weak)
{
    if (a == DT_NONE) return b;
    if (b == DT_NONE) return a;
    if (!a_weak && !b_weak) return promote_strong(a, b);
    if (a_weak && b_weak) return class_default(MAX(a, b));
    enum dtype strong = a_weak ? b : a, weak = a_weak ? a : b;
    return class_rank(weak) > class_rank(strong) ? class_default(weak) : strong;
}

void
promotion_add(struct promotion *p, const struct type *t)
{
    enum dtype *of = t->weak ? &p->number : t->ndim ? &p->tensor : &p->scalar;
    *of = dtype_promote(*of, t->weak, (enum dtype)t->dtype, t->weak);
}

enum dtype
promotion_end(const struct promotion *p)
{
    bool wider = p->tensor == DT_NONE || class_rank(p->scalar) > class_rank(p->tensor);
    enum dtype d = wider && p->scalar != DT_NONE ? p->scalar : p->tensor;
    if (d == DT_NONE) return p->number == DT_NONE ? DT_NONE : class_default(p->number);
    return dtype_promote(d, false, p->number, true);
}

/* ---- checking and printing types ---- */

struct type
type_of(enum dtype d, int ndim, const int64_t *dim)
{
    struct type t = {.dtype = (uint8_t)d, .ndim = (uint8_t)ndim};
    assert(ndim >= 0 && ndim <= MAX_DIM);
    for (int i = 0; i < ndim; i++) t.dim[i] = dim[i];
    return t;
}

bool
shape_equal(const struct type *a, const struct type *b)
{
    if (a->ndim != b->ndim) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->dim[d] != b->dim[d]) return false;
    return true;
}

bool
type_equal(const struct type *a, const struct type *b)
{
    return a->dtype == b->dtype && shape_equal(a, b);
}

int64_t
type_numel(const struct type *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++) n *= t->dim[d];
    return n;
}

int64_t
type_bytes(const struct type *t)
{
    return type_numel(t) * (int64_t)dtype_bytes(t->dtype);
}

static int
refuse_shape(const struct type *t, const char *why)
{
    struct str s = {0};
    shape_print(t, &s);
    int status = fail(E_SHAPE, "shape %s %s", str_text(&s), why);
    str_free(&s);
    return status;
}

/* Checks a type. Counts empty dimensions as one element, so that strides cannot overflow, either. */
int
type_check(const struct type *t)
{
    int64_t capacity = ((int64_t)1 << 62) / (int64_t)MAX(dtype_bytes(t->dtype), (size_t)1);
    for (int d = 0; d < t->ndim; d++) {
        if (t->dim[d] < 0) return refuse_shape(t, "has a negative size");
        capacity /= MAX(t->dim[d], 1);
    }
    return capacity > 0 ? 0 : refuse_shape(t, "is larger than 2^62 bytes");
}

void
type_strides(const struct type *t, int64_t *stride)
{
    int64_t n = 1;
    for (int d = t->ndim - 1; d >= 0; d--) {
        stride[d] = n;
        n *= t->dim[d];
    }
}

void
shape_print(const struct type *t, struct str *s)
{
    str_add(s, "{");
    for (int d = 0; d < t->ndim; d++) str_addf(s, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
    str_add(s, "}");
}

void
type_print(const struct type *t, struct str *s)
{
    str_add(s, dtype_text(t->dtype));
    shape_print(t, s);
}

/* ---- reading and writing single elements ---- */

/* Converts a float to an integer: truncates towards zero, and limits the result to lo..hi. NaN gives 0. */
static int64_t
clamp_int(double v, int64_t lo, int64_t hi)
{
    if (isnan(v)) return 0;
    if (v <= (double)lo) return lo;
    if (v >= (double)hi) return hi;
    return (int64_t)v;
}

double
elem_get_f(enum dtype d, const void *p, int64_t i)
{
    switch (d) {
    case DT_F32: return ((const float *)p)[i];
    case DT_F64: return ((const double *)p)[i];
    case DT_BF16: return from_bf16(((const uint16_t *)p)[i]);
    case DT_F16: return from_f16(((const uint16_t *)p)[i]);
    default: return (double)elem_get_i(d, p, i);
    }
}

int64_t
elem_get_i(enum dtype d, const void *p, int64_t i)
{
    switch (d) {
    case DT_BOOL: return ((const uint8_t *)p)[i] != 0;
    case DT_U8: return ((const uint8_t *)p)[i];
    case DT_I32: return ((const int32_t *)p)[i];
    case DT_I64: return ((const int64_t *)p)[i];
    default: assert(dtype_is_float(d)); return clamp_int(elem_get_f(d, p, i), INT64_MIN, INT64_MAX);
    }
}

void
elem_set_f(enum dtype d, void *p, int64_t i, double v)
{
    switch (d) {
    case DT_F32: ((float *)p)[i] = (float)v; break;
    case DT_F64: ((double *)p)[i] = v; break;
    case DT_BF16: ((uint16_t *)p)[i] = to_bf16(odd_of(v)); break;
    case DT_F16: ((uint16_t *)p)[i] = to_f16(odd_of(v)); break;
    case DT_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case DT_U8: ((uint8_t *)p)[i] = (uint8_t)clamp_int(v, 0, UINT8_MAX); break;
    case DT_I32: ((int32_t *)p)[i] = (int32_t)clamp_int(v, INT32_MIN, INT32_MAX); break;
    case DT_I64: ((int64_t *)p)[i] = clamp_int(v, INT64_MIN, INT64_MAX); break;
    default: assert(!"unknown dtype of an element");
    }
}

/* Writes an integer element. A narrower dtype gets the low bits, as in a C cast. */
void
elem_set_i(enum dtype d, void *p, int64_t i, int64_t v)
{
    switch (d) {
    case DT_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case DT_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case DT_I32: ((int32_t *)p)[i] = (int32_t)(uint32_t)v; break;
    case DT_I64: ((int64_t *)p)[i] = v; break;
    case DT_F32: ((float *)p)[i] = (float)v; break;
    case DT_BF16: ((uint16_t *)p)[i] = to_bf16(odd_of_integer(v)); break;
    case DT_F16: ((uint16_t *)p)[i] = to_f16(odd_of_integer(v)); break;
    default: elem_set_f(d, p, i, (double)v);
    }
}
