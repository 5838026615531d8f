/* tile.h - runs plain arithmetic, whose value stays in registers from step to step.
 *
 * A program is a list of steps. tile_run() carries it out for one tile of elements after the other: eight vectors of
 * the machine's width, which are the value that the program works on. A step computes with the value and at most two
 * tiles of memory, or moves the value from or to memory. So a chain of sums and products costs one load, one store and
 * the arithmetic.
 *
 * Results have the same bits on every level of machine and wherever a tile begins: each operation rounds by itself.
 *
 * One Zen 5 core (AVX-512), bench/ops: a step takes 10 ps an element from registers, so that memory bounds a chain of
 * ten sums and products. Whoever makes a program owns it; any thread runs it, and only reads it. */
#ifndef RILLE_KERNELS_CPU_TILE_H
#define RILLE_KERNELS_CPU_TILE_H

#include "kernels/cpu/convert.h"

/* What an operator's record names (struct eltwise, tile). Comparisons give 1 and 0. */
enum tile_op {
    TILE_NONE, /* the operator has no such form */
    TILE_COPY,
    TILE_NEG,
    TILE_ABS,
    TILE_SIGN,
    TILE_SQUARE,
    TILE_RECIPROCAL,
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
    NTILE_OP
};

/* Is the result 1 or 0, whatever the operands? */
static inline bool
tile_gives_truth(int op)
{
    return op == TILE_NOT || (op >= TILE_EQ && op <= TILE_OR);
}

/* Do the low bits of the result of whole numbers come from theirs alone? */
static inline bool
tile_wraps(int op)
{
    return op == TILE_ADD || op == TILE_SUB || op == TILE_MUL;
}

/* Codes of steps. An operation with the operand that the value is: 0, 1, 2. Of two operands the other one may be a
 * number, of all or of a row, which then stays in a register: TILE_NUMBER more. And the moves. */
#define TILE_CODE(op, value) (4 * (int)(op) + (value))
enum {
    TILE_NUMBER = 2,
    TILE_LOAD = TILE_CODE(NTILE_OP, 0), /* value = memory[0] */
    TILE_STORE,                         /* memory[0] = value */
    TILE_STREAM,                        /* the same, past the caches; tile_fence() after the last */
    TILE_FETCH,                         /* a later step reads memory[0] soon */
    TILE_ROUND,                         /* value = what bf16 has of it */
    TILE_END
};

/* Elements of a number in memory, all equal: the longest tile. */
enum { TILE_LONGEST = 128 };

/* How memory goes along with the elements: they are of the type, or of bf16 where that is f32. */
enum tile_way {
    TILE_STAYS,      /* a number */
    TILE_WALKS,      /* element by element */
    TILE_BY_ROW,     /* a number, with every row the next one of memory */
    TILE_REPEATS,    /* from its beginning with every row */
    TILE_WALKS_BF16, /* neither of them for TILE_STREAM */
    TILE_REPEATS_BF16,
    NTILE_WAY
};
struct tile_step {
    int code;
    int way[2];
    char *memory[2]; /* the operands that are not the value, in their order; or where a move goes */
};

/* Takes nrow rows of n elements of that type through the steps up to TILE_END. memory is aligned to its
 * elements. */
void tile_run(enum compute type, const struct tile_step *step, int64_t n, int64_t nrow);

/* Whoever sees what this thread writes from now on sees what it streamed before. */
void tile_fence(void);

#endif
