/* coding_grids.c - blocks of GGUF's IQ types, which store an index into a grid for each 4 or 8 values.
 *
 * Each function decodes one block of 256. The layout of a block and the order of operations are those of ggml's
 * definitions, so the values equal those of the package gguf bit for bit. */
#include "runtime/tensor/coding_grids.h"
#include "runtime/tensor/coding.h"

#include <string.h>

static uint32_t
half_at(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t
word_at(const uint8_t *p)
{
    return half_at(p) | half_at(p + 2) << 16;
}

/* Returns eight signs as bits, from the seven that are stored: the number of minus signs is even. */
static uint32_t
eight_signs(uint32_t seven)
{
    return seven | (uint32_t)__builtin_parity(seven) << 7;
}

static const float two_values[] = {0x08, 0x19, 0x2b};
static const float three_values[] = {0x04, 0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3e};

/* Decodes the n numbers of one grid entry, with `bits` bits each. value: by number; signs: if bit k is set, number
 * k is negative. */
static void
grid_entry(uint32_t entry, int n, int bits, const float *value, float scale, uint32_t signs, float *y)
{
    uint32_t mask = bits == 2 ? 3 : 7;
    for (int k = 0; k < n; k++) y[k] = scale * value[entry >> bits * k & mask] * (signs >> k & 1 ? -1.0f : 1.0f);
}

static void
iq2_xxs(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int g = 0; g < 8; g++) {
        const uint8_t *q = p + 2 + 8 * g;
        uint32_t word = word_at(q + 4);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.25f;
        for (int k = 0; k < 4; k++)
            grid_entry(grid_iq2_xxs[q[k]], 8, 2, two_values, scale, eight_signs(word >> 7 * k & 127),
                       y + 32 * g + 8 * k);
    }
}

/* Returns the scale of group k; a group has 16 numbers, and its scale 4 bits. */
static float
scale_of_16(float d, const uint8_t *scales, int k)
{
    return d * (0.5f + (float)(scales[k / 2] >> k % 2 * 4 & 15)) * 0.25f;
}

static void
iq2_xs(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int k = 0; k < 32; k++) {
        uint32_t q = half_at(p + 2 + 2 * k);
        grid_entry(grid_iq2_xs[q & 511], 8, 2, two_values, scale_of_16(d, p + 66, k / 2), eight_signs(q >> 9),
                   y + 8 * k);
    }
}

static void
iq2_s(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int k = 0; k < 32; k++) {
        uint32_t q = p[2 + k] | (p[66 + k / 4] >> k % 4 * 2 & 3u) << 8;
        grid_entry(grid_iq2_s[q], 8, 2, two_values, scale_of_16(d, p + 74, k / 2), p[34 + k], y + 8 * k);
    }
}

static void
iq3_xxs(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int g = 0; g < 8; g++) {
        uint32_t word = word_at(p + 66 + 4 * g);
        float scale = d * (0.5f + (float)(word >> 28)) * 0.5f;
        for (int k = 0; k < 8; k++) {
            uint32_t signs = eight_signs(word >> k / 2 * 7 & 127) >> k % 2 * 4;
            grid_entry(grid_iq3_xxs[p[2 + 8 * g + k]], 4, 4, three_values, scale, signs, y + 32 * g + 4 * k);
        }
    }
}

static void
iq3_s(const uint8_t *p, float *y)
{
    static const float odd[] = {1, 3, 5, 7, 9, 11, 13, 15};
    const uint8_t *high = p + 66, *signs = p + 74, *scales = p + 106;
    float d = coding_f16(p);
    for (int k = 0; k < 64; k++) {
        uint32_t q = p[2 + k] | (high[k / 8] >> k % 8 & 1u) << 8;
        float scale = d * (float)(1 + 2 * (scales[k / 16] >> k / 8 % 2 * 4 & 15));
        grid_entry(grid_iq3_s[q], 4, 4, odd, scale, (uint32_t)signs[k / 2] >> k % 2 * 4, y + 4 * k);
    }
}

/* Decodes 8 numbers -1, 0 or 1, and adds delta to each. */
static void
ternary_entry(uint32_t entry, float scale, float delta, float *y)
{
    for (int k = 0; k < 8; k++) y[k] = scale * ((float)((int)(entry >> 2 * k & 3) - 1) + delta);
}

static void
iq1_s(const uint8_t *p, float *y)
{
    float d = coding_f16(p);
    for (int k = 0; k < 32; k++) {
        uint32_t high = half_at(p + 34 + k / 4 * 2), q = p[2 + k] | (high >> k % 4 * 3 & 7) << 8;
        float scale = d * (float)(2 * (high >> 12 & 7) + 1);
        ternary_entry(grid_iq1_s[q], scale, high & 0x8000 ? -0.125f : 0.125f, y + 8 * k);
    }
}

/* Decodes an IQ1_M block. The block's scale is an f16, which is stored 4 bits at a time, in the upper bits of the
 * four words of scales. */
static void
iq1_m(const uint8_t *p, float *y)
{
    const uint8_t *high = p + 32, *scales = p + 48;
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) bits |= half_at(scales + 2 * i) >> 12 << 4 * i;
    float d = coding_f16((const uint8_t[]){(uint8_t)bits, (uint8_t)(bits >> 8)});
    for (int k = 0; k < 32; k++) {
        uint32_t h = high[k / 2] >> k % 2 * 4 & 15u, q = p[k] | (h & 7) << 8;
        float scale = d * (float)(2 * (half_at(scales + k / 8 * 2) >> k % 8 / 2 * 3 & 7) + 1);
        ternary_entry(grid_iq1_s[q], scale, h & 8 ? -0.125f : 0.125f, y + 8 * k);
    }
}

const struct coding coding_grids[] = {
    {"IQ2_XXS", DT_F32, 256, 66, .block = iq2_xxs}, {"IQ2_XS", DT_F32, 256, 74, .block = iq2_xs},
    {"IQ2_S", DT_F32, 256, 82, .block = iq2_s},     {"IQ3_XXS", DT_F32, 256, 98, .block = iq3_xxs},
    {"IQ3_S", DT_F32, 256, 110, .block = iq3_s},    {"IQ1_S", DT_F32, 256, 50, .block = iq1_s},
    {"IQ1_M", DT_F32, 256, 56, .block = iq1_m},     {0},
};
