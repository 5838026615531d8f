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
    TILE_SQRT, /* of reals, and the next */
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
    TILE_CLAMP, /* the lesser one of operand 2 and of the greater one of 0 and 1 */
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

/* The operands whose values the result has, but for its sign and for 0, 1 and -1: bit k, operand k. What halves have it
 * then has, too. TILE_COMPUTES: it is another value. */
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

/* What is left of an operation that lacks an operand: of a clamp without a bound, and of that. */
static inline int
tile_without(int op, int operand)
{
    return op != TILE_CLAMP ? TILE_COPY : operand == 1 ? TILE_MINIMUM : TILE_MAXIMUM;
}

/* The operation that gives the same of two operands exchanged; TILE_NONE. */
static inline int
tile_turned(int op)
{
    static const int turned[NTILE_OP] = {
        [TILE_ADD] = TILE_ADD, [TILE_MUL] = TILE_MUL, [TILE_EQ] = TILE_EQ, [TILE_NE] = TILE_NE,   [TILE_LT] = TILE_GT,
        [TILE_LE] = TILE_GE,   [TILE_GT] = TILE_LT,   [TILE_GE] = TILE_LE, [TILE_AND] = TILE_AND, [TILE_OR] = TILE_OR};
    return turned[op];
}

/* Codes of steps. An operation with the operand that the value is: 0, 1, 2. Of two operands the other one may be a
 * number, of all or of a row, which then stays in a register: TILE_NUMBER more; and so may both others of operand 0 of
 * a clamp: TILE_NUMBERS more. And the moves. */
#define TILE_CODE(op, value) (4 * (int)(op) + (value))
enum {
    TILE_NUMBER = 2,
    TILE_NUMBERS = 3,
    TILE_LOAD = TILE_CODE(NTILE_OP, 0), /* value = memory[0] */
    TILE_STORE,                         /* memory[0] = value, rounded where memory is of halves */
    TILE_CUT,                           /* the same where it is of bf16, which have the value */
    TILE_STREAM,                        /* the same, past the caches; tile_fence() after the last */
    TILE_FETCH,                         /* a later step reads memory[0] soon */
    TILE_ROUND_BF16,                    /* value = what bf16 has of it */
    TILE_ROUND_F16,
    TILE_END
};

/* The code of an operation; of the value as operand 1 only those have one that cannot be turned. */
static inline int
tile_code(int op, int value)
{
    return value == 1 && tile_turned(op) != TILE_NONE ? TILE_CODE(tile_turned(op), 0) : TILE_CODE(op, value);
}

/* Elements of a number in memory, all equal: the longest tile. */
enum { TILE_LONGEST = 128 };

/* How memory goes along with the elements: they are of the type, or halves where that is f32. */
enum tile_way {
    TILE_STAYS,      /* a number */
    TILE_WALKS,      /* element by element */
    TILE_BY_ROW,     /* a number, with every row the next one of memory */
    TILE_REPEATS,    /* from its beginning with every row */
    TILE_WALKS_BF16, /* of halves, none for TILE_STREAM */
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
    char *memory[2]; /* the operands that are not the value, in their order; or where a move goes */
};

/* Takes nrow rows of n elements of that type through the steps up to TILE_END. memory is aligned to its
 * elements. */
void tile_run(enum compute type, const struct tile_step *step, int64_t n, int64_t nrow);

/* Whoever sees what this thread writes from now on sees what it streamed before. */
void tile_fence(void);

#endif
