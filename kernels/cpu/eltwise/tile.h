/* tile.h - an interpreter for plain arithmetic that keeps the value in registers from step to step.
 *
 * A program is a list of steps. tile_run() executes the program for one tile of elements after the other. A tile is
 * eight vectors of the machine's width, held in registers as the program's value. A step computes with the value and
 * at most two tiles of memory, or loads or stores the value. So a chain of sums and products costs one load, one
 * store and the arithmetic.
 *
 * Results are bit-identical on every machine level and for every start of a tile, because each operation rounds
 * separately.
 *
 * One Zen 5 core (AVX-512), bench/ops: a step takes 10 ps per element from registers, so a chain of ten sums and
 * products is memory-bound. The maker of a program owns it; any thread runs the program, which is read-only. */
#ifndef RILLE_KERNELS_CPU_TILE_H
#define RILLE_KERNELS_CPU_TILE_H

#include "kernels/cpu/base/convert.h"

/* The operation that an operator's record names (struct eltwise, tile). Comparisons give 1 and 0. */
enum tile_op {
    TILE_NONE, /* not supported by tile.c */
    TILE_COPY,
    TILE_NEG,
    TILE_ABS,
    TILE_SIGN,
    TILE_SQUARE,
    TILE_RECIPROCAL,
    TILE_SQRT, /* reals only, as RSQRT */
    TILE_RSQRT,
    TILE_RELU,
    TILE_NOT,
    TILE_ADD,
    TILE_SUB,
    TILE_MUL,
    TILE_DIV,
    TILE_MAXIMUM,
    TILE_MINIMUM,
    TILE_EQ,
    TILE_NE,
    TILE_LT,
    TILE_LE,
    TILE_GT,
    TILE_GE,
    TILE_AND,
    TILE_OR,
    TILE_WHERE,
    TILE_CLAMP, /* min(max(operand 0, operand 1), operand 2) */
    NTILE_OP
};

/* Returns true if the result is always 1 or 0. */
static inline bool
tile_gives_truth(int op)
{
    return op == TILE_NOT || (op >= TILE_EQ && op <= TILE_OR);
}

/* Returns true if the low bits of an integer result depend only on the low bits of the operands. */
static inline bool
tile_wraps(int op)
{
    return op == TILE_ADD || op == TILE_SUB || op == TILE_MUL;
}

/* Returns the operands that the operation selects its result from, apart from its sign and from 0, 1 and -1; bit k:
 * operand k. A half can then represent the result exactly if it can represent these operands. TILE_COMPUTES: any
 * other value. */
enum { TILE_COMPUTES = -1 };
static inline int
tile_chooses(int op)
{
    if (tile_gives_truth(op) || op == TILE_SIGN) return 0;
    if (op == TILE_COPY || op == TILE_NEG || op == TILE_ABS || op == TILE_RELU) return 1 << 0;
    if (op == TILE_MAXIMUM || op == TILE_MINIMUM) return 1 << 0 | 1 << 1;
    if (op == TILE_CLAMP) return 1 << 0 | 1 << 1 | 1 << 2;
    return op == TILE_WHERE ? 1 << 1 | 1 << 2 : TILE_COMPUTES;
}

/* Returns the operation that remains if an operand is absent: a clamp without one bound, or without both. */
static inline int
tile_without(int op, int operand)
{
    return op != TILE_CLAMP ? TILE_COPY : operand == 1 ? TILE_MINIMUM : TILE_MAXIMUM;
}

/* Returns the operation that equals op with its two operands exchanged; TILE_NONE if there is none. */
static inline int
tile_commuted(int op)
{
    static const int turned[NTILE_OP] = {
        [TILE_ADD] = TILE_ADD, [TILE_MUL] = TILE_MUL, [TILE_EQ] = TILE_EQ, [TILE_NE] = TILE_NE,   [TILE_LT] = TILE_GT,
        [TILE_LE] = TILE_GE,   [TILE_GT] = TILE_LT,   [TILE_GE] = TILE_LE, [TILE_AND] = TILE_AND, [TILE_OR] = TILE_OR};
    return turned[op];
}

/* Codes of steps. An operation's code includes the operand that the value is: 0, 1 or 2. Add TILE_NUMBER if the
 * other of two operands is a number (per program or per row), which then stays in a register. Add TILE_NUMBERS if
 * both bounds of a clamp of operand 0 are numbers. Moves have their own codes. */
#define TILE_CODE(op, value) (4 * (int)(op) + (value))
enum {
    TILE_NUMBER = 2,
    TILE_NUMBERS = 3,
    TILE_LOAD = TILE_CODE(NTILE_OP, 0), /* value = memory[0] */
    TILE_STORE,                         /* memory[0] = value, rounded if memory holds halves */
    TILE_CUT,                           /* STORE of bf16 if the value is a bf16 already */
    TILE_STREAM,                        /* STORE past the caches; end with tile_fence() */
    TILE_FETCH,                         /* prefetches memory[0] for a later step */
    TILE_ROUND_BF16,                    /* value rounded to bf16 */
    TILE_ROUND_F16,
    TILE_END
};

/* Returns the code of an operation. If the value is operand 1, commutable operations use the code of the exchanged
 * one. */
static inline int
tile_code(int op, int value)
{
    return value == 1 && tile_commuted(op) != TILE_NONE ? TILE_CODE(tile_commuted(op), 0) : TILE_CODE(op, value);
}

/* Elements (all equal) of a number in memory: the size of the longest tile. */
enum { TILE_LONGEST = 128 };

/* The addressing of an operand. Elements have the program's type, or are halves in an f32 program. */
enum tile_way {
    TILE_STAYS,      /* a number */
    TILE_WALKS,      /* element by element */
    TILE_BY_ROW,     /* a number per row */
    TILE_REPEATS,    /* restarts with every row */
    TILE_WALKS_BF16, /* halves; not for TILE_STREAM */
    TILE_REPEATS_BF16,
    TILE_WALKS_F16,
    TILE_REPEATS_F16,
    NTILE_WAY
};
static inline bool
tile_of_halves(int way)
{
    return way >= TILE_WALKS_BF16;
}
static inline bool
tile_repeats(int way)
{
    return way == TILE_REPEATS || way == TILE_REPEATS_BF16 || way == TILE_REPEATS_F16;
}

struct tile_step {
    int code;
    int way[2];
    char *memory[2]; /* operands other than the value, in order; or a move's address */
};

/* Executes the steps up to TILE_END for nrow rows of n elements of that type. memory is aligned to its elements. */
void tile_run(enum compute type, const struct tile_step *step, int64_t n, int64_t nrow);

/* Orders this thread's streamed stores before its later stores, as other threads see them. */
void tile_fence(void);

#endif
