/* coding.c - finds codings, and converts small numbers exactly: 8- to 64-bit integers, floats of 4 and 8 bits.
 *
 * Small floats become bf16, which holds each of their values exactly, because they have at most 3 fraction bits
 * and 8 exponent bits. Unsigned integers become the narrowest signed dtype that holds their range; no dtype holds
 * a U64 above 2^63 - 1. */
#include "runtime/tensor/coding.h"

#include "runtime/tensor/half.h"

#include <math.h>
#include <string.h>

/* ---- converting small floats ---- */

float
coding_f16(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return from_f16(h);
}

float
coding_small(uint32_t bits, int exponent_bits, int mantissa_bits, int bias)
{
    int32_t mantissa = (int32_t)(bits & ((1u << mantissa_bits) - 1));
    int32_t exponent = (int32_t)(bits >> mantissa_bits & ((1u << exponent_bits) - 1));
    int32_t hidden = exponent ? 1 << mantissa_bits : 0;
    float size = ldexpf((float)(mantissa + hidden), MAX(exponent, 1) - bias - mantissa_bits);
    return bits >> (mantissa_bits + exponent_bits) & 1 ? -size : size;
}

/* Converts E4M3 to float. If all bits but the sign are 1, the number is NaN; there is no infinity. */
static float
e4m3(uint8_t b)
{
    return (b & 0x7f) == 0x7f ? NAN : coding_small(b, 4, 3, 7);
}

/* Converts E5M2, the upper byte of f16, to float. */
static float
e5m2(uint8_t b)
{
    return from_f16((uint16_t)(b << 8));
}

/* Converts E4M3FNUZ to float. Types whose names end in FNUZ have no infinity, and one NaN, which has the bits of
 * negative zero. */
static float
e4m3fnuz(uint8_t b)
{
    return b == 0x80 ? NAN : coding_small(b, 4, 3, 8);
}

static float
e5m2fnuz(uint8_t b)
{
    return b == 0x80 ? NAN : coding_small(b, 5, 2, 16);
}

/* Converts E8M0, a power of two without a sign, to float. */
static float
e8m0(uint8_t b)
{
    return b == 0xff ? NAN : ldexpf(1, b - 127);
}

/* Converts n bytes by a function of one byte. */
static bool
bytes_to_bf16(float (*value)(uint8_t), const uint8_t *p, int64_t n, uint16_t *out)
{
    uint16_t table[256];
    for (int i = 0; i < 256; i++) table[i] = to_bf16(value((uint8_t)i));
    for (int64_t i = 0; i < n; i++) out[i] = table[p[i]];
    return true;
}

static bool
decode_e4m3(const uint8_t *p, int64_t n, void *out)
{
    return bytes_to_bf16(e4m3, p, n, out);
}

static bool
decode_e5m2(const uint8_t *p, int64_t n, void *out)
{
    return bytes_to_bf16(e5m2, p, n, out);
}

static bool
decode_e4m3fnuz(const uint8_t *p, int64_t n, void *out)
{
    return bytes_to_bf16(e4m3fnuz, p, n, out);
}

static bool
decode_e5m2fnuz(const uint8_t *p, int64_t n, void *out)
{
    return bytes_to_bf16(e5m2fnuz, p, n, out);
}

static bool
decode_e8m0(const uint8_t *p, int64_t n, void *out)
{
    return bytes_to_bf16(e8m0, p, n, out);
}

/* Converts two E2M1 numbers per byte, the first in the low bits. */
static bool
decode_f4(const uint8_t *p, int64_t n, void *out)
{
    uint16_t *y = out;
    for (int64_t i = 0; i < 2 * n; i++) y[i] = to_bf16(coding_small(p[i / 2] >> (i % 2 * 4) & 15, 2, 1, 1));
    return true;
}

/* ---- converting integers ---- */

static bool
decode_i8(const uint8_t *p, int64_t n, void *out)
{
    int32_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = (int8_t)p[i];
    return true;
}

static bool
decode_i16(const uint8_t *p, int64_t n, void *out)
{
    int32_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = (int16_t)(p[2 * i] | p[2 * i + 1] << 8);
    return true;
}

static bool
decode_u16(const uint8_t *p, int64_t n, void *out)
{
    int32_t *y = out;
    for (int64_t i = 0; i < n; i++) y[i] = p[2 * i] | p[2 * i + 1] << 8;
    return true;
}

static bool
decode_u32(const uint8_t *p, int64_t n, void *out)
{
    int64_t *y = out;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, p + 4 * i, sizeof u);
        y[i] = u;
    }
    return true;
}

static bool
decode_u64(const uint8_t *p, int64_t n, void *out)
{
    int64_t *y = out;
    if (n) memcpy(y, p, sizeof *y * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (y[i] < 0) return false;
    return true;
}

const struct coding coding_numbers[] = {
    {"I8", DT_I32, 1, 1, .numbers = decode_i8},
    {"I16", DT_I32, 1, 2, .numbers = decode_i16},
    {"U16", DT_I32, 1, 2, .numbers = decode_u16},
    {"U32", DT_I64, 1, 4, .numbers = decode_u32},
    {"U64", DT_I64, 1, 8, .numbers = decode_u64},
    {"F8_E4M3", DT_BF16, 1, 1, .numbers = decode_e4m3},
    {"F8_E5M2", DT_BF16, 1, 1, .numbers = decode_e5m2},
    {"F8_E4M3FNUZ", DT_BF16, 1, 1, .numbers = decode_e4m3fnuz},
    {"F8_E5M2FNUZ", DT_BF16, 1, 1, .numbers = decode_e5m2fnuz},
    {"F8_E8M0", DT_BF16, 1, 1, .numbers = decode_e8m0},
    {"F4", DT_BF16, 2, 1, .numbers = decode_f4},
    {0},
};

/* ---- finding a coding by name ---- */

const struct coding *
coding_find(const char *name)
{
    static const struct coding *const tables[] = {coding_numbers, coding_blocks, coding_grids};
    for (size_t i = 0; i < countof(tables); i++)
        for (const struct coding *c = tables[i]; c->name; c++)
            if (!strcmp(c->name, name)) return c;
    return NULL;
}

bool
coding_decode(const struct coding *c, const uint8_t *p, int64_t n, void *out)
{
    if (c->numbers) return c->numbers(p, n, out);
    for (int64_t i = 0; i < n; i++) c->block(p + i * c->bytes, (float *)out + i * c->elements);
    return true;
}
