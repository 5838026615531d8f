/* random.c - computes Philox4x32-10 for many counters at once, and converts its words to random values
 * (runtime/data/rng.h).
 *
 * Philox computes whole blocks of four values (two of f64), so the workspace starts at the first element of a block.
 * The words are written to the workspace and converted to values in place. The caller reads the requested values
 * there. */
#pragma GCC optimize("O3", "no-trapping-math")
#include "kernels/cpu/math/random.h"

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/base/lanes.h"
#include "kernels/cpu/base/team.h"

#include <math.h>

#ifdef X86_LEVELS
#include <immintrin.h>
#endif

#define LANES_FILE "kernels/cpu/math/random_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

/* ---- converting random words to numbers ---- */

/* Converts an integer 0 <= n < 2^52 to a double by setting bits, because older machines have no vector instruction
 * for this conversion. */
INLINE double
uniform_real(uint64_t n)
{
    return double_of(n | 0x4330000000000000) - 0x1p52;
}

/* Converts an integer 0 <= n < 2^53 to a double, without a conversion instruction. */
INLINE double
long_real_of(uint64_t n)
{
    return uniform_real(n >> 26) * 0x1p26 + uniform_real(n & 0x3ffffff);
}

/* Returns ln(n / 2^top) for 0 < n <= 2^top. n is split into 2^e m with sqrt(1/2) <= m < sqrt 2. ln m is 2 atanh s,
 * where s = (m - 1) / (m + 1) and s^2 < 0.0295. terms: number of terms of the series for atanh; a constant in every
 * caller, chosen for its precision. */
INLINE double
ln(double n, int top, int terms)
{
    /* Subtracts the bits of sqrt(1/2), so that the exponent field is e. */
    uint64_t u = bits_of_double(n) - 0x3fe6a09e667f3bcd;
    double e = uniform_real((u >> 52) & 0x7ff) - top; /* the sign bit of n is 0, because n >= 1 */
    double m = double_of((u & 0x000fffffffffffff) + 0x3fe6a09e667f3bcd);
    double s = (m - 1) / (m + 1), z = s * s, q = 1.0 / (2 * terms + 1);
    for (int k = terms - 1; k > 0; k--) q = q * z + 1.0 / (2 * k + 1);
    return e * 0.693147180559945309417 + (2 * s + 2 * s * z * q);
}

/* Returns sin(2 pi v) for |v| <= 1/4. */
INLINE double
sin_turn(double v, int terms)
{
    static const double inverse[] = {-1.0 / 6,
                                     1.0 / 120,
                                     -1.0 / 5040,
                                     1.0 / 362880,
                                     -1.0 / 39916800,
                                     1.0 / 6227020800,
                                     -1.0 / 1307674368000,
                                     1.0 / 355687428096000,
                                     -1.0 / 121645100408832000,
                                     1.0 / 51090942171709440000.0};
    double r = v * 6.283185307179586476925, z = r * r, q = inverse[terms - 1];
    for (int k = terms - 2; k >= 0; k--) q = q * z + inverse[k];
    return r + r * z * q;
}

/* Number of terms of the series, for f32 (error 1e-10) and for f64. */
enum { LN_F32 = 6, LN_F64 = 11, SIN_F32 = 7, SIN_F64 = 10 };

/* Computes two normal values from u = n / 2^top and v (Box-Muller): radius * cos(2 pi v) and radius * sin(2 pi v),
 * where radius = sqrt(-2 ln u). Both are computed as sines of at most a quarter turn: cos(2 pi v) = sin(2 pi (|v -
 * 1/2| - 1/4)), sin(2 pi v) = s sin(2 pi (1/4 - ||v - 1/2| - 1/4|)), where s is -1 if v > 1/2, else 1. */
INLINE void
normal_pair(double n, int top, double v, bool wide, double *even, double *odd)
{
    /* ln is at most 0. fabs() makes the radius +0 if u = 1; a minus sign would make it -0. */
    double radius = sqrt(2 * fabs(ln(n, top, wide ? LN_F64 : LN_F32)));
    double half = v - 0.5, turn = fabs(half) - 0.25;
    *even = radius * sin_turn(turn, wide ? SIN_F64 : SIN_F32);
    *odd = radius * copysign(sin_turn(0.25 - fabs(turn), wide ? SIN_F64 : SIN_F32), -half);
}

/* ---- converting n random words to values, in place ---- */

VECTOR static void
uniform_f32(int64_t n, int digits, union random_workspace *w)
{
    float scale = ldexpf(1, -digits);
    int cut = 32 - digits;
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) w->f32[i] = (float)(int32_t)(w->u32[i] >> cut) * scale;
}

VECTOR static void
uniform_f64(int64_t n, int digits, union random_workspace *w)
{
    UNUSED(digits);
    INDEPENDENT
    for (int64_t i = 0; i < n; i++) w->f64[i] = long_real_of(w->u64[i] >> 11) * 0x1p-53;
}

VECTOR static void
normal_f32(int64_t n, int digits, union random_workspace *w)
{
    UNUSED(digits);
    INDEPENDENT
    for (int64_t i = 0; i < n / 2; i++) {
        uint64_t pair = w->u64[i];
        double even, odd;
        normal_pair(uniform_real((pair & 0xffffffff) + 1), 32, uniform_real(pair >> 32) * 0x1p-32, false, &even, &odd);
        w->f32[2 * i] = (float)even;
        w->f32[2 * i + 1] = (float)odd;
    }
}

VECTOR static void
normal_f64(int64_t n, int digits, union random_workspace *w)
{
    UNUSED(digits);
    INDEPENDENT
    for (int64_t i = 0; i < n; i += 2) {
        double u = long_real_of(w->u64[i] >> 11) + 1, v = long_real_of(w->u64[i + 1] >> 11) * 0x1p-53;
        normal_pair(u, 53, v, true, &w->f64[i], &w->f64[i + 1]);
    }
}

static void
bits_64(int64_t n, int digits, union random_workspace *w)
{
    UNUSED(n), UNUSED(digits), UNUSED(w);
}

struct law {
    void (*values)(int64_t n, int digits, union random_workspace *w);
    int of; /* number of random values per Philox block */
};
static const struct law laws[][2] = {
    [RANDOM_UNIFORM] = {{uniform_f32, 4}, {uniform_f64, 2}},
    [RANDOM_NORMAL] = {{normal_f32, 4}, {normal_f64, 2}},
    [RANDOM_BITS] = {{bits_64, 2}, {bits_64, 2}},
};

const void *
random_values(enum random r, enum dtype d, const struct random_at *at, int64_t n, union random_workspace *workspace)
{
    const struct law *law = &laws[r][d == DT_F64];
    uint64_t first = at->position / (uint64_t)law->of, skip = at->position % (uint64_t)law->of;
    assert(n <= RANDOM_BLOCK);
    int64_t nblock = ((int64_t)skip + n + law->of - 1) / law->of;
    OF_LEVEL(words)(at->key, at->piece, first, nblock, workspace->u32);
    law->values(nblock * law->of, dtype_digits(d), workspace);
    return law->of == 4 ? (const void *)(workspace->f32 + skip) : workspace->f64 + skip;
}

/* ---- whole tensors ---- */

int64_t
global_run(const struct view *v)
{
    int64_t run = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        run *= v->dim[d];
        if (v->dim[d] != v->global[d]) break;
    }
    return run;
}

uint64_t
global_position(const struct view *v, int64_t i)
{
    int64_t at = 0, scale = 1;
    for (int d = v->ndim - 1; d >= 0; scale *= v->global[d--]) {
        at += (v->offset[d] + i % v->dim[d]) * scale;
        i /= v->dim[d];
    }
    return (uint64_t)at;
}

struct random_draw
random_draw(const struct kcall *k, uint64_t key, const struct attr *run)
{
    return (struct random_draw){.key = key, .piece = k->piece, .run = run[0].i, .pieces = run[1].i};
}

struct random_at
random_at(const struct random_draw *d, uint64_t position)
{
    uint64_t run = (uint64_t)d->run;
    if (d->run <= 0) return (struct random_at){d->key, d->run ? 0 : d->piece, position};
    return (struct random_at){d->key, 0, (position / run * (uint64_t)d->pieces + d->piece) * run + position % run};
}

int64_t
random_length(const struct random_draw *d, uint64_t position, int64_t n)
{
    return d->run > 0 ? MIN(n, d->run - (int64_t)(position % (uint64_t)d->run)) : n;
}

struct fill {
    const struct view *y;
    enum random law;
    const struct random_draw *draw;
};

static void
fill_range(void *arg, int64_t lo, int64_t hi)
{
    const struct fill *f = arg;
    const struct view *y = f->y;
    union random_workspace workspace;
    int64_t run = global_run(y), bytes = (int64_t)dtype_bytes(y->dtype);
    for (int64_t i = lo, m; i < hi; i += m) {
        uint64_t position = global_position(y, i);
        m = random_length(f->draw, position, MIN(MIN(run - i % run, RANDOM_BLOCK), hi - i));
        struct random_at at = random_at(f->draw, position);
        const void *values = random_values(f->law, y->dtype, &at, m, &workspace);
        block_store(y->dtype == DT_F64 ? COMP_F64 : COMP_F32, y->dtype, values, m, (char *)y->data + i * bytes, 1);
    }
}

void
random_fill(const struct view *y, const struct random_draw *d, enum random law, int threads)
{
    struct fill f = {y, law, d};
    team_run(threads, view_numel(y), RANDOM_GRAIN, fill_range, &f);
}
