/* coding_blocks.c - blocks of GGUF's quantised types without grids: a block has scales, minima, and numbers of 2
 * to 8 bits.
 *
 * Each function decodes one block. The layout of a block and the order of operations are those of ggml's definitions,
 * so the values equal those of the package gguf bit for bit. */
#include "runtime/tensor/coding.h"

#include "runtime/tensor/half.h"

#include <math.h>
#include <string.h>

/* ---- decoding blocks of 32 elements ---- */

/* Returns number i of 32 four-bit numbers in 16 bytes: the low halves of all bytes, then the high halves. */
static int
nibble(const uint8_t *q, int i)
{
    return i < 16 ? q[i] & 15 : q[i - 16] >> 4;
}

/* Returns the fifth bit of number i, shifted to its place: 0 or 16. */
static int
fifth(const uint8_t *high, int i)
{
    return (high[i / 8] >> i % 8 & 1) << 4;
}

static void
q4_0(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int i = 0; i < 32; i++) y[i] = d * (float)(nibble(p + 2, i) - 8);
}

static void
q4_1(const uint8_t *p, float *y)
{
    float d = coding_f16(p), m = coding_f16(p + 2);
    for (int i = 0; i < 32; i++) y[i] = d * (float)nibble(p + 4, i) + m;
}

static void
q5_0(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int i = 0; i < 32; i++) y[i] = d * (float)((nibble(p + 6, i) | fifth(p + 2, i)) - 16);
}

static void
q5_1(const uint8_t *p, float *y)
{
    float d = coding_f16(p), m = coding_f16(p + 2);
    for (int i = 0; i < 32; i++) y[i] = d * (float)(nibble(p + 8, i) | fifth(p + 4, i)) + m;
}

static void
q8_0(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int i = 0; i < 32; i++) y[i] = (float)(int8_t)p[2 + i] * d;
}

/* Decodes a block of three parts: the scale d; d times the sum of the numbers, which is not used; the numbers. */
static void
q8_1(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int i = 0; i < 32; i++) y[i] = (float)(int8_t)p[4 + i] * d;
}

/* Values that the four-bit numbers of IQ4 types stand for. */
static const int8_t coding_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void
iq4_nl(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int i = 0; i < 32; i++) y[i] = d * (float)coding_levels[nibble(p + 2, i)];
}

/* the values of E2M1 times two, by code */
static const int8_t twice_e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void
mxfp4(const uint8_t *p, float *y)
{
    float d = ldexpf(1, p[0] - 128); /* half the scale */
    for (int i = 0; i < 32; i++) y[i] = d * (float)twice_e2m1[nibble(p + 1, i)];
}

/* Decodes four groups of 16 numbers. Each group has a scale in E4M3 without a sign; the scale 0x7f means 0. */
static void
nvfp4(const uint8_t *p, float *y)
{
    for (int g = 0; g < 4; g++) {
        float d = p[g] == 0x7f ? 0 : 0.5f * coding_small(p[g] & 0x7fu, 4, 3, 7);
        for (int i = 0; i < 16; i++) {
            uint8_t byte = p[4 + 8 * g + i % 8];
            y[16 * g + i] = d * (float)twice_e2m1[i < 8 ? byte & 15 : byte >> 4];
        }
    }
}

/* ---- decoding blocks of 256 elements ---- */

/* Returns number i of 256 two-bit numbers. A group of 128 numbers has 32 bytes and consists of four runs of 32
 * numbers. Each byte has one number of each run, that of the first run in the lowest bits. */
static int
two_bits(const uint8_t *q, int i)
{
    return q[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void
q2_k(const uint8_t *p, float *y)
{
    float d = coding_f16(p + 80), least = coding_f16(p + 82);
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)(p[i / 16] & 15), m = least * (float)(p[i / 16] >> 4);
        y[i] = scale * (float)two_bits(p + 16, i) - m;
    }
}

static void
q3_k(const uint8_t *p, float *y)
{
    const uint8_t *scales = p + 96;
    float d = coding_f16(p + 108);
    for (int i = 0; i < 256; i++) {
        int k = i / 16;
        int low = k < 8 ? scales[k] & 15 : scales[k - 8] >> 4, high = scales[8 + k % 4] >> k / 4 * 2 & 3;
        float scale = d * (float)((low | high << 4) - 32);
        int third = p[i % 32] >> i / 32 & 1;
        y[i] = scale * (float)(two_bits(p + 32, i) - (third ? 0 : 4));
    }
}

/* Unpacks number k of the eight scales and number k of the eight minima of a block. Each number has 6 bits, so all
 * numbers together have 12 bytes. */
static void
scale_and_minimum(const uint8_t *s, int k, float *scale, float *least)
{
    bool low = k < 4;
    *scale = (float)(low ? s[k] & 63 : (s[k + 4] & 15) | (s[k - 4] >> 2 & 48));
    *least = (float)(low ? s[k + 4] & 63 : s[k + 4] >> 4 | (s[k] >> 2 & 48));
}

/* Decodes Q4_K, or Q5_K if high is not NULL. q: the low four bits of the numbers, in groups of 64; high: their
 * fifth bits. */
static void
k_block(const uint8_t *p, const uint8_t *high, const uint8_t *q, float *y)
{
    float d = coding_f16(p), least = coding_f16(p + 2), scale, m;
    for (int k = 0; k < 8; k++) {
        scale_and_minimum(p + 4, k, &scale, &m);
        scale *= d;
        m *= least;
        for (int i = 0; i < 32; i++) {
            int number = q[k / 2 * 32 + i] >> k % 2 * 4 & 15;
            if (high) number |= (high[i] >> k & 1) << 4;
            y[32 * k + i] = scale * (float)number - m;
        }
    }
}

static void
q4_k(const uint8_t *p, float *y)
{
    k_block(p, NULL, p + 16, y);
}

static void
q5_k(const uint8_t *p, float *y)
{
    k_block(p, p + 16, p + 48, y);
}

static void
q6_k(const uint8_t *p, float *y)
{
    float d = coding_f16(p + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, low = p[half * 64 + i % 64] >> i % 128 / 64 * 4 & 15;
        int high = p[128 + half * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        float scale = d * (float)(int8_t)p[192 + i / 16];
        y[i] = scale * (float)((low | high << 4) - 32);
    }
}

static void
q8_k(const uint8_t *p, float *y)
{
    float d;
    memcpy(&d, p, sizeof d);
    for (int i = 0; i < 256; i++) y[i] = d * (float)(int8_t)p[4 + i];
}

static void
iq4_xs(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int i = 0; i < 256; i++) {
        int k = i / 32, low = p[4 + k / 2] >> k % 2 * 4 & 15, high = (p[2] | p[3] << 8) >> 2 * k & 3;
        float scale = d * (float)((low | high << 4) - 32);
        y[i] = scale * (float)coding_levels[nibble(p + 8 + 16 * k, i % 32)];
    }
}

/* Returns a number -1, 0 or 1: digit `power` of a byte in base 3. */
static float
digit(uint8_t byte, int power)
{
    static const uint8_t powers[] = {1, 3, 9, 27, 81};
    return (float)(((uint8_t)(byte * powers[power]) * 3 >> 8) - 1);
}

static void
tq1_0(const uint8_t *p, float *y)
{
    float d = coding_f16(p + 52);
    for (int i = 0; i < 160; i++) y[i] = d * digit(p[i % 32], i / 32);
    for (int i = 0; i < 80; i++) y[160 + i] = d * digit(p[32 + i % 16], i / 16);
    for (int i = 0; i < 16; i++) y[240 + i] = d * digit(p[48 + i % 4], i / 4);
}

static void
tq2_0(const uint8_t *p, float *y)
{
    float d = coding_f16(p + 64);
    for (int i = 0; i < 256; i++) y[i] = d * (float)(two_bits(p, i) - 1);
}

const struct coding coding_blocks[] = {
    {"Q4_0", DT_F32, 32, 18, .block = q4_0},
    {"Q4_1", DT_F32, 32, 20, .block = q4_1},
    {"Q5_0", DT_F32, 32, 22, .block = q5_0},
    {"Q5_1", DT_F32, 32, 24, .block = q5_1},
    {"Q8_0", DT_F32, 32, 34, .block = q8_0},
    {"Q8_1", DT_F32, 32, 36, .block = q8_1},
    {"Q2_K", DT_F32, 256, 84, .block = q2_k},
    {"Q3_K", DT_F32, 256, 110, .block = q3_k},
    {"Q4_K", DT_F32, 256, 144, .block = q4_k},
    {"Q5_K", DT_F32, 256, 176, .block = q5_k},
    {"Q6_K", DT_F32, 256, 210, .block = q6_k},
    {"Q8_K", DT_F32, 256, 292, .block = q8_k},
    {"IQ4_NL", DT_F32, 32, 18, .block = iq4_nl},
    {"IQ4_XS", DT_F32, 256, 136, .block = iq4_xs},
    {"TQ1_0", DT_F32, 256, 54, .block = tq1_0},
    {"TQ2_0", DT_F32, 256, 66, .block = tq2_0},
    {"MXFP4", DT_F32, 32, 17, .block = mxfp4},
    {"NVFP4", DT_F32, 64, 36, .block = nvfp4},
    {0},
};
