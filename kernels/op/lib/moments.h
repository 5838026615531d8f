/* moments.h - compact codes for the mean and deviation of a row that is split over ranks.
 *
 * A rank sends the mean and deviation of its shard of the row in 9 bytes (moments_told). One rank receives the codes
 * of all shards of the row. It answers each rank in 7 bytes (moments_joined): the distance from the shard's mean to
 * the row's mean, and the row's deviation. From both codes the sending rank computes the row's moments (moments_of).
 * No digit is lost if the mean is at most 10^5 deviations from 0; beyond, one binary digit is lost per doubling.
 * Three floats carry no more information and would take 12 bytes each way.
 *
 * A code holds a scale >= 0 as a fraction of 2^e, and a number as a fraction of 2^(e + range). e is the least
 * exponent such that scale < 2^e and |number| < 2^(e + range). The first byte of a code is e + 126, or 255 if the
 * number or scale is not finite or too large. The lowest 23 bits of the following word are the scale, all others the
 * number. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_MOMENTS_H
#define RILLE_KERNELS_OP_MOMENTS_H

#include "kernels/op/base/op_impl.h"

#include <math.h>

/* The macros below are compiled for the CPU and also passed as text to the GPU compiler. The exponent e of a code is
 * at least -126. */
#define MOMENTS_SIZES enum { TOLD_BYTES = 9, TOLD_RANGE = 17, JOINED_BYTES = 7 };

/* Returns byte k of the code of a number and a scale; the code has `bytes` bytes. */
#define MOMENTS_BYTE                                                                                                   \
    {                                                                                                                  \
        const int digits = 8 * (bytes - 1) - 23;                                                                       \
        const int64_t half = (int64_t)1 << (digits - 1), most = ((int64_t)1 << 23) - 1;                                \
        int e = -126, of_number = -126;                                                                                \
        if (!(number - number == 0 && scale - scale == 0)) return k == 0 ? 255 : 0;                                    \
        if (scale > 0) frexp(scale, &e);                                                                               \
        if (number != 0) frexp(number, &of_number);                                                                    \
        e = e > of_number - range ? e : of_number - range;                                                             \
        e = e > -126 ? e : -126;                                                                                       \
        if (e > 128) return k == 0 ? 255 : 0;                                                                          \
        if (k == 0) return e + 126;                                                                                    \
        int64_t s = (int64_t)rint(ldexp(scale, 23 - e)), n = (int64_t)rint(ldexp(number, digits - 1 - range - e));     \
        s = s < most ? s : most;                                                                                       \
        n = n < half ? n : half - 1;                                                                                   \
        return (int64_t)(((uint64_t)s | (uint64_t)(n + half) << 23) >> (8 * (k - 1)) & 255);                           \
    }

/* Returns the number in a code of `bytes` bytes; NaN if the number or the scale was not finite. */
#define MOMENTS_NUMBER                                                                                                 \
    {                                                                                                                  \
        const int digits = 8 * (bytes - 1) - 23;                                                                       \
        uint64_t word = 0;                                                                                             \
        for (int k = 1; k < bytes; k++) word |= (uint64_t)code[k] << (8 * (k - 1));                                    \
        const int64_t n = (int64_t)(word >> 23) - ((int64_t)1 << (digits - 1));                                        \
        return code[0] == 255 ? sqrt(-1.0) : ldexp((double)n, code[0] - 126 + range + 1 - digits);                     \
    }

/* Returns the scale in a code; NaN if the number or the scale was not finite. */
#define MOMENTS_SCALE                                                                                                  \
    {                                                                                                                  \
        const int s = code[1] | code[2] << 8 | (code[3] & 127) << 16;                                                  \
        return code[0] == 255 ? sqrt(-1.0) : ldexp((double)s, code[0] - 126 - 23);                                     \
    }

/* Returns the least integer r such that 2^r >= sqrt(parts), where parts is the number of shards. With equal shards,
 * the mean of a shard is at most sqrt(parts) row deviations from the row's mean. */
#define MOMENTS_RANGE                                                                                                  \
    {                                                                                                                  \
        int range = 0;                                                                                                 \
        while ((int64_t)1 << 2 * range < parts) range++;                                                               \
        return range;                                                                                                  \
    }

#define MOMENTS_FUNCTIONS(F)                                                                                           \
    F(int64_t, moments_byte, (double number, double scale, int bytes, int range, int64_t k), MOMENTS_BYTE)             \
    F(double, moments_number, (const uint8_t *code, int bytes, int range), MOMENTS_NUMBER)                             \
    F(double, moments_scale, (const uint8_t *code), MOMENTS_SCALE)                                                     \
    F(int, moments_range, (int64_t parts), MOMENTS_RANGE)

#define MOMENTS_HERE(type, name, parameters, ...) static inline type name parameters __VA_ARGS__
MOMENTS_SIZES
MOMENTS_FUNCTIONS(MOMENTS_HERE)

/* Puts the same definitions as text before an operator's GPU code (body), for devices that compile texts. */
#define MOMENTS_TEXT(...)  MOMENTS_TEXT_(__VA_ARGS__)
#define MOMENTS_TEXT_(...) #__VA_ARGS__
#define MOMENTS_THERE(type, name, parameters, ...)                                                                     \
    "const auto " #name " = []" #parameters " -> " #type " " MOMENTS_TEXT(__VA_ARGS__) ";\n(void)" #name ";\n"
#define MOMENTS_BODY(...) "{\n" MOMENTS_TEXT(MOMENTS_SIZES) "\n" MOMENTS_FUNCTIONS(MOMENTS_THERE) BODY(__VA_ARGS__) "}"

/* Reads code i of a dense tensor of codes. */
static inline void
moments_get(const struct view *codes, int64_t i, int bytes, uint8_t *code)
{
    for (int k = 0; k < bytes; k++) code[k] = (uint8_t)elem_get_i((enum dtype)codes->dtype, codes->data, i * bytes + k);
}

static inline void
moments_put(const struct view *codes, int64_t i, double number, double scale, int bytes, int range)
{
    for (int k = 0; k < bytes; k++)
        elem_set_i((enum dtype)codes->dtype, codes->data, i * bytes + k, moments_byte(number, scale, bytes, range, k));
}

#endif
