/* transpose16.c - transposes squares of sixteen channels by sixteen pixels in registers.
 *
 * Times for an image {1, 64, 2000, 2000} on one core, ms; a plain copy takes 54 ms:
 *
 *                            this file   oneDNN
 *    to the blocked layout          63       66
 *    back                           78       75
 *    back, bands of 266 rows                180 */
#include "kernels/cpu/base/transpose16.h"

#include "kernels/cpu/base/dnnl.h"
#include "kernels/cpu/base/lanes.h"
#include "kernels/cpu/base/team.h"
#include "kernels/cpu/base/transpose.h"
#include "runtime/base/simd.h"

#ifdef X86_LEVELS
#include <immintrin.h>
#endif

/* CHUNK: number of pixels per unit of work. GRAIN: minimum number of units per thread. */
enum { CHUNK = 1024, GRAIN = 4 };

bool
transpose16_of(const struct prim_layout *plain, struct transpose16 *t)
{
    const int64_t *n = plain->size, *step = plain->stride;
    if (plain->ndim != 4 || plain->dtype != dnnl_f32 || plain->tag || n[1] % LANES || step[3] != 1 || step[2] != n[3])
        return false;
    *t = (struct transpose16){n[0], n[1] / LANES, n[2] * n[3], step[1], step[0], n[1] * n[2] * n[3]};
    return true;
}

#ifdef X86_LEVELS
#define LOW(a, b)     __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define HIGH(a, b)    __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define FIRSTS(a, b)  __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define SECONDS(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)

/* Loads four floats from each of the rows 0, 4, 8 and 12 of a matrix. */
X86_V4 INLINE sixteen
fours(const float *from, int64_t step)
{
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(from));
    v = _mm512_insertf32x4(v, _mm_loadu_ps(from + 4 * step), 1);
    v = _mm512_insertf32x4(v, _mm_loadu_ps(from + 8 * step), 2);
    return (sixteen)_mm512_insertf32x4(v, _mm_loadu_ps(from + 12 * step), 3);
}

/* Transposes a square as turn_square() does, with AVX-512. Each load gathers four columns of four rows, so four
 * squares of four by four floats are transposed side by side. */
X86_V4 static void
turn_square_v4(const float *from, int64_t from_step, float *to, int64_t to_step)
{
#pragma GCC unroll 4
    for (int c = 0; c < LANES; c += 4, from += 4, to += 4 * to_step) {
        sixteen x[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) x[i] = fours(from + i * from_step, from_step);
        sixteen low = LOW(x[0], x[1]), high = HIGH(x[0], x[1]), low2 = LOW(x[2], x[3]), high2 = HIGH(x[2], x[3]);
        *(sixteen_anywhere *)to = FIRSTS(low, low2);
        *(sixteen_anywhere *)(to + to_step) = SECONDS(low, low2);
        *(sixteen_anywhere *)(to + 2 * to_step) = FIRSTS(high, high2);
        *(sixteen_anywhere *)(to + 3 * to_step) = SECONDS(high, high2);
    }
}
#endif

/* Sets to[j * to_step + i] = from[i * from_step + j] for i, j < 16. Without AVX-512, transposes squares of four by
 * four. */
static void
turn_square(const float *from, int64_t from_step, float *to, int64_t to_step)
{
#ifdef X86_LEVELS
    if (machine_level() == LEVEL_V4) {
        turn_square_v4(from, from_step, to, to_step);
        return;
    }
#endif
    transpose_cols(LANES, LANES, from, from_step, to, to_step);
}

/* Transposes n squares. */
static void
squares(const float *from, int64_t from_step, int64_t from_square, float *to, int64_t to_step, int64_t to_square,
        int64_t n)
{
    for (int64_t k = 0; k < n; k++) turn_square(from + k * from_square, from_step, to + k * to_square, to_step);
}

/* Converts n pixels of sixteen channels between the two layouts. */
static void
transpose_block(const struct transpose16 *t, float *plain, float *inner, bool back, int64_t n)
{
    int64_t whole = n / LANES;
    if (back)
        squares(inner, LANES, LANES * LANES, plain, t->apart, LANES, whole);
    else
        squares(plain, t->apart, LANES, inner, LANES, LANES * LANES, whole);
    for (int64_t p = whole * LANES; p < n; p++)
        for (int64_t c = 0; c < LANES; c++) {
            float *a = plain + c * t->apart + p, *b = inner + p * LANES + c;
            if (back)
                *a = *b;
            else
                *b = *a;
        }
}

struct work {
    const struct transpose16 *t;
    float *plain, *inner;
    bool back;
    int64_t chunks; /* number of units of work per block of channels */
};

static void
turn_units(void *arg, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    const struct transpose16 *t = w->t;
    for (int64_t u = lo; u < hi; u++) {
        int64_t first = u % w->chunks * CHUNK, block = u / w->chunks % t->blocks, image = u / w->chunks / t->blocks;
        float *plain = w->plain + image * t->plain_image + block * LANES * t->apart + first;
        float *inner = w->inner + image * t->inner_image + (block * t->places + first) * LANES;
        transpose_block(t, plain, inner, w->back, MIN(CHUNK, t->places - first));
    }
}

void
transpose16_run(const struct transpose16 *t, float *plain, float *inner, bool back, int threads)
{
    struct work w = {t, plain, inner, back, (t->places + CHUNK - 1) / CHUNK};
    team_run(threads, t->images * t->blocks * w.chunks, GRAIN, turn_units, &w);
}

/* ---- matrices ---- */

struct matrix_turn {
    int64_t rows, cols, from_step, to_step;
    const float *from;
    float *to;
};

/* Transposes strips of sixteen rows. The remaining rows and columns are transposed in squares of four by four. */
static void
turn_strips(void *arg, int64_t lo, int64_t hi)
{
    const struct matrix_turn *m = arg;
    for (int64_t strip = lo; strip < hi; strip++) {
        int64_t row = strip * LANES, rows = MIN(m->rows - row, LANES), whole = rows == LANES ? m->cols / LANES : 0;
        const float *from = m->from + row * m->from_step;
        float *to = m->to + row;
        squares(from, m->from_step, LANES, to, m->to_step, LANES * m->to_step, whole);
        int64_t done = whole * LANES;
        if (done < m->cols)
            transpose_cols(rows, m->cols - done, from + done, m->from_step, to + done * m->to_step, m->to_step);
    }
}

void
transpose16_matrix(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step,
                   int threads)
{
    enum { PLENTY = 1 << 15 }; /* minimum number of floats per thread */
    struct matrix_turn m = {rows, cols, from_step, to_step, from, to};
    team_run(threads, (rows + LANES - 1) / LANES, 1 + PLENTY / (LANES * MAX(cols, 1)), turn_strips, &m);
}
