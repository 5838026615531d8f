/* lower.h - what the files that make a plan share; compile.c has the order of work. Neither the proof nor what acts
 * includes it. A struct lower belongs to one plan_compile() and its thread; what outlives it is in the plan's arena. */
#ifndef RILLE_PLAN_LOWER_H
#define RILLE_PLAN_LOWER_H

#include "actors/plan/cross.h"
#include "actors/plan/outline.h"
#include "actors/plan/plan.h"
#include "actors/plan/replica.h"
#include "runtime/hash.h"

enum { NOBODY = -1, SEVERAL = -2 };

/* Where one rank's part of a value is. */
struct part {
    uint8_t kind;            /* ARG_REG, ARG_LEAF */
    int32_t index;           /* task, or leaf part */
    int32_t out;             /* of the task */
    const struct view *view; /* how it lies there, interned */
    int64_t skip;            /* elements from the start of the register or buffer */
    int64_t piece_stride;    /* leaf: bytes */
};

/* A value in one layout: the result of a node, a leaf, or either of them moved. */
struct pval {
    struct type type;
    const struct layout *layout;
    bool piece;
    int32_t node;   /* program node it comes from, -1: a leaf */
    struct ref ref; /* which value it is, however often it moved */
    const struct mine *mine;
    struct part *part;  /* by position that is mine */
    struct pval *moved; /* the same value in other layouts */
};

struct edge {
    struct edge *next;
    int32_t task, out; /* producer */
    int32_t hold, need;
};

/* A task in the making. */
struct draft {
    struct task task;
    struct edge *in, *last_in;
    int32_t nin;
    struct out_port *out; /* results, then one of order, those of credits, if there are such */
    int32_t nout, out_capacity;
    int32_t control; /* index of the output of order, -1 */
    bool piece, gate;
};

struct lower {
    struct program *program;
    struct atlas *atlas;
    struct plan *plan;
    struct arena tmp;  /* freed when the plan is there */
    struct arena pass; /* of the passes over all drafts; freed when these are in order */
    struct draft *draft;
    int32_t ndraft, capacity;
    struct pval **node_val; /* [node * OP_OUT + out] */
    struct pval **leaf_val;
    struct outline *outline;
    bool *shares;    /* by node: replica_updates */
    bool *checks;    /* by node: program_checks */
    bool *read;      /* by node: another node reads a result of it */
    int32_t *reader; /* by result: the one node to which it matters how that lies, NOBODY, or SEVERAL, as for a root */
    struct mines mines;
    struct order {
        int32_t *line, *place;        /* by task: which line it lies on, and where (order.c) */
        int32_t *seen, stamp, *queue; /* of a search */
        int32_t *wanted, *wanted_by;  /* by line: how far a search must meet it, which search */
        int32_t *met;                 /* by line: how far one did */
    } order;
    int32_t *first_out,
        *asked; /* of out-ports when registers are packed: by task, the first; registers that readers ask for */
    struct hash_table views;   /* interned */
    struct hash_table calls;   /* what kernels compute */
    struct hash_table kernels; /* by that, views and who runs them */
    int32_t exec_capacity;
    int32_t gate, gated; /* the last gate, -1; drafts before this have one behind them, if they need it */
    bool *is_gated;      /* by node: a gate stands before it */
    struct crosses crosses;
    struct plan_move **move;
    int32_t nmove, move_capacity;
    int32_t *collected;      /* by device: its last task in a collective, -1; NULL: there are none yet */
    int32_t at;              /* the node at hand: its line names an error in the move of a leaf */
    int32_t hop;             /* the outline's hop in the making, or next */
    struct channel *channel; /* in the order of their making; malloc */
    int32_t nchannel, channel_capacity;
};

/* intern.c: the one view with these sizes and strides. */
const struct view *intern_view(struct lower *l, const struct view *v);
/* The kernels of a node or a chain: of its tasks, by the views of their operands and results. Those of others that
 * compute the same are theirs, too. */
struct kernels {
    struct lower *l;
    int device, nin, nout; /* device: its kind */
    struct kcall like;     /* of a node the call; how it is computed; its views are `at` */
    int nstep;             /* of a chain more than one */
    const struct fuse_step *step;
    const void *what;         /* all of that, at one address for what is equal */
    bool placed;              /* they depend on where parts lie: tasks share none */
    const struct view **view; /* of the rank at hand, operands, then results; NULL for absent operands */
    struct view *at;          /* the same, with their places in the whole if placed */
};
void kernels_begin(struct kernels *k, struct lower *l, int device, int nin, int nout);
/* When k->like is set: what they compute. step stays. */
void kernels_of(struct kernels *k, int nstep, const struct fuse_step *step);
/* Finds the kernel for these views on this device of the plan, or makes it. */
int kernels_get(const struct kernels *k, int32_t device, struct exec **e);

/* draft.c */
struct draft *draft_new(struct lower *l, const struct task_kind *kind, int32_t node, int device_kind, int rank,
                        int32_t pos, bool piece, int32_t *id);   /* valid until the next one */
int32_t draft_device(const struct lower *l, int kind, int rank); /* its number in the plan */
void draft_out(struct lower *l, struct draft *d, int64_t bytes, int32_t every);
int32_t draft_port(struct lower *l, struct draft *d, const struct out_port *o); /* adds one; which */
bool draft_once(const struct draft *d);                                         /* its results come once a batch */
void draft_args(struct lower *l, int32_t task, int n);
int draft_reads(struct lower *l, int32_t task, const struct part *part, int argument, bool fresh);
struct view part_local(const struct layout *layout, const struct type *type, int pos);
/* How part k of those of a value that are mine lies, knowing its place in the whole. */
struct view part_placed(const struct pval *v, int32_t k);
/* The window of a part (its box in the whole starts at lo) that holds slice; *skip elements from the part's start. */
struct view part_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
void part_is_result(struct part *p, int32_t task, int32_t out);
struct pval *pval_new(struct lower *l, const struct type *type, const struct layout *layout, bool piece,
                      struct ref ref);
void draft_edge(struct lower *l, int32_t to, const struct edge *e); /* one more, whatever others there are */

/* laid.c: how part `own` of a result of a node lies in its register; v has it dense. */
const struct view *laid_result(struct lower *l, int32_t node, int32_t out, int32_t own, const struct pval *v);

/* order.c */
void order_begin(struct lower *l); /* when all tasks are there */
/* Makes a happen before b (adds no edge when it is known to); a comes first in the list. */
void order_after(struct lower *l, int32_t a, int32_t b);
/* The same of each of n tasks, which are in order. */
void order_all(struct lower *l, const int32_t *a, int32_t n, int32_t b);
void order_edge(struct lower *l, int32_t a, int32_t b);
/* Keeps a at most n acts ahead of b. */
void order_credit(struct lower *l, int32_t a, int32_t b, int32_t n);

/* move.c */
struct mover { /* a move in the making */
    struct lower *l;
    const struct plan_move *move;
    const struct box_plan *b; /* its steps here */
    struct pval *from;
    bool piece; /* its tasks act once for each */
    const struct cross *cross;
    int32_t *recv;           /* by channel that comes in: its task, a RECV or a transfer */
    int32_t *stage_task;     /* by stage */
    int32_t *part_task;      /* by destination part here */
    int32_t *arg, *arg_task; /* by source here, then by stage, then by channel: its argument of that task */
    struct box *box;         /* of sources here that somebody asked for */
    bool *boxed;
    struct view part; /* the destination part in the making */
};
void mover_init(struct mover *m, struct lower *l, const struct plan_move *move, const struct cross *x,
                struct pval *from);
/* How a slice lies in a source here (the part at a position; a stage, if it is not BOX_PART): *part says where that is;
 * *skip elements beyond it. */
struct view mover_window(struct mover *m, int32_t stage, int32_t pos, const struct box *slice, struct part *part,
                         int64_t *skip);
/* Slice `which` of a channel as it lies in what comes in: dense, *skip elements from the start. */
struct view mover_received(const struct mover *m, const struct cross_channel *c, int32_t which, int64_t *skip);
/* Makes the tasks that fill stages first to end - 1, and those that fill parts. */
int move_stages(struct mover *m, int32_t first, int32_t end);
int move_parts(struct mover *m, struct pval *to);
int move_add(struct mover *m, int32_t task, const struct box_work *w, bool to_stage, const struct box_step *step,
             const struct box *slice, int rank, const struct view *dst, int64_t skip);
/* share.c: gives one register to parts that are alike on several ranks of one space; *done: it could. */
int share_parts(struct lower *l, const struct plan_move *move, const struct cross *x, struct pval *from,
                struct pval *to, bool *done);

/* collect.c: makes the tasks here of a collective by a library; *done: the move is one, and its kind has a library. */
int collect_parts(struct lower *l, struct plan_move *move, const struct cross *x, struct pval *from, struct pval *to,
                  bool *done);

/* send.c: an end of a channel of the move. */
struct channel mover_channel(const struct mover *m, const struct cross_channel *c, bool sends);
/* The window of slice `which` in what a channel comes from: as mover_window. */
struct view mover_sent(struct mover *m, const struct cross_channel *c, int32_t which, struct part *part, int64_t *skip);
/* Where who reads what a channel brings lies. */
const struct place *mover_reader(const struct mover *m, const struct cross_channel *c);
/* direct.c: makes the tasks of both ends of a channel that a library carries. */
int direct_send(struct mover *m, const struct cross_channel *c);
int direct_recv(struct mover *m, int32_t channel);
/* send.c: makes the tasks of a move, and what it sends to other memories and receives, from there or from another
 * space. */
int move_across(struct lower *l, const struct plan_move *move, const struct cross *x, struct pval *from,
                struct pval *to);
/* Is a value known only after the last piece? */
bool lower_is_late(const struct lower *l, const struct pval *v);
/* Adds one end of a channel: its task is the one just made. */
void channel_add(struct lower *l, int32_t task, const struct channel *c);
/* Puts their list into the plan, sorted. */
void channel_list(struct lower *l);

/* move.c: brings v into the layout in which the node at hand wants this operand, by the outline's hops. share: its
 * parts need not each have bytes of their own. */
int lower_moved(struct lower *l, struct pval *v, const struct layout *layout, int operand, bool share,
                struct pval **out);

/* chain.c */
int lower_chain(struct lower *l, int32_t node);

/* lower.c */
/* Threads for a kernel of so many operations and bytes on one rank. */
int lower_team(const struct lower *l, double flops, double bytes);
int lower_nodes(struct lower *l);
int lower_roots(struct lower *l);
struct pval *lower_value(struct lower *l, struct ref r);
struct view number_view(const struct type *t, void *data);

/* guard.c */
int guard_node(struct lower *l, int32_t node); /* before its tasks */
void guard_updates(struct lower *l);

/* credit.c */
void credit_registers(struct lower *l);
void credit_pools(struct lower *l);
int32_t credit_group(const struct lower *l, const struct draft *d);

/* arena.c */
int arena_registers(struct lower *l); /* E_MEMORY */

/* sizes.c */
enum { ARENA_ALIGN = 64 };
int sizes_check(struct lower *l); /* before registers have places: E_MEMORY */
void sizes_scratch(struct lower *l);

#endif
