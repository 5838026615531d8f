/* chain.h - the program of a chain of element-wise calls; chain.c makes it, eltwise.c runs it.
 *
 * Nested loops iterate over the local sizes of the outputs; dimensions that are contiguous in every operand are
 * merged into one loop. A row is the range of the innermost loop. A block is a piece of one row, or several whole
 * rows.
 *
 * A step reads slots. A slot is an operand of the chain or the result of an earlier step, as a block in the
 * compute type of the reading step. A contiguous operand of that type is read in place. Any other operand is
 * loaded and converted into a block of scratch; a scalar operand is loaded only once. If rows are long, tile.c
 * reads an operand with one element per row as a scalar, so its block has one element per row. Integers are
 * computed as i64, and by tile.c as i32 if no operand or result is wider. The last step of a chain writes its
 * output directly if no conversion is needed.
 *
 * Consecutive steps of plain arithmetic in one compute type form one part, which is a program for tile.c. In a
 * part, values pass from step to step in registers. Each operation there rounds 16-bit floats, unless it only
 * selects an operand. Values are stored only if another step or task reads them from memory. A part for tile.c
 * reads and writes 16-bit floats in place. Any other step is a part by itself.
 *
 * A chain needs no scratch if it has only plain arithmetic and reads all operands in place; its blocks are then
 * long. A run prefetches operands that do not stay in the caches, and streams large results past the caches. An
 * exec owns its chain; any thread with its own scratch may run the chain, which is read-only. */
#ifndef RILLE_KERNELS_CPU_CHAIN_H
#define RILLE_KERNELS_CPU_CHAIN_H

#include "kernels/cpu/base/convert.h"
#include "kernels/cpu/eltwise/tile.h"
#include "kernels/cpu/base/fuse.h"
#include "runtime/data/arena.h"

/* maximum numbers, per chain: RUN_LANE of operands and outputs; RUN_SLOT of slots; RUN_STEP of steps */
enum { RUN_LANE = 64, RUN_SLOT = 128, RUN_STEP = 64 };

/* The location of a block. lane: number of the operand or output that holds the block; IN_SCRATCH: buffer `area`
 * in scratch holds it; NOWHERE: the block is not stored. */
enum { IN_SCRATCH = -1, NOWHERE = -2 };
struct site {
    int lane, area;
};
enum area_holds {
    AREA_BLOCK,
    AREA_TILE,   /* one scalar, repeated to fill a tile of tile.c */
    AREA_COLUMN, /* one scalar per row of a block, for tile.c */
    AREA_NOTHING /* nothing: the area is not used */
};
struct area {
    size_t at; /* offset of the area in scratch, bytes */
    int unit;  /* size of an element of a block, bytes */
    enum area_holds holds;
};

enum slot_kind {
    SLOT_ABSENT,   /* the step's operand is absent (NULL) */
    SLOT_CONSTANT, /* an operand of one element, loaded once per run */
    SLOT_NUMBER,   /* an operand that tile.c reads as a scalar, loaded once per run */
    SLOT_DIRECT,   /* an operand that the step reads in place */
    SLOT_LOADED,   /* an operand that a run loads into a block of scratch */
    SLOT_COLUMN,   /* an operand with one element per row, which a run loads */
    SLOT_RESULT,   /* the result of a step, read where that step stores it */
    SLOT_CONVERTED /* the result of a step, rounded to its dtype */
};
struct slot {
    enum slot_kind kind;
    int index; /* index of the operand or step that the slot stands for */
    enum compute type;
    struct site at; /* location of the block; SLOT_RESULT uses the step's location instead */
    int sibling;    /* (SLOT_CONVERTED) index of the next slot with this step's result; -1: none */
    bool wide;      /* (SLOT_NUMBER) true: a step reads the scalar as a whole tile */
    bool read;      /* (SLOT_CONVERTED) true: a step reads the block from memory */
};

struct step {
    const struct call *call;
    enum compute type;
    bool tile; /* true: tile.c computes the step */
    int narg;
    int arg[OP_OPERAND]; /* indices of the slots from which the arguments are read */
    int value;           /* index of the argument that is the previous step's value, still in registers; -1: none */
    int out;             /* output that the step writes; -1: none */
    bool stored;         /* true: stored in memory, because a later step or another task reads it there */
    bool in_place;       /* true: the result is written straight into output `out` */
    struct site at;      /* location of the result if it is stored */
    int last;            /* index of the last step that reads the stored result */
    int converted;       /* first slot of kind SLOT_CONVERTED with the result; -1: none */
};

/* Consecutive steps, first to last, that are computed together. If ncode > 0, they are a program for tile.c. If
 * ncode is 0, they are a single step, or two steps computed in one pass (struct eltwise, field `beside`). */
struct part {
    int first, last;
    int code, ncode;
    bool by_rows; /* true: an operand has one row that is used for all rows, or one element per row */
};
struct instruction {
    int code, nat;
    struct site at[2];
    enum tile_way way[2];
};

/* The layout of an operand or output, as strides of the chain's loops. */
struct lane {
    enum dtype dtype;
    size_t bytes;            /* size of an element, bytes */
    int64_t stride[MAX_DIM]; /* stride per loop, elements; 0: broadcast */
    bool linear;             /* true: elements are contiguous in the order in which the loops visit them */
    bool repeats;            /* true: the operand has a single row, which is used for all rows */
    bool far;                /* true: too large to stay in the inner caches, so it is prefetched */
    bool passes;             /* true: too large for the caches, so it is streamed past them */
};

struct elt {
    int nloop;
    int64_t size[MAX_DIM]; /* sizes of the loops, outermost first */
    int64_t numel, row;    /* numel: number of elements of an output; row: number of elements of a row */
    bool rows;             /* true: a block is several whole rows; false: a piece of one row */
    bool loads;            /* true: a run loads at least one operand into scratch */
    bool streams;          /* true: at least one result is streamed past the caches */
    int64_t block;         /* maximum number of elements in a block */
    int nin, nout, nstep, nslot, npart, ncode, narea;
    struct lane *lane; /* layouts of the operands, then of the outputs */
    struct step *step;
    /* slots: operands and results as steps read them; those of operands are the first `noperand` */
    struct slot *slot;
    struct part *part;
    struct instruction *code;
    struct area *area;
    int noperand;
    /* size of one thread's scratch, bytes. Scratch holds the thread's copy of the tile.c instructions, with the
     * addresses of the current block, and then the buffers for blocks of operands and results. */
    size_t scratch;
    int threads;
};

/* Returns the compute type that the operator's record specifies for a call. For integers this is i64; a step may
 * still use i32. */
enum compute chain_type(const struct call *c);
/* Sets the loops over the dimensions of `walk`, and the layouts of e's operands and outputs in these loops.
 * view[i]: the view of operand or output i; operands are counted first. */
void chain_lanes(struct elt *e, const struct view *walk, const struct view *const *view);
/* Returns the location of the block that a slot refers to. */
struct site chain_site(const struct elt *e, int slot);

/* Compiles a chain of nstep calls into a program, in arena a. Copies the calls and the views; the data of views
 * may be NULL. All outputs must have equal local sizes, to which every operand is broadcast. unread: true:
 * nothing reads the outputs soon. */
int elt_new(struct arena *a, int nstep, const struct fuse_step *step, int nin, const struct view *in, int nout,
            const struct view *out, int threads, bool unread, struct elt **e);

/* Returns a deep copy of a call, in arena a, without its layouts. */
struct call *call_copy(struct arena *a, const struct call *c);

#endif
