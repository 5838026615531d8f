/* turn.c - squares of sixteen channels and sixteen places, transposed in registers.
 *
 * {1, 64, 2000, 2000} there and back on one core: 63 and 78 ms, oneDNN's own 66 and 75; in bands of 266 rows oneDNN's
 * takes 180 ms back. A copy takes 54. */
#include "kernels/cpu/turn.h"

#include "kernels/cpu/lanes.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/team.h"
#include "runtime/simd.h"

enum { CHUNK = 1024, GRAIN = 4 }; /* places that are one unit of work; units that are worth a thread */

bool
turning_of(const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *inner, struct turning *t)
{
    dnnl_memory_desc_t sixteens;
    const int64_t *n = plain->dims, *step = plain->format_desc.blocking.strides;
    bool rows = plain->ndims == 4 && plain->data_type == dnnl_f32 && plain->format_desc.blocking.inner_nblks == 0;
    if (!rows || n[1] % LANES || step[3] != 1 || step[2] != n[3]) return false;
    dnnl_memory_desc_init_by_tag(&sixteens, 4, n, dnnl_f32, dnnl_aBcd16b);
    *t = (struct turning){n[0], n[1] / LANES, n[2] * n[3], step[1], step[0], n[1] * n[2] * n[3]};
    return dnnl_memory_desc_equal(inner, &sixteens);
}

#ifdef X86_LEVELS
#define MEET(a, b, low, high)                                                                                          \
    do {                                                                                                               \
        low = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);                   \
        high = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);            \
    } while (0)

/* As turn_square(). Four rounds, in each of which the vectors i and i + 8 become 2 i and 2 i + 1, entry by entry. */
X86_V4 static void
turn_square_v4(const float *from, int64_t from_step, float *to, int64_t to_step)
{
    sixteen a[LANES], b[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) a[i] = *(const sixteen_anywhere *)(from + i * from_step);
#pragma GCC unroll 2
    for (int twice = 0; twice < 2; twice++) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) MEET(a[i], a[i + 8], b[2 * i], b[2 * i + 1]);
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) MEET(b[i], b[i + 8], a[2 * i], a[2 * i + 1]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) *(sixteen_anywhere *)(to + i * to_step) = a[i];
}
#endif

/* to[j * to_step + i] = from[i * from_step + j] for sixteen of both. Registers that are shorter hold squares of four.
 */
static void
turn_square(const float *from, int64_t from_step, float *to, int64_t to_step)
{
#ifdef X86_LEVELS
    if (machine_level() == LEVEL_V4) {
        turn_square_v4(from, from_step, to, to_step);
        return;
    }
#endif
    cols_turn(LANES, LANES, from, from_step, to, to_step);
}

/* n squares. */
static void
squares(const float *from, int64_t from_step, int64_t from_square, float *to, int64_t to_step, int64_t to_square,
        int64_t n)
{
    for (int64_t k = 0; k < n; k++) turn_square(from + k * from_square, from_step, to + k * to_square, to_step);
}

/* n places of sixteen channels. */
static void
turn(const struct turning *t, float *plain, float *inner, bool back, int64_t n)
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
    const struct turning *t;
    float *plain, *inner;
    bool back;
    int64_t chunks; /* of a block */
};

static void
turn_units(void *arg, int64_t lo, int64_t hi)
{
    const struct work *w = arg;
    const struct turning *t = w->t;
    for (int64_t u = lo; u < hi; u++) {
        int64_t first = u % w->chunks * CHUNK, block = u / w->chunks % t->blocks, image = u / w->chunks / t->blocks;
        float *plain = w->plain + image * t->plain_image + block * LANES * t->apart + first;
        float *inner = w->inner + image * t->inner_image + (block * t->places + first) * LANES;
        turn(t, plain, inner, w->back, MIN(CHUNK, t->places - first));
    }
}

void
turning_run(const struct turning *t, float *plain, float *inner, bool back, int threads)
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

/* Strips of sixteen rows; what is left of rows and columns goes four by four. */
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
            cols_turn(rows, m->cols - done, from + done, m->from_step, to + done * m->to_step, m->to_step);
    }
}

void
turn_matrix(int64_t rows, int64_t cols, const float *from, int64_t from_step, float *to, int64_t to_step, int threads)
{
    enum { PLENTY = 1 << 15 }; /* floats that are worth a thread */
    struct matrix_turn m = {rows, cols, from_step, to_step, from, to};
    team_run(threads, (rows + LANES - 1) / LANES, 1 + PLENTY / (LANES * MAX(cols, 1)), turn_strips, &m);
}
