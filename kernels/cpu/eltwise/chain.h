/* chain.h - the program of a chain of element-wise calls; chain.c makes it, eltwise.c runs it.
 *
 * Nested loops iterate over the local sizes of the outputs; dimensions that are contiguous in every operand are
 * merged into one loop. A block is a piece of one inner row, or several whole rows.
 *
 * A step reads slots. A slot is an operand of the chain or the result of an earlier step, as a block in the compute
 * type of the reading step. An operand without gaps whose dtype is that type is read in place. A run loads and
 * converts any other operand into a block of scratch; an operand that never changes (a number) is loaded once. If
 * rows are long and tile.c accepts the operand as a number, an operand with one element per row has a block of one
 * element. Integers are computed as i64, and by tile.c as i32 if no operand or result is wider. The last step writes
 * to memory directly if no conversion is needed.
 *
 * Consecutive steps of plain arithmetic in one type form one part, a program for tile.c. Values pass from step to
 * step in registers, rounded there if they are halves, and are stored only if some other step or task reads them.
 * Such a part reads and writes halves in place; operations that only select among halves do not round. Any other
 * step is a part of its own. A chain of nothing but such arithmetic on operands in place needs no scratch, and its
 * blocks are long. A run prefetches operands that do not stay in the caches, and streams large results past the
 * caches. An exec owns its chain; any thread with scratch of its own may run the chain, which is read-only. */
#ifndef RILLE_KERNELS_CPU_CHAIN_H
#define RILLE_KERNELS_CPU_CHAIN_H

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/eltwise/tile.h"
#include "kernels/cpu/base/fuse.h"
#include "runtime/base/arena.h"

enum { RUN_LANE = 64, RUN_SLOT = 128, RUN_STEP = 64 }; /* limits */

/* The location of a block: in a lane, or in an area of scratch. */
enum { IN_SCRATCH = -1, NOWHERE = -2 };
struct site {
    int lane, area;
};
enum area_holds {
    AREA_BLOCK,
    AREA_TILE,   /* a number, for tile.c */
    AREA_COLUMN, /* a number per row of a block, for tile.c */
    AREA_NOTHING /* unused */
};
struct area {
    size_t at; /* offset in scratch, bytes */
    int unit;  /* bytes of an element of a block */
    enum area_holds holds;
};

enum slot_kind {
    SLOT_ABSENT,   /* no operand (NULL) */
    SLOT_CONSTANT, /* operand: one element, loaded once per run */
    SLOT_NUMBER,   /* operand: a number for tile.c, loaded once */
    SLOT_DIRECT,   /* operand: the step reads it in place */
    SLOT_LOADED,   /* operand: the run loads it into the block */
    SLOT_COLUMN,   /* operand: the run loads an element per row */
    SLOT_RESULT,   /* step: its result in place */
    SLOT_CONVERTED /* step: its result rounded to its dtype */
};
struct slot {
    enum slot_kind kind;
    int index; /* of the operand or step */
    enum compute type;
    struct site at; /* location of the block; of SLOT_RESULT: see the step */
    int sibling;    /* SLOT_CONVERTED: next slot of this step, or -1 */
    bool wide;      /* SLOT_NUMBER: a step reads it as a tile */
    bool read;      /* SLOT_CONVERTED: a step reads it from memory */
};

struct step {
    const struct call *call;
    enum compute type;
    bool tile; /* computed by tile.c */
    int narg;
    int arg[OP_OPERAND]; /* slots */
    int value;           /* argument that is the previous step's value, in this part; or -1 */
    int out;             /* output that the step writes, or -1 */
    bool stored;         /* must be stored: a reader takes the result from memory */
    bool in_place;       /* written straight into that output */
    struct site at;      /* location, if stored */
    int last;            /* last step that reads the stored result */
    int converted;       /* first slot of SLOT_CONVERTED, or -1 */
};

/* Steps first..last. If ncode > 0, a program for tile.c; else a single step, or step `last` with the one computed
 * beside it (struct eltwise, beside). */
struct part {
    int first, last;
    int code, ncode;
    bool by_rows; /* some operand repeats with every row, or has one element per row */
};
struct instruction {
    int code, nat;
    struct site at[2];
    enum tile_way way[2];
};

/* The layout of an operand or output along the chain's loops. */
struct lane {
    enum dtype dtype;
    size_t bytes;            /* of an element */
    int64_t stride[MAX_DIM]; /* per loop; 0: broadcast */
    bool linear;             /* elements are contiguous in loop order */
    bool repeats;            /* operand with one row, repeated in every iteration of the outer loops */
    bool far;                /* too large for the inner caches */
    bool passes;             /* an output too large for the caches */
};

struct elt {
    int nloop;
    int64_t size[MAX_DIM]; /* outermost first */
    int64_t numel, row;    /* elements: all; of an inner row */
    bool rows;             /* a block is whole rows, not a piece of one */
    bool loads;            /* a run loads some operand into scratch */
    bool streams;          /* some result is streamed past the caches */
    int64_t block;         /* maximum elements of a block */
    int nin, nout, nstep, nslot, npart, ncode, narea;
    struct lane *lane; /* operands, then outputs */
    struct step *step;
    struct slot *slot; /* the noperand slots of operands are first */
    struct part *part;
    struct instruction *code;
    struct area *area;
    int noperand;
    size_t scratch; /* per thread: the program with addresses, then the areas */
    int threads;
};

/* Returns the compute type that the record specifies for a call: for integers i64, although a step may use i32. */
enum compute chain_type(const struct call *c);
/* Sets the loops over `walk` and the layout of e's operands and outputs along them; view[i] is for lane i. */
void chain_lanes(struct elt *e, const struct view *walk, const struct view *const *view);
/* Returns the location of a slot's block. */
struct site chain_site(const struct elt *e, int slot);

#endif
