/* transpose.c - transposes a matrix of floats, in squares of four by four. */
#include "kernels/cpu/base/transpose.h"

#include "kernels/cpu/base/lanes.h"

#include <string.h>

/* Interleave lanes of two vectors, to transpose four by four floats in registers. Transposing element by element
 * would take four times as long. */
#define LOW(a, b)  __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)

INLINE four
four_at(const float *x)
{
    four v;
    memcpy(&v, x, sizeof v);
    return v;
}

INLINE void
transpose_four(const float *x, int64_t width, float *y, int64_t n)
{
    four a = four_at(x), b = four_at(x + width), c = four_at(x + 2 * width), d = four_at(x + 3 * width);
    four ac = LOW(a, c), bd = LOW(b, d), ca = HIGH(a, c), db = HIGH(b, d);
    const four line[] = {LOW(ac, bd), HIGH(ac, bd), LOW(ca, db), HIGH(ca, db)};
    for (int l = 0; l < 4; l++) memcpy(y + l * n, &line[l], sizeof line[l]);
}

void
transpose_cols(int64_t n, int64_t width, const float *x, int64_t x_pitch, float *y, int64_t y_pitch)
{
    int64_t n4 = n / 4 * 4, width4 = width / 4 * 4;
    for (int64_t c = 0; c < width4; c += 4)
        for (int64_t i = 0; i < n4; i += 4) transpose_four(x + i * x_pitch + c, x_pitch, y + c * y_pitch + i, y_pitch);
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = i < n4 ? width4 : 0; c < width; c++) y[c * y_pitch + i] = x[i * x_pitch + c];
}
