/* value.c - converts one element of each dtype to and from a Lua value.
 *
 * Tensors given as Lua tables are packed here into the bytes of their dtype, and values read from tensors are
 * unpacked. Floats of 16 bits are rounded to nearest, ties to even. */
#include "shell/bind/base/value.h"

#include <math.h>
#include <string.h>

static float
float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t
bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static uint16_t
to_bf16(double value)
{
    float f = (float)value;
    uint32_t bits = bits_of_float(f);
    if (isnan(f)) return (uint16_t)(bits >> 16 | 0x40);
    /* rounds f to odd, because f is rounded a second time below, to 16 bits */
    if ((double)f != value) bits = (bits - (fabs((double)f) > fabs(value))) | 1;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A half is m * 2^e with m below 2^11 and e from -24 to 5; nearbyint() rounds ties to even. */
static uint16_t
to_f16(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double a = fabs(value);
    if (isnan(value)) return sign | 0x7e00;
    if (a >= 65520) return sign | 0x7c00;
    int e = 0;
    frexp(a, &e);
    int scale = e - 11 < -24 ? -24 : e - 11;
    int m = (int)nearbyint(ldexp(a, -scale));
    if (m == 2048) m = 1024, scale++;
    if (m < 1024) return sign | (uint16_t)m;
    return sign | (uint16_t)((scale + 25) << 10 | (m - 1024));
}

static double
value_of_f16(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double a = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(m + 1024, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -a : a;
}

static double
number_real(bool is_int, int64_t i, double f)
{
    return is_int ? (double)i : f;
}

/* Converts a number to an integer from low to high. A float is truncated toward zero. Returns -1 if the result does
 * not fit. */
static int
integer_of(bool is_int, int64_t i, double f, int64_t low, int64_t high, int64_t *out)
{
    if (!is_int) {
        if (!(f > -9223372036854775809.0 && f < 9223372036854775808.0)) return -1;
        i = (int64_t)f;
    }
    *out = i;
    return i < low || i > high ? -1 : 0;
}

/* Returns a double that rounds to 16 bits as the integer does. If a double cannot hold the low bits of the
 * integer, one odd bit replaces them (round to odd). */
static double
odd_of(bool is_int, int64_t i, double f)
{
    enum { LOW = 1 << 10 };
    bool exact = i > -((int64_t)1 << 53) && i < (int64_t)1 << 53;
    return number_real(is_int, exact || i % LOW == 0 ? i : (i / LOW | 1) * LOW, f);
}

static int
store_f32(void *at, bool is_int, int64_t i, double f)
{
    float v = is_int ? (float)i : (float)f;
    memcpy(at, &v, 4);
    return 0;
}

static int
store_f64(void *at, bool is_int, int64_t i, double f)
{
    double v = number_real(is_int, i, f);
    memcpy(at, &v, 8);
    return 0;
}

static int
store_bf16(void *at, bool is_int, int64_t i, double f)
{
    uint16_t v = to_bf16(odd_of(is_int, i, f));
    memcpy(at, &v, 2);
    return 0;
}

static int
store_f16(void *at, bool is_int, int64_t i, double f)
{
    uint16_t v = to_f16(number_real(is_int, i, f));
    memcpy(at, &v, 2);
    return 0;
}

static int
store_i64(void *at, bool is_int, int64_t i, double f)
{
    int64_t v = 0;
    int bad = integer_of(is_int, i, f, INT64_MIN, INT64_MAX, &v);
    memcpy(at, &v, 8);
    return bad;
}

static int
store_i32(void *at, bool is_int, int64_t i, double f)
{
    int64_t v = 0;
    int bad = integer_of(is_int, i, f, INT32_MIN, INT32_MAX, &v);
    memcpy(at, &(int32_t){(int32_t)v}, 4);
    return bad;
}

static int
store_u8(void *at, bool is_int, int64_t i, double f)
{
    int64_t v = 0;
    int bad = integer_of(is_int, i, f, 0, UINT8_MAX, &v);
    *(uint8_t *)at = (uint8_t)v;
    return bad;
}

static int
store_bool(void *at, bool is_int, int64_t i, double f)
{
    *(uint8_t *)at = is_int ? i != 0 : f != 0;
    return 0;
}

static double
get_f32(const void *at)
{
    float v;
    memcpy(&v, at, 4);
    return v;
}

static double
get_f64(const void *at)
{
    double v;
    memcpy(&v, at, 8);
    return v;
}

static double
get_bf16(const void *at)
{
    uint16_t v;
    memcpy(&v, at, 2);
    return float_of_bits((uint32_t)v << 16);
}

static double
get_f16(const void *at)
{
    uint16_t v;
    memcpy(&v, at, 2);
    return value_of_f16(v);
}

static int64_t
integer_i64(const void *at)
{
    int64_t v;
    memcpy(&v, at, 8);
    return v;
}

static int64_t
integer_i32(const void *at)
{
    int32_t v;
    memcpy(&v, at, 4);
    return v;
}

static int64_t
integer_u8(const void *at)
{
    return *(const uint8_t *)at;
}

static const struct value_kind kinds[] = {
    {"f32", 4, store_f32, get_f32, NULL, -(1 << 24), 1 << 24},
    {"f64", 8, store_f64, get_f64, NULL, -((int64_t)1 << 53), (int64_t)1 << 53},
    {"bf16", 2, store_bf16, get_bf16, NULL, -(1 << 8), 1 << 8},
    {"f16", 2, store_f16, get_f16, NULL, -(1 << 11), 1 << 11},
    {"i32", 4, store_i32, NULL, integer_i32, INT32_MIN, INT32_MAX},
    {"i64", 8, store_i64, NULL, integer_i64, INT64_MIN, INT64_MAX},
    {"u8", 1, store_u8, NULL, integer_u8, 0, UINT8_MAX},
    {"bool", 1, store_bool, NULL, integer_u8, 0, 1},
};

const struct value_kind *
value_kind(const char *dtype)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(kinds[k].name, dtype)) return &kinds[k];
    return NULL;
}

double
value_real(double v)
{
    return isnan(v) ? NAN : v;
}

void
value_push(lua_State *L, const struct value_kind *k, const void *at)
{
    if (k->real)
        lua_pushnumber(L, value_real(k->real(at)));
    else if (!strcmp(k->name, "bool"))
        lua_pushboolean(L, *(const uint8_t *)at);
    else
        lua_pushinteger(L, k->integer(at));
}
