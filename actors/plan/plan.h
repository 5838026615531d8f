/* plan.h - what actors carry out: tasks, the registers between them, where those lie in memory.
 *
 * Compiled from a program, then read-only: every thread reads it, all that
 * changes is in the actors. A task is one operator call on one rank, or one
 * destination's part of a move (boxing), or one rank's sum over pieces. Its
 * results are registers: nreg buffers that take turns. Registers are the
 * credits; there is no other back-pressure. A task reads three kinds of bytes:
 * registers, leaves (values that exist before the run; always there) and
 * numbers. What must outlive the run is written straight into its own buffer.
 *
 * Rates: a task acts nact times a run, once a piece or once a batch. It
 * publishes each result after every `every` acts; a reader keeps a register for
 * `hold` acts. A control edge carries no bytes, only that something happened;
 * its reader wants `need` tokens before an act. */
#ifndef RILLE_PLAN_PLAN_H
#define RILLE_PLAN_PLAN_H

#include "actors/plan/program.h"
#include "boxing/box.h"
#include "kernels/kernel.h"

/* FILL and JOIN: a move to parts that are alike on several ranks of one memory (share.c). */
enum task_kind { TASK_COMPUTE, TASK_BOX, TASK_ACCUMULATE, TASK_COPY, TASK_FILL, TASK_JOIN, NTASK_KIND };

struct in_port {
    int32_t task, out; /* who produces it */
    int32_t hold;      /* acts that read one register before it is given back */
    int32_t need;      /* control: tokens an act takes; data: 1 */
    int32_t fan;       /* which fan of the producer's result it belongs to */
};

struct reader {
    int32_t task, port;
};
/* The readers of one result on one thread: told by one message, answered by one. */
struct fan {
    int32_t thread, nreader;
    const struct reader *reader;
};
struct out_port {
    bool control; /* no bytes, never waits for a free register */
    int32_t nreg;
    int32_t every;  /* published after so many acts */
    bool once;      /* no register is filled twice in a run: nobody waits for one to come back, so none is sent back */
    int64_t bytes;  /* of one register */
    int64_t offset; /* of the first, in the device's arena; registers follow one another, 64-byte aligned */
    int32_t root;   /* the root part that it is written into instead, or -1 */
    int32_t home;   /* 1 + the FILL task in whose register it lies instead; 0: in one of its own */
    bool shared;    /* others lie in it */
    int32_t nfan;
    struct fan *fan;
};

enum arg_kind { ARG_NONE, ARG_REG, ARG_LEAF, ARG_NUMBER };
struct arg {
    uint8_t kind;
    int32_t index;        /* in_port, leaf part, number */
    int64_t skip;         /* bytes from the start to where the view begins */
    int64_t piece_stride; /* leaf: bytes from one piece to the next */
};

/* One step of a move: a slice of the destination part is the combination of slices of others'. */
struct box_from {
    int32_t arg;
    int64_t skip; /* bytes, beyond the argument's own */
    struct view view;
};
struct box_move {
    uint8_t verb, reduce; /* enum box_verb */
    int32_t nfrom;
    struct box_from *from; /* in the order in which they are combined */
    int64_t skip;          /* bytes */
    struct view view;      /* data NULL */
    struct box slice;      /* in global positions */
};

/* Element-wise nodes that are computed in one pass (fuse.c): what the chain reads, in the order of the task's
 * arguments, and which members' results it shows. */
struct plan_chain {
    int32_t nstep, nin, nout;
    int32_t *member; /* program nodes, in order */
    struct ref *in;
    const struct layout **want; /* NULL for numbers */
    int32_t *shown;             /* program nodes */
};

struct task {
    uint8_t kind, thread, phase;
    int16_t device; /* index in plan->device */
    int32_t node;   /* program node it is part of (of the value that is moved), -1 */
    int32_t pos;    /* mesh position, or destination index of a move */
    int32_t nact;
    uint64_t priority; /* smaller first */
    const char *name;  /* operator, "box all-gather", ... */
    int32_t told;      /* program node whose line an error names: its own, or the first that wants a leaf moved; -1 */
    struct line line;  /* that of `told` when the plan was made; a plan that is found again has others: run.line */
    int32_t nin, nout, narg;
    struct in_port *in; /* data and control */
    struct out_port *out;
    struct arg *arg;
    int32_t nresult; /* the first nresult outs are the operator's results */
    struct exec *exec;
    struct plan_chain *chain; /* COMPUTE: of a chain; NULL: of its node alone */
    int32_t nmove;
    struct box_move *move;
    struct type type;     /* COPY, ACCUMULATE: the local type */
    struct view source;   /* COPY: how it lies in its argument */
    bool updates;         /* writes over a variable */
    int64_t received;     /* BOX: bytes it reads of other devices' memory, an act */
    struct box_plan *box; /* BOX: the move it is part of */
};

struct plan_device {
    uint8_t kind, thread;
    int32_t rank;
    int64_t arena_bytes; /* registers, then scratch */
    int64_t scratch, scratch_bytes;
};

struct plan_part {
    int32_t index, pos; /* leaf or root, mesh position */
    struct type type;   /* local, of one piece */
    int64_t bytes;      /* of the whole buffer: all pieces */
};

enum { PLAN_TASKS = 1 << 18 }; /* at most, on several threads: a message counts to it */

struct plan {
    struct arena arena;
    struct program *program; /* owned */
    int32_t nthread, ndevice, ntask, pieces;
    struct plan_device *device;
    struct task *task; /* in an order in which they could run one after the other */
    int32_t *nlocal;   /* per thread: how many tasks, which */
    int32_t **local;
    int64_t *nact; /* per thread */
    int32_t nleaf_part, nroot_part;
    struct plan_part *leaf_part, *root_part;
    int32_t *leaf_first, *root_first; /* first part of leaf i, root k; parts follow in mesh order */
    bool *over;                       /* per root: it may be written over its leaf */
    int32_t nbox;                     /* distinct moves */
    struct box_plan **box;
};

/* Takes over the program, also when it fails. E_PLAN when it cannot run to its end (naming who starves), E_MEMORY... */
int plan_compile(struct program *p, struct atlas *at, struct plan **out);
void plan_free(struct plan **p);

/* Text of a plan: logical bytes, equal ranks collapsed; the same on every machine. physical: threads, offsets, rows. */
void plan_print(const struct plan *p, bool physical, struct str *s);

/* Proves that a plan is well-formed and runs to its end whatever the order of events: indices and sizes in range,
 * shapes and signatures legal, one greedy token simulation, no two live tenants of one block. E_PLAN says what is
 * wrong. */
int plan_verify(const struct plan *p);

#endif
