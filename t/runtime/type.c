/* type.c - tests of dtypes, promotion, half precision, shapes and single elements. */
#include "runtime/base/denormal.h"
#include "runtime/base/error.h"
#include "runtime/tensor/half.h"
#include "runtime/tensor/type.h"
#include "t/lib/tap.h"

/* Expected promotions: the table of PyTorch's torch.promote_types. */
static const char *const order[] = {"bool", "u8", "i32", "i64", "bf16", "f16", "f32", "f64"};
enum { N = 8 };
static const char *const promoted[N][N] = {
    {"bool", "u8", "i32", "i64", "bf16", "f16", "f32", "f64"},
    {"u8", "u8", "i32", "i64", "bf16", "f16", "f32", "f64"},
    {"i32", "i32", "i32", "i64", "bf16", "f16", "f32", "f64"},
    {"i64", "i64", "i64", "i64", "bf16", "f16", "f32", "f64"},
    {"bf16", "bf16", "bf16", "bf16", "bf16", "f32", "f32", "f64"},
    {"f16", "f16", "f16", "f16", "f32", "f16", "f32", "f64"},
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64"},
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
};
/* Expected torch.result_type(tensor, number) for a bool, an integer and a float. */
static const char *const with_number[N][3] = {
    {"bool", "i64", "f32"},   {"u8", "u8", "f32"},   {"i32", "i32", "f32"}, {"i64", "i64", "f32"},
    {"bf16", "bf16", "bf16"}, {"f16", "f16", "f16"}, {"f32", "f32", "f32"}, {"f64", "f64", "f64"},
};
static const char *const numbers[3][3] = {{"bool", "i64", "f32"}, {"i64", "i64", "f32"}, {"f32", "f32", "f32"}};

static void
test_promotion(void)
{
    static const enum dtype number[3] = {DT_BOOL, DT_I64, DT_F64};
    int wrong = 0, wrong_weak = 0;
    for (int i = 0; i < N; i++) {
        enum dtype a = dtype_parse(order[i]);
        for (int j = 0; j < N; j++)
            wrong += dtype_promote(a, false, dtype_parse(order[j]), false) != dtype_parse(promoted[i][j]);
        for (int k = 0; k < 3; k++) {
            wrong_weak += dtype_promote(a, false, number[k], true) != dtype_parse(with_number[i][k]);
            wrong_weak += dtype_promote(number[k], true, a, false) != dtype_parse(with_number[i][k]);
        }
        wrong += dtype_promote(a, false, DT_NONE, false) != a || dtype_promote(DT_NONE, false, a, false) != a;
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            wrong_weak += dtype_promote(number[i], true, number[j], true) != dtype_parse(numbers[i][j]);
    is_int(wrong, 0, "two tensors promote as in PyTorch");
    is_int(wrong_weak, 0, "only the class of a number affects promotion");
}

/* Expected torch.result_type of three operands: a tensor with dimensions, a tensor without dimensions, and a
 * number; "-": absent. */
static const struct {
    const char *tensor, *scalar, *number, *want;
} mixed[] = {
    {"f32", "f64", "-", "f32"},   {"bf16", "f32", "-", "bf16"},  {"bf16", "f16", "-", "bf16"},
    {"i32", "i64", "-", "i32"},   {"u8", "i32", "-", "u8"},      {"i32", "f64", "-", "f64"},
    {"i64", "bf16", "-", "bf16"}, {"bool", "u8", "-", "u8"},     {"bool", "f16", "-", "f16"},
    {"bf16", "i64", "-", "bf16"}, {"bool", "bool", "-", "bool"}, {"-", "f16", "f64", "f16"},
    {"-", "u8", "i64", "u8"},     {"-", "u8", "f64", "f32"},     {"-", "bool", "i64", "i64"},
    {"u8", "i32", "f64", "f32"},  {"bool", "i32", "i64", "i32"}, {"i32", "f16", "f64", "f16"},
    {"f16", "f64", "i64", "f16"}, {"-", "-", "f64", "f32"},      {"-", "-", "-", NULL},
};

static void
test_mixed(void)
{
    for (size_t i = 0; i < countof(mixed); i++) {
        const char *name[3] = {mixed[i].tensor, mixed[i].scalar, mixed[i].number};
        struct promotion forward = {0}, back = {0};
        struct type t[3] = {{.ndim = 2}, {.ndim = 0}, {.weak = 1}};
        for (int k = 0; k < 3; k++)
            if (*name[k] != '-') t[k].dtype = (uint8_t)dtype_parse(name[k]);
        for (int k = 0; k < 3; k++) promotion_add(&forward, &t[k]), promotion_add(&back, &t[2 - k]);
        enum dtype want = mixed[i].want ? dtype_parse(mixed[i].want) : DT_NONE;
        ok(promotion_end(&forward) == want && promotion_end(&back) == want, "%s, %s of one element and number %s: %s",
           name[0], name[1], name[2], mixed[i].want ? mixed[i].want : "none");
    }
}

static void
test_names(void)
{
    int wrong = 0;
    for (int d = DT_NONE + 1; d < NDTYPE; d++) wrong += dtype_parse(dtype_text((enum dtype)d)) != (enum dtype)d;
    is_int(wrong, 0, "every dtype is found by its name");
    ok(dtype_parse("float32") == DT_NONE && err_last() == E_DTYPE && strstr(err_text(), "\"float32\""),
       "an unknown dtype is refused, and the message quotes it");
}

/* ---- half precision: a format's reader, its writer, its bit layout ---- */

struct half {
    const char *name;
    float (*get)(uint16_t h);
    uint16_t (*set)(float f);
    uint16_t infinity;
    int fraction, exponent, bias;
};
static const struct half halves[] = {
    {"bf16", from_bf16, to_bf16, 0x7f80, 7, 8, 127},
    {"f16", from_f16, to_f16, 0x7c00, 10, 5, 15},
};

/* Returns the value of a bit pattern by IEEE 754's formula. */
static double
half_value(const struct half *f, uint16_t h)
{
    int fraction = h & ((1 << f->fraction) - 1), exponent = (h & 0x7fff) >> f->fraction;
    double m = exponent ? fraction + (1 << f->fraction) : fraction;
    double v = ldexp(m, (exponent ? exponent : 1) - f->bias - f->fraction);
    return h & 0x8000 ? -v : v;
}

static void
test_half_values(const struct half *f)
{
    int wrong = 0, trip = 0, nan = 0;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i, size = h & 0x7fff;
        float v = f->get(h);
        if (size > f->infinity) {
            nan += !isnan(v) || !isnan(f->get(f->set(v)));
            continue;
        }
        wrong += size == f->infinity ? !isinf(v) || !!signbit(v) != (h >> 15) : (double)v != half_value(f, h);
        trip += f->set(v) != h;
    }
    ok(wrong == 0, "%s: every bit pattern is read as IEEE 754 defines", f->name);
    ok(trip == 0, "%s: every value except NaN converts to f32 and back to the same bits", f->name);
    ok(nan == 0, "%s: a NaN stays a NaN", f->name);
}

/* Checks the rounding of values between two neighbouring halves, lo and hi. The middle must become the neighbour
 * whose last bit is 0, and any other value the nearer neighbour. Above the largest finite value, hi is infinity. */
static void
test_half_rounding(const struct half *f)
{
    int wrong = 0;
    for (uint16_t h = 0; h < f->infinity; h++) {
        float middle = (float)((half_value(f, h) + half_value(f, (uint16_t)(h + 1))) / 2);
        uint16_t even = h & 1 ? (uint16_t)(h + 1) : h;
        wrong += f->set(middle) != even || f->set(-middle) != (even | 0x8000);
        wrong += f->set(nextafterf(middle, 0)) != h || f->set(nextafterf(middle, INFINITY)) != h + 1;
    }
    ok(wrong == 0, "%s: rounds to nearest, ties to even, between all neighbours", f->name);
}

/* Rounds doubles that are so close to the middle of two halves that an f32 cannot represent the difference. If
 * they were first rounded to f32, they would count as the middle. */
static void
test_half_of_double(const struct half *f)
{
    int wrong = 0;
    enum dtype d = dtype_parse(f->name);
    for (uint16_t h = 0; h < f->infinity; h++) {
        double middle = (half_value(f, h) + half_value(f, (uint16_t)(h + 1))) / 2;
        double near[3] = {nextafter(middle, 0), middle, nextafter(middle, INFINITY)};
        uint16_t want[3] = {h, h & 1 ? (uint16_t)(h + 1) : h, (uint16_t)(h + 1)}, got[6];
        for (int i = 0; i < 3; i++) elem_set_f(d, got, i, near[i]), elem_set_f(d, got, 3 + i, -near[i]);
        for (int i = 0; i < 3; i++) wrong += got[i] != want[i] || got[3 + i] != (want[i] | 0x8000);
    }
    ok(wrong == 0, "%s: a double is rounded once", f->name);
}

static bool
same_half(const struct half *f, uint16_t a, uint16_t b)
{
    return a == b || ((a & 0x7fff) > f->infinity && (b & 0x7fff) > f->infinity);
}

/* Checks that converting a row equals converting each element alone, for every row length from 0 to beyond a SIMD
 * vector. Bytes before and after the row must not change. */
static void
test_half_rows(const struct half *f)
{
    enum { PATTERNS = 65536, MOST = 40 };
    static uint16_t all[PATTERNS], back[PATTERNS];
    static float wide[PATTERNS], near[PATTERNS];
    enum dtype d = dtype_parse(f->name);
    int wrong = 0, rounded = 0, lengths = 0;
    for (uint32_t i = 0; i < PATTERNS; i++) all[i] = (uint16_t)i;
    half_widen(d, wide, all, PATTERNS);
    for (uint32_t i = 0; i < PATTERNS; i++) {
        float v = f->get(all[i]);
        wrong += isnan(v) ? !isnan(wide[i]) : bits_of(v) != bits_of(wide[i]);
        /* adds up to 2^16 steps of f32 to the magnitude, so that most of the values are between two halves */
        near[i] = float_of(bits_of(v) + (i * 2654435761u >> 16));
    }
    ok(wrong == 0, "%s: a row of all bit patterns is read like single values", f->name);
    half_round(d, back, near, PATTERNS);
    for (uint32_t i = 0; i < PATTERNS; i++) rounded += !same_half(f, back[i], f->set(near[i]));
    ok(rounded == 0, "%s: a row of floats is rounded like single values", f->name);
    for (int64_t n = 0; n <= MOST; n++) {
        memset(back, 0x5a, sizeof back);
        half_round(d, back, near + n, n);
        for (int64_t i = 0; i < n; i++) lengths += !same_half(f, back[i], f->set(near[n + i]));
        lengths += back[n] != 0x5a5a;
    }
    ok(lengths == 0, "%s: rows of every length to %d are right, and nothing beside them is written", f->name, MOST);
}

/* ---- elements ---- */

static void
test_elements(void)
{
    static const struct {
        enum dtype d;
        double v, want;
    } cases[] = {
        {DT_U8, -1.5, 0},           {DT_U8, 300, 255},         {DT_U8, 2.9, 2},        {DT_I32, 1e30, INT32_MAX},
        {DT_I32, -1e30, INT32_MIN}, {DT_I32, -2.9, -2},        {DT_I64, 1e30, 0x1p63}, {DT_I64, -1e30, -0x1p63},
        {DT_BOOL, 0.25, 1},         {DT_BOOL, -0.0, 0},        {DT_BOOL, NAN, 1},      {DT_I32, NAN, 0},
        {DT_F32, 0.1, (float)0.1},  {DT_F16, 65520, INFINITY}, {DT_BF16, 257, 256},    {DT_F64, 0.1, 0.1},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        uint64_t memory[2] = {0};
        elem_set_f(cases[i].d, memory, 1, cases[i].v);
        double got = elem_get_f(cases[i].d, memory, 1);
        ok(got == cases[i].want, "%g as %s is %g", cases[i].v, dtype_text(cases[i].d), cases[i].want);
    }
    uint64_t memory[1];
    elem_set_i(DT_U8, memory, 0, 258);
    is_int(elem_get_i(DT_U8, memory, 0), 2, "258 as u8 keeps the low bits");
    elem_set_i(DT_I64, memory, 0, INT64_MIN + 1);
    is_int(elem_get_i(DT_I64, memory, 0), INT64_MIN + 1, "i64 is never rounded");
    elem_set_f(DT_F64, memory, 0, -1e300);
    is_int(elem_get_i(DT_F64, memory, 0), INT64_MIN, "a float read as an integer is clamped to i64");
}

/* ---- shapes ---- */

static void
test_shapes(void)
{
    struct type t = type_of(DT_F32, 3, (int64_t[]){2, 3, 4}), scalar = type_of(DT_I64, 0, NULL);
    struct str s = {0};
    int64_t stride[MAX_DIM];

    is_int(type_numel(&t), 24, "{2, 3, 4} has 24 elements");
    is_int(type_bytes(&t), 96, "{2, 3, 4} has 96 bytes as f32");
    is_int(type_numel(&scalar), 1, "a shape without dimensions has one element");
    type_strides(&t, stride);
    ok(stride[0] == 12 && stride[1] == 4 && stride[2] == 1, "strides are row-major");
    type_print(&t, &s);
    is_str(str_text(&s), "f32{2, 3, 4}", "a type prints as dtype and shape");
    str_clear(&s);
    type_print(&scalar, &s);
    is_str(str_text(&s), "i64{}", "a scalar's shape prints as {}");
    str_free(&s);

    struct type weak = t;
    weak.weak = 1;
    ok(type_equal(&t, &weak), "types that differ only in weakness are equal");
    ok(!type_equal(&t, &scalar) && !shape_equal(&t, &scalar), "types that differ in dtype and shape are not equal");
}

static void
test_limits(void)
{
    static const struct {
        int ndim;
        int64_t dim[3];
        bool good;
    } cases[] = {
        {0, {0}, true},
        {2, {0, 5}, true},
        {1, {(int64_t)1 << 60}, true},
        {1, {((int64_t)1 << 60) + 1}, false},
        {2, {(int64_t)1 << 30, (int64_t)1 << 30}, true},
        {2, {(int64_t)1 << 31, (int64_t)1 << 30}, false},
        {3, {(int64_t)1 << 40, (int64_t)1 << 40, 0}, false},
        {1, {INT64_MAX}, false},
        {3, {INT64_MAX, INT64_MAX, INT64_MAX}, false},
        {1, {-1}, false},
        {2, {0, -1}, false},
    };
    int wrong = 0;
    for (size_t i = 0; i < countof(cases); i++) {
        struct type t = type_of(DT_F32, cases[i].ndim, cases[i].dim);
        int status = type_check(&t);
        if (status == (cases[i].good ? 0 : E_SHAPE)) continue;
        diag("case %zu: %d", i, status);
        wrong++;
    }
    is_int(wrong, 0, "a shape is refused if a size is negative or its bytes exceed 2^62, with sizes of 0 counted as 1");
}

int
main(void)
{
    test_promotion();
    test_mixed();
    test_names();
    for (size_t i = 0; i < countof(halves); i++) {
        test_half_values(&halves[i]);
        test_half_rounding(&halves[i]);
        test_half_of_double(&halves[i]);
    }
    for (size_t i = 0; i < countof(halves); i++) test_half_rows(&halves[i]);
    denormals_flush();
    diag("with f32 subnormals flushed to zero");
    test_half_rows(&halves[0]);
    test_half_rows(&halves[1]);
    test_elements();
    test_shapes();
    test_limits();
    return done();
}
