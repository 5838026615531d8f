/* tile.h - an interpreter for plain arithmetic that keeps the value in registers from step to step.
 *
 * docs/tile.md derives the loops. A program is a list of steps. tile_run() executes the program for one tile of
 * elements after the other. A tile is eight vectors of the machine's width; the tile in registers is the program's
 * value. A step computes with the value and at most two operands in memory, or loads or stores the value. An operand in
 * memory is a tile, or a scalar: one element for the whole program, or one per row. So a chain of sums and products
 * costs one load, one store and the arithmetic. Results are bit-identical on every machine level and for every start of
 * a tile, because each operation rounds separately.
 *
 * On one Zen 5 core (AVX-512, bench/ops), a step takes 10 ps per element from registers, so a chain of ten sums
 * and products is memory-bound. The caller that makes a program owns it; any thread runs the program, which is
 * read-only. */
#ifndef RILLE_KERNELS_CPU_TILE_H
#define RILLE_KERNELS_CPU_TILE_H

#include "kernels/cpu/base/convert.h"

/* The operations that tile.c supports; an operator's record names one (struct eltwise, field `tile`). Comparisons
 * return 1 and 0. */
enum tile_op {
    TILE_NONE, /* tile.c does not support the operator */
    TILE_COPY,
    TILE_NEG,
    TILE_ABS,
    TILE_SIGN,
    TILE_SQUARE,
    TILE_RECIPROCAL,
    TILE_SQRT, /* TILE_SQRT and TILE_RSQRT: floats only */
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

/* Returns true if the operation's result is always 1 or 0. */
static inline bool
tile_gives_truth(int op)
{
    return op == TILE_NOT || (op >= TILE_EQ && op <= TILE_OR);
}

/* Returns true if the low bits of the operation's integer result depend only on the low bits of the operands. */
static inline bool
tile_wraps(int op)
{
    return op == TILE_ADD || op == TILE_SUB || op == TILE_MUL;
}

/* Returns the set of operands (as bits 1 << k) from which the operation selects its result. The result may also be
 * negated, or be 0, 1 or -1. So if these operands are 16-bit floats, the result is exact in 16 bits. Returns
 * TILE_COMPUTES if the operation computes other values. */
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

/* Returns the operation that remains if operand `operand` is absent. A clamp that lacks one bound becomes a
 * maximum or minimum; any other operation becomes TILE_COPY. */
static inline int
tile_without(int op, int operand)
{
    return op != TILE_CLAMP ? TILE_COPY : operand == 1 ? TILE_MINIMUM : TILE_MAXIMUM;
}

/* Returns the operation that equals op with swapped operands; TILE_NONE: there is none. */
static inline int
tile_commuted(int op)
{
    static const int turned[NTILE_OP] = {
        [TILE_ADD] = TILE_ADD, [TILE_MUL] = TILE_MUL, [TILE_EQ] = TILE_EQ, [TILE_NE] = TILE_NE,   [TILE_LT] = TILE_GT,
        [TILE_LE] = TILE_GE,   [TILE_GT] = TILE_LT,   [TILE_GE] = TILE_LE, [TILE_AND] = TILE_AND, [TILE_OR] = TILE_OR};
    return turned[op];
}

/* Codes of steps. The code of an operation tells which of its operands is the value: 0, 1 or 2. TILE_NUMBER is
 * added if the other operand of a binary operation is a scalar, which then stays in a register. TILE_NUMBERS is
 * added if the value is operand 0 of a clamp and both bounds are scalars. Loads, stores and other moves have their
 * own codes. */
#define TILE_CODE(op, value) (4 * (int)(op) + (value))
enum {
    TILE_NUMBER = 2,
    TILE_NUMBERS = 3,
    TILE_LOAD = TILE_CODE(NTILE_OP, 0), /* sets the value to memory[0] */
    TILE_STORE,                         /* sets memory[0] to the value; rounds it if memory has 16-bit floats */
    TILE_CUT,                           /* stores a value that is exact in bf16, without rounding */
    TILE_STREAM,                        /* stores the value past the caches; call tile_fence() at the end */
    TILE_FETCH,                         /* prefetches memory[0] for a later step */
    TILE_ROUND_BF16,                    /* rounds the value to bf16 */
    TILE_ROUND_F16,
    TILE_END
};

/* Returns the code of op if its operand number `value` is the program's value. If this is operand 1, and some
 * operation equals op with swapped operands, returns the code of that operation. */
static inline int
tile_code(int op, int value)
{
    return value == 1 && tile_commuted(op) != TILE_NONE ? TILE_CODE(tile_commuted(op), 0) : TILE_CODE(op, value);
}

/* Maximum number of elements in a tile. A scalar that a step reads as a whole tile is stored TILE_LONGEST times. */
enum { TILE_LONGEST = 128 };

/* How a step addresses an operand in memory. Elements have the program's type, or are 16-bit floats in an f32
 * program. */
enum tile_way {
    TILE_STAYS,      /* the same address for every tile: a scalar */
    TILE_WALKS,      /* the address advances element by element */
    TILE_BY_ROW,     /* one scalar per row */
    TILE_REPEATS,    /* element by element, from the same start in every row */
    TILE_WALKS_BF16, /* element by element from bf16 in memory; not for TILE_STREAM */
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
    /* Addresses of the step's operands in memory, in the order of the operands. A load or store uses memory[0]. */
    char *memory[2];
};

/* Executes the steps up to TILE_END, for nrow rows of n elements. type: type of the program's elements. Memory
 * needs only the alignment of its elements. */
void tile_run(enum compute type, const struct tile_step *step, int64_t n, int64_t nrow);

/* Makes this thread's streamed stores visible to another thread before any of its later stores. */
void tile_fence(void);

#endif
