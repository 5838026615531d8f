/* tile.c - compiles the loops over tiles (tile_loop.inc) for each x86-64 level, and chooses between levels.
 *
 * One function compiled for all levels (simd.h) would be too slow, because a vector must have the width of the
 * level's registers. gcc splits wider vectors, and splits their comparisons into single elements. Eight vectors
 * per tile hide the latency of an addition and leave registers for operands. */
#pragma GCC optimize("O3", "no-trapping-math", "wrapv")
#include "kernels/cpu/eltwise/tile.h"

#include "runtime/base/base.h"
#include "runtime/tensor/half.h"
#include "runtime/base/simd.h"

#include <stdbool.h>
#include <string.h>

/* AHEAD: prefetch distance, bytes; one core reads this many bytes from memory in about 100 ns. LINE: size of a
 * cache line, bytes. */
enum { AHEAD = 4096, LINE = 64 };

/* Modes of the loops, as bits. TILE_BACK: rows are processed from end to start. TILE_OVER: the last tile of a row
 * is a whole tile, which overlaps the previous tile. TILE_ROUNDS: bf16 are rounded by the processor's instruction,
 * which only level v4 has. */
enum { TILE_BACK = 1, TILE_OVER = 2, TILE_ROUNDS = 4 };

/* The loops have thousands of loads and stores. If sanitizers instrumented each of them, gcc would take minutes.
 * So the loops over tiles are exempt; they access memory by calls that copy it, and sanitizers check these calls.
 * In the loops of a single operation, sanitizers check only memory accesses. */
#ifdef SANITIZED
#define TILE_COPIES  1
#define TILE_SPARED  __attribute__((no_sanitize("address", "thread", "undefined")))
#define ALONE_SPARED __attribute__((no_sanitize("undefined")))
#else
#define TILE_COPIES 0
#define TILE_SPARED
#define ALONE_SPARED
#endif

/* Operations on vectors. tile_loop.inc defines PICK and TRUTH. */
#define COPY(a)        (a)
#define NEG(a)         (-(a))
#define ABS(a)         TILE_ABS(a)
#define SIGN(a)        PICK((a) > 0, (vec){0} + 1, PICK((a) < 0, (vec){0} - 1, (vec){0}))
#define SQUARE(a)      ((a) * (a))
#define RECIPROCAL(a)  (1 / (a))
#define SQRT(a)        TILE_ROOT(a)
#define RSQRT(a)       (1 / TILE_ROOT(a))
#define RELU(a)        PICK((a) <= 0, (vec){0}, a) /* a NaN is returned, because the comparison is false */
#define NOT(a)         TRUTH((a) == 0)
#define ADD(a, b)      ((a) + (b))
#define SUB(a, b)      ((a) - (b))
#define MUL(a, b)      ((a) * (b))
#define DIV(a, b)      ((a) / (b))
#define MAXIMUM(a, b)  TILE_KEEP_NAN(a, TILE_MAX(a, b))
#define MINIMUM(a, b)  TILE_KEEP_NAN(a, TILE_MIN(a, b))
#define EQ(a, b)       TRUTH((a) == (b))
#define NE(a, b)       TRUTH((a) != (b))
#define LT(a, b)       TRUTH((a) < (b))
#define LE(a, b)       TRUTH((a) <= (b))
#define GT(a, b)       TRUTH((a) > (b))
#define GE(a, b)       TRUTH((a) >= (b))
#define AND(a, b)      TRUTH(((a) != 0) & ((b) != 0))
#define OR(a, b)       TRUTH(((a) != 0) | ((b) != 0))
#define WHERE(a, b, c) PICK((a) != 0, b, c)
#define CLAMP(a, b, c) TILE_KEEP_NAN(a, TILE_KEEP_NAN(b, HELD(a, b, c)))
#define HELD(a, b, c)  TILE_MIN(TILE_MAX(a, b), c) /* a clamp that is correct unless a or b is NaN */

/* All operations by number of operands. TURNED: binary operations that equal another operation with swapped
 * operands. BOUNDED: ternary operations whose last two operands may be scalars. Their third macro argument is the
 * operation without NaN handling, which is used if the first of these two operands is not NaN. */
#define OPERATIONS(ONE, TWO, TURNED, THREE, BOUNDED)                                                                   \
    ONE(TILE_COPY, COPY)                                                                                               \
    ONE(TILE_NEG, NEG)                                                                                                 \
    ONE(TILE_ABS, ABS)                                                                                                 \
    ONE(TILE_SIGN, SIGN)                                                                                               \
    ONE(TILE_SQUARE, SQUARE)                                                                                           \
    ONE(TILE_RELU, RELU)                                                                                               \
    ONE(TILE_NOT, NOT)                                                                                                 \
    TURNED(TILE_ADD, ADD)                                                                                              \
    TWO(TILE_SUB, SUB)                                                                                                 \
    TURNED(TILE_MUL, MUL)                                                                                              \
    TWO(TILE_MAXIMUM, MAXIMUM)                                                                                         \
    TWO(TILE_MINIMUM, MINIMUM)                                                                                         \
    TURNED(TILE_EQ, EQ)                                                                                                \
    TURNED(TILE_NE, NE)                                                                                                \
    TURNED(TILE_LT, LT)                                                                                                \
    TURNED(TILE_LE, LE)                                                                                                \
    TURNED(TILE_GT, GT)                                                                                                \
    TURNED(TILE_GE, GE)                                                                                                \
    TURNED(TILE_AND, AND)                                                                                              \
    TURNED(TILE_OR, OR)                                                                                                \
    THREE(TILE_WHERE, WHERE)                                                                                           \
    BOUNDED(TILE_CLAMP, CLAMP, HELD)

/* Operations that only floats have. Integers are divided as floats, and square roots of integers are computed as
 * floats. */
#define OPERATIONS_REAL(ONE, TWO)                                                                                      \
    ONE(TILE_RECIPROCAL, RECIPROCAL)                                                                                   \
    ONE(TILE_SQRT, SQRT)                                                                                               \
    ONE(TILE_RSQRT, RSQRT)                                                                                             \
    TWO(TILE_DIV, DIV)

#ifdef X86_LEVELS
#include <immintrin.h>

typedef int16_t places __attribute__((vector_size(64)));
#define UPPER                                                                                                          \
    ((__m512i)(places){1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,                                 \
                       33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63})

#define TILE_SUFFIX        v4
#define TILE_LEVEL         X86_V4_BF16 /* the level's bf16 rounding instruction is used only with TILE_ROUNDS */
#define TILE_WIDTH         64
#define TILE_MM(name)      _mm512_##name
#define TILE_PS            __m512
#define TILE_PD            __m512d
#define TILE_PH            __m256i
#define TILE_NARROW(w)     _mm512_cvtepi32_epi16((__m512i)(w))
#define TILE_TO_BF16(f)    to_bf16_sixteen((__m512)(f))
#define TILE_CUTS(p, a, b) _mm512_storeu_si512(p, _mm512_permutex2var_epi16((__m512i)(a), UPPER, (__m512i)(b)))
#include "kernels/cpu/eltwise/tile_level.inc"

#define TILE_SUFFIX    v3
#define TILE_LEVEL     X86_V3
#define TILE_WIDTH     32
#define TILE_MM(name)  _mm256_##name
#define TILE_PS        __m256
#define TILE_PD        __m256d
#define TILE_PH        __m128i
#define TILE_NARROW(w) _mm_packus_epi32(_mm256_castsi256_si128((__m256i)(w)), _mm256_extracti128_si256((__m256i)(w), 1))
#include "kernels/cpu/eltwise/tile_level.inc"

#define TILE_MM(name) _mm_##name
#define TILE_PS       __m128
#define TILE_PD       __m128d
#endif

typedef uint16_t four_halves __attribute__((vector_size(8)));
typedef uint32_t four_words __attribute__((vector_size(16)));
typedef float four_floats __attribute__((vector_size(16)));
static inline four_floats
four_of_f16(four_halves h)
{
    return (four_floats){from_f16(h[0]), from_f16(h[1]), from_f16(h[2]), from_f16(h[3])};
}

static inline four_halves
to_f16_of(four_floats f)
{
    return (four_halves){to_f16(f[0]), to_f16(f[1]), to_f16(f[2]), to_f16(f[3])};
}
#define TILE_WIDEN(h)  __builtin_convertvector((four_halves)(h), four_words)
#define TILE_NARROW(w) __builtin_convertvector((four_words)(w), four_halves)
#define TILE_OF_F16(h) four_of_f16((four_halves)(h))
#define TILE_TO_F16(f) to_f16_of((four_floats)(f))
#define TILE_SUFFIX    any
#define TILE_LEVEL
#define TILE_WIDTH 16
#include "kernels/cpu/eltwise/tile_level.inc"

typedef void loop_fn(const struct tile_step *step, int64_t n, int64_t nrow, int64_t at, int64_t apart, int how);

/* Defines the loops of a level, indexed by enum compute. */
#define LOOPS(level)                                                                                                   \
    {tiles_f32_##level, tiles_f64_##level, tiles_i64_##level, tiles_i32_##level},                                      \
    {                                                                                                                  \
        alone_f32_##level, alone_f64_##level, alone_i64_##level, alone_i32_##level                                     \
    }

static const struct level {
    loop_fn *tiles[NCOMPUTE], *alone[NCOMPUTE];
    int64_t width; /* width of a vector, bytes */
} levels[] = {
    [LEVEL_ANY] = {LOOPS(any), 16},
#ifdef X86_LEVELS
    [LEVEL_V3] = {LOOPS(v3), 32},
    [LEVEL_V4] = {LOOPS(v4), 64},
#endif
};

static bool
has_halves(const struct tile_step *step)
{
    for (; step->code != TILE_END; step++)
        for (int k = 0; k < 2; k++)
            if (tile_of_halves(step->way[k])) return true;
    return false;
}

static bool
is_lone_step(const struct tile_step *step)
{
    if (has_halves(step)) return false;
    if (step[0].code != TILE_LOAD || step[0].way[0] == TILE_STAYS) return false;
    if (step[1].code >= TILE_LOAD || step[2].code != TILE_STORE || step[3].code != TILE_END) return false;
    bool tiles = step[1].code >= TILE_CODE(TILE_WHERE, 0) && step[1].code != TILE_CODE(TILE_CLAMP, 0) + TILE_NUMBERS;
    return !tiles || (step[1].way[0] != TILE_STAYS && step[1].way[1] != TILE_STAYS);
}

static bool
repeats(const struct tile_step *step)
{
    for (; step->code != TILE_END; step++)
        for (int k = 0; k < 2; k++)
            if (tile_repeats(step->way[k])) return true;
    return false;
}

static bool
stores(const struct tile_step *s)
{
    return s->code == TILE_STORE || s->code == TILE_CUT || s->code == TILE_STREAM;
}

/* Returns true if loads would wait for stores (4 KiB aliasing), which processing a row backwards avoids. A load
 * waits for an earlier store whose address has the same low twelve bits, because the core does not yet know the
 * other bits. All loads wait if the operand's address is slightly below the result's address modulo the page size.
 *
 * An example is relu of f32{256, 3072} with the result 64 to 256 bytes past the operand modulo a page, on one Zen
 * 4 (EPYC) core. It takes 88 to 101 us forwards, and 66 us backwards, as without aliasing. */
static bool
meets_stores(const struct tile_step *step)
{
    /* PAGE: size of a page; BEHIND: maximum distance of the result after the operand, modulo a page; both in
     * bytes. */
    enum { PAGE = 4096, BEHIND = 512 };
    uintptr_t to = 0;
    int way = TILE_WALKS;
    for (const struct tile_step *s = step; s->code != TILE_END; s++) {
        if (!stores(s)) continue;
        to = (uintptr_t)s->memory[0];
        way = s->way[0];
    }
    for (const struct tile_step *s = step; s->code != TILE_END; s++)
        for (int k = 0; k < 2 && s->code < TILE_STORE; k++)
            if (s->way[k] == way && (to - (uintptr_t)s->memory[k] - 1) % PAGE < BEHIND) return true;
    return false;
}

/* Returns true if elements may be processed twice, that is, if no step overwrites what an earlier step reads. */
static bool
may_repeat_step(const struct tile_step *step)
{
    for (const struct tile_step *s = step; s->code != TILE_END; s++)
        for (const struct tile_step *before = step; before < s && stores(s); before++)
            for (int k = 0; k < 2 && before->code <= TILE_LOAD; k++)
                if (before->memory[k] == s->memory[0]) return false;
    return true;
}

/* Executes a program. If an operand has one row for all rows, long rows are processed in blocks of columns,
 * because that row would otherwise be evicted from the first-level cache. Rows longer than FAR are processed in
 * memory order, which is then faster. On one Zen 4 (EPYC) core, blocks of columns shorten f32{256, 3072} plus a
 * row from 105 to 75 us. */
void
tile_run(enum compute type, const struct tile_step *step, int64_t n, int64_t nrow)
{
    /* Sizes in bytes. Rows longer than NEAR and at most FAR are processed in blocks of COLUMNS. */
    enum { NEAR = 8 << 10, FAR = 32 << 10, COLUMNS = 4 << 10 };
    const struct level *here = &levels[machine_level()];
    int64_t size = (int64_t)compute_bytes(type), bytes = n * size, part = n;
    bool alone = is_lone_step(step);
    int how = (meets_stores(step) ? TILE_BACK : 0) | (!alone && may_repeat_step(step) ? TILE_OVER : 0) |
              (machine_rounds_bf16() ? TILE_ROUNDS : 0);
    if (nrow > 1 && bytes > NEAR && bytes <= FAR && repeats(step)) part = COLUMNS / size;
    for (int64_t at = 0; at < n; at += part) {
        int64_t some = MIN(part, n - at);
        loop_fn *run = alone && some * size >= here->width ? here->alone[type] : here->tiles[type];
        run(step, some, nrow, at * size, bytes, how);
    }
}

void
tile_fence(void)
{
#ifdef X86_LEVELS
    _mm_sfence();
#endif
}
