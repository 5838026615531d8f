/* chain.h - the program that a chain of element-wise calls becomes; chain.c makes it, eltwise.c runs it.
 *
 * Nested loops walk the local sizes of the outputs (dimensions that lie one behind the other in every operand are one
 * loop). A block is a piece of one inner row, or several whole rows.
 *
 * What a step reads is a slot: an operand of the chain, or the result of an earlier step, as a block in the compute
 * type of that step. The step reads an operand that has that type in memory, without gaps, where it lies; a run loads
 * any other into a block of scratch first and converts it on the way, and one that never changes (a number) only once.
 * Of an operand that has one element a row the block has one, too, where rows are long and tile.c takes it for a
 * number. Whole numbers are computed as i64, by tile.c as i32 where neither an operand nor the result is wider. The
 * last write goes to memory directly when there is nothing to convert.
 *
 * Steps in a row that are plain arithmetic in one type are one part, a program for tile.c: what one step hands to the
 * next stays in registers, rounded there where it is halves, and goes to memory only where somebody else reads it. It
 * reads and writes halves as they lie; what only chooses among halves rounds nothing. Any other step is a part of its
 * own. A chain that is nothing but such arithmetic on operands as they lie needs no scratch, and its blocks are long. A
 * run fetches ahead what will not stay in the caches, and its result goes to memory past them. An exec owns its chain;
 * any thread with scratch of its own runs it, and changes nothing of it. */
#ifndef RILLE_KERNELS_CPU_CHAIN_H
#define RILLE_KERNELS_CPU_CHAIN_H

#include "kernels/cpu/convert.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/fuse.h"
#include "runtime/arena.h"

enum { RUN_LANE = 64, RUN_SLOT = 128, RUN_STEP = 64 }; /* at most */

/* Where a block is: in a lane, or in an area of scratch. */
enum { IN_SCRATCH = -1, NOWHERE = -2 };
struct site {
    int lane, area;
};
enum area_holds {
    AREA_BLOCK,
    AREA_TILE,   /* a number, for tile.c */
    AREA_COLUMN, /* a number for each row of a block, likewise */
    AREA_NOTHING /* nobody reads it */
};
struct area {
    size_t at; /* bytes from the start of scratch */
    int unit;  /* bytes of an element of a block */
    enum area_holds holds;
};

enum slot_kind {
    SLOT_ABSENT,   /* NULL */
    SLOT_CONSTANT, /* operand: one element, which a run fills once */
    SLOT_NUMBER,   /* the same, for tile.c */
    SLOT_DIRECT,   /* operand: the step reads it in place */
    SLOT_LOADED,   /* operand: the run brings it into the block */
    SLOT_COLUMN,   /* operand: the run brings in an element for each row of the block */
    SLOT_RESULT,   /* step: where the step wrote */
    SLOT_CONVERTED /* step: as if it had gone through memory of its dtype */
};
struct slot {
    enum slot_kind kind;
    int index; /* operand or step */
    enum compute type;
    struct site at; /* of SLOT_RESULT: see the step */
    int sibling;    /* SLOT_CONVERTED: the next slot of the same step, or -1 */
    bool wide;      /* SLOT_NUMBER: a step reads it as a tile */
    bool read;      /* SLOT_CONVERTED: a step reads it from memory */
};

struct step {
    const struct call *call;
    enum compute type;
    bool tile; /* tile.c does it */
    int narg;
    int arg[OP_OPERAND]; /* slots */
    int value;           /* the argument that is the value of the step before, of the same part; or -1 */
    int out;             /* output it writes, or -1 */
    bool stored;         /* somebody reads it who does not get the value */
    bool in_place;       /* straight into that output */
    struct site at;      /* where it goes, when it is stored */
    int last;            /* step after which nobody reads it there */
    int converted;       /* first slot of SLOT_CONVERTED, or -1 */
};

/* Steps first..last. Their program for tile.c, when ncode > 0; else one step, or the last and what comes with it
 * (struct eltwise, beside). */
struct part {
    int first, last;
    int code, ncode;
    bool by_rows; /* it has operands that repeat with every row, or change with every one */
};
struct instruction {
    int code, nat;
    struct site at[2];
    enum tile_way way[2];
};

/* An operand or output in memory, by the loops of the chain. */
struct lane {
    enum dtype dtype;
    size_t bytes;            /* of an element */
    int64_t stride[MAX_DIM]; /* one a loop, 0 where it repeats */
    bool linear;             /* element p of the walk is element p of memory */
    bool repeats;            /* every row of the walk is the same row of memory */
    bool far;                /* too large for the nearer caches */
    bool passes;             /* an output that the caches will not hold */
};

struct elt {
    int nloop;
    int64_t size[MAX_DIM]; /* outermost first */
    int64_t numel, row;    /* elements; of an inner row */
    bool rows;             /* a block is whole rows, not a piece of one */
    bool loads;            /* a run brings some operand into scratch */
    bool streams;          /* some result goes past the caches */
    int64_t block;         /* elements in a block, at most */
    int nin, nout, nstep, nslot, npart, ncode, narea;
    struct lane *lane; /* operands, then outputs */
    struct step *step;
    struct slot *slot; /* those of operands first: noperand of them */
    struct part *part;
    struct instruction *code;
    struct area *area;
    int noperand;
    size_t scratch; /* of a thread: the program with addresses, then the areas */
    int threads;
};

/* What a call computes in, as its record means it: of integers i64, though a step may take i32. */
enum compute chain_type(const struct call *c);
/* The loops over `walk` and how each of e's operands and outputs lies along them; view[i] for lane i. */
void chain_lanes(struct elt *e, const struct view *walk, const struct view *const *view);
/* Where a slot's block is. */
struct site chain_site(const struct elt *e, int slot);

#endif
