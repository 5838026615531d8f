/* tile.c - compiles the loops over tiles (tile_loop.inc) for each x86-64 level, and chooses between levels.
 *
 * One function compiled for all levels (simd.h) would be too slow, because a vector must have the width of the
 * level's registers. gcc splits wider vectors, and splits their comparisons into single elements. Eight vectors
 * per tile hide the latency of an addition and leave registers for operands. docs/tile.md derives the loops. */
/* align-loops: a loop of few instructions takes up to 1.5 times as long if it crosses a boundary of 32 bytes. */
#pragma GCC optimize("O3", "no-trapping-math", "wrapv", "align-loops=32")
#include "kernels/cpu/eltwise/tile.h"

#include "kernels/cpu/base/lanes.h"
#include "runtime/base/base.h"
#include "runtime/tensor/half.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#ifdef X86_LEVELS
#include <immintrin.h>
#endif

/* AHEAD: prefetch distance, bytes; one core reads this many bytes from memory in about 100 ns. LINE: size of a
 * cache line, bytes. */
enum { AHEAD = 4096, LINE = 64 };

/* Modes of the loops, as bits. TILE_BACK: rows are processed from end to start. TILE_OVER: the last tile of a row
 * is a whole tile, which overlaps the previous tile. TILE_ROUNDS: bf16 are rounded by the processor's instruction,
 * which only level v4 has. */
enum { TILE_BACK = 1, TILE_OVER = 2, TILE_ROUNDS = 4 };

/* The loops have thousands of loads and stores. If sanitizers instrumented each of them, gcc would take minutes.
 * So the loops over tiles are exempt; they access memory by calls that copy it, and sanitizers check these calls.
 * In the loops of a single operation, sanitizers check only memory accesses. Inlined functions are exempt like the
 * loops over tiles: otherwise gcc would mark their variables as out of scope, and never clear these marks. */
#ifdef SANITIZED
#define TILE_COPIES  1
#define TILE_SPARED  __attribute__((no_sanitize("address", "thread", "undefined")))
#define ALONE_SPARED __attribute__((no_sanitize("undefined")))
#define TILE_INLINE  INLINE TILE_SPARED
#else
#define TILE_COPIES 0
#define TILE_SPARED
#define ALONE_SPARED
#define TILE_INLINE INLINE
#endif

/* Selects a where the condition holds, elsewhere b. PICK is a macro, because gcc 12 needs the comparison itself to
 * generate one masked instruction; from the result of a comparison, gcc generates three instructions. */
#define PICK(condition, a, b) ((T)(((condition) & (OF(bits))(a)) | (~(condition) & (OF(bits))(b))))

/* Lists the codes of all operations. The user of the list defines CASE(code). FIRST: the value is always the first
 * operand of these binary operations, because each equals some operation with swapped operands. */
#define ONE(op)   CASE(TILE_CODE(op, 0))
#define FIRST(op) CASE(TILE_CODE(op, 0)) CASE(TILE_CODE(op, 0) + TILE_NUMBER)
#define TWO(op)   FIRST(op) CASE(TILE_CODE(op, 1)) CASE(TILE_CODE(op, 1) + TILE_NUMBER)
#define THREE(op) CASE(TILE_CODE(op, 0)) CASE(TILE_CODE(op, 1)) CASE(TILE_CODE(op, 2))
#define CODES                                                                                                          \
    ONE(TILE_COPY)                                                                                                     \
    ONE(TILE_NEG)                                                                                                      \
    ONE(TILE_ABS)                                                                                                      \
    ONE(TILE_SIGN)                                                                                                     \
    ONE(TILE_SQUARE)                                                                                                   \
    ONE(TILE_RELU)                                                                                                     \
    ONE(TILE_NOT)                                                                                                      \
    FIRST(TILE_ADD)                                                                                                    \
    TWO(TILE_SUB)                                                                                                      \
    FIRST(TILE_MUL)                                                                                                    \
    TWO(TILE_MAXIMUM)                                                                                                  \
    TWO(TILE_MINIMUM)                                                                                                  \
    FIRST(TILE_EQ)                                                                                                     \
    FIRST(TILE_NE)                                                                                                     \
    FIRST(TILE_LT)                                                                                                     \
    FIRST(TILE_LE)                                                                                                     \
    FIRST(TILE_GT)                                                                                                     \
    FIRST(TILE_GE)                                                                                                     \
    FIRST(TILE_AND)                                                                                                    \
    FIRST(TILE_OR)                                                                                                     \
    THREE(TILE_WHERE)                                                                                                  \
    THREE(TILE_CLAMP)                                                                                                  \
    CASE(TILE_CODE(TILE_CLAMP, 0) + TILE_NUMBERS)

/* Lists the codes that only floats have. Integers are divided as floats, and square roots of integers are computed as
 * floats. */
#define CODES_REAL                                                                                                     \
    ONE(TILE_RECIPROCAL)                                                                                               \
    ONE(TILE_SQRT)                                                                                                     \
    ONE(TILE_RSQRT)                                                                                                    \
    TWO(TILE_DIV)

/* Decode a step's code: the number of the operation's operands, the position of the value among the operands, and
 * whether the other operands are scalars that stay in registers. */
TILE_INLINE int
count_operands(int code)
{
    return code >= TILE_CODE(TILE_WHERE, 0) ? 3 : code >= TILE_CODE(TILE_ADD, 0) ? 2 : 1;
}

TILE_INLINE int
value_position(int code)
{
    return code % 4 % (count_operands(code) == 3 ? TILE_NUMBERS : TILE_NUMBER);
}

TILE_INLINE bool
in_numbers(int code)
{
    return code % 4 >= (count_operands(code) == 3 ? TILE_NUMBERS : TILE_NUMBER);
}

/* The tile that the loops process. Its fields stay in registers, because only the buffers' addresses are passed on.
 * VECTORS: vectors per tile; MOST_BYTES: maximum size of a tile, bytes. */
enum { VECTORS = 8, MOST_BYTES = 64 * VECTORS };
struct tile {
    int64_t *offset; /* by way of addressing: offset of the tile from an operand's address, bytes */
    int64_t ahead;   /* prefetch distance, bytes */
    size_t rest;     /* size of the tile's part that is within the row, bytes */
    bool partial;    /* true: the tile ends beyond its row, so steps read and write complete copies of the tile */
    bool rounds;     /* true: the processor's instruction rounds floats to bf16 */
    char (*spare)[MOST_BYTES]; /* two buffers: copies of the tiles of two operands */
    char *halves;              /* buffer: copy of a tile of 16-bit floats */
};

TILE_INLINE bool
is_partial(const struct tile *t)
{
    return __builtin_expect(t->partial, 0);
}

/* Returns the address of operand k of step s in this tile. */
TILE_INLINE char *
tile_at(const struct tile *t, const struct tile_step *s, int k)
{
    return s->memory[k] + t->offset[s->way[k]];
}

/* Returns the address of a complete tile of operand k. Copies a tile that ends beyond its row to `copy`; size: bytes of
 * the operand's tile in the row. */
TILE_INLINE const char *
complete_tile(const struct tile *t, const struct tile_step *s, int k, char *copy, size_t size)
{
    return is_partial(t) ? memcpy(copy, tile_at(t, s, k), size) : tile_at(t, s, k);
}

/* A row for the loops of a single operation. */
struct span {
    int64_t bytes, first, stride; /* size, start of the first vector, distance to the next one; bytes */
    int64_t vectors;              /* number of complete vectors; a last vector of the row overlaps the one before it */
};

#define LANES_FILE "kernels/cpu/eltwise/tile_level.inc"
#include "kernels/cpu/base/lanes_levels.inc"

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
