/* lower.h - types and functions of the files that lower a program to a plan; compile.c calls them in order.
 *
 * Only the compiler includes this header, not the verifier or the runtime. A struct lower belongs to one
 * plan_compile() call and its thread. Data that outlives the call is in the plan's arena. */
#ifndef RILLE_PLAN_LOWER_H
#define RILLE_PLAN_LOWER_H

#include "actors/plan/outline/redistribute.h"
#include "actors/plan/outline/outline.h"
#include "actors/plan/model/plan.h"
#include "actors/plan/outline/shared_update.h"
#include "runtime/data/hash.h"

enum { NOBODY = -1, SEVERAL = -2 };

/* Location of one rank's shard of a value, relative to a task's register or a leaf's buffer. */
struct part {
    uint8_t kind;            /* ARG_REG: a task's register; ARG_LEAF: a leaf shard */
    int32_t index;           /* index of the task, or of the leaf part */
    int32_t out;             /* ARG_REG: index of the result among the task's results */
    const struct view *view; /* the shard's view, interned */
    int64_t skip;            /* elements from the start of the register or buffer to the shard */
    int64_t piece_stride;    /* leaf: distance between the data of two micro-batches in the buffer, bytes */
};

/* A value in one layout: the result of a node, a leaf, or a copy of either that moves have converted. */
struct pval {
    struct type type;
    const struct layout *layout;
    bool piece;
    int32_t node;   /* index of the node that computes the value; -1: a leaf */
    struct ref ref; /* the value before any moves */
    const struct local_positions *mine;
    struct part *part;  /* by local position (index into `mine`) */
    struct pval *moved; /* next entry in the list of the value's copies in other layouts */
};

struct edge {
    struct edge *next;
    int32_t task, out; /* producer task, and its out-port */
    int32_t hold, need;
};

/* A task under construction. */
struct draft {
    struct task task;
    struct edge *in, *last_in;
    int32_t nin;
    struct out_port *out; /* results; then at most one control output; then credit outputs (struct out_port) */
    int32_t nout, out_capacity;
    int32_t control; /* index of the control output; -1: none */
    bool piece, gate;
};

struct lower {
    struct program *program;
    struct atlas *atlas;
    struct plan *plan;
    struct arena tmp;  /* freed when the plan is complete */
    struct arena pass; /* memory of passes over all drafts; freed when drafts are in their final order */
    struct draft *draft;
    int32_t ndraft, capacity;
    struct pval **node_val; /* by result, [node * OP_OUT + out]: the value in its original layout */
    struct pval **leaf_val;
    struct outline *outline;
    bool *shares; /* by node: true if replicas of a variable divide the work of its update (shared_update_nodes) */
    bool *checks; /* by node: true if it validates input data (program_checks) */
    bool *read;   /* by node: true if another node reads a result of the node */
    /* by result: the only node that needs a certain storage order of the result's dimensions; NOBODY: none;
     * SEVERAL: several nodes, or a root */
    int32_t *reader;
    struct local_set mines;
    struct order {
        /* A line is a chain of tasks connected by edges (order.c). line[task]: index of the task's line;
         * place[task]: place of the task on the line */
        int32_t *line, *place;
        /* seen[task]: stamp of the last visit; stamp and queue of the current search */
        int32_t *seen, stamp, *queue;
        /* wanted[line]: place that the search must reach on the line; wanted_by[line]: stamp of the search to which
         * this place belongs */
        int32_t *wanted, *wanted_by;
        int32_t *met; /* by line: last place that the current search has reached */
    } order;
    /* first_out[task]: index of the task's first out-port; asked[out-port]: number of registers that the port's
     * readers request */
    int32_t *first_out, *asked;
    struct hash_table views;   /* interned views */
    struct hash_table calls;   /* interned calls and chains for which kernels are made */
    struct hash_table kernels; /* kernels, by call, views and device */
    int32_t exec_capacity;
    /* gate: task of the last gate; -1: none. gated: number of drafts when that gate was made. The gate waits for
     * the checks of data among these drafts */
    int32_t gate, gated;
    bool *is_gated; /* by node: true if a gate must precede it */
    struct redistributions crosses;
    struct plan_move **move;
    int32_t nmove, move_capacity;
    int32_t *collected; /* by device: its last collective task, -1: none; NULL: no collectives so far */
    int32_t at;  /* node that is being lowered; errors about the move of a leaf name the source line of this node */
    int32_t hop; /* index of the hop that is being lowered, or of the next hop to lower */
    struct channel *channel; /* ends of channels in the order of creation (malloc) */
    int32_t nchannel, channel_capacity;
};

/* intern.c: returns the interned view with these sizes and strides. */
const struct view *intern_view(struct lower *l, const struct view *v);
/* State of finding the kernels for the tasks of a node or chain. One kernel is made for each distinct combination
 * of views of operands and results. Nodes with equal calls share kernels. */
struct kernels {
    struct lower *l;
    int device, nin, nout; /* kind of the device; numbers of operands and results */
    struct kcall like;     /* call of the node, with options of the kernel; its views are in `at` */
    int nstep;             /* number of steps; above 1 for a chain */
    const struct fuse_step *step;
    const void *what; /* interned call or chain: equal calls or chains have the same address */
    /* true: the kernels depend on the shards' positions in the global tensor, so tasks cannot share them */
    bool placed;
    const struct view **view; /* views of the current rank: operands, then results; NULL for absent operands */
    /* copies of these views, to which the kernel's call refers; if `placed`, with positions in the global tensor */
    struct view *at;
};
void kernels_begin(struct kernels *k, struct lower *l, int device, int nin, int nout);
/* Sets the call or chain for which kernels are made. The caller must set k->like before this call, and keep step[]
 * until the last kernels_get(). */
void kernels_of(struct kernels *k, int nstep, const struct fuse_step *step);
/* Finds or makes the kernel for the current views, for a device of the plan. */
int kernels_get(const struct kernels *k, int32_t device, struct exec **e);

/* draft.c */
struct draft *draft_new(struct lower *l, const struct task_kind *kind, int32_t node, int device_kind, int rank,
                        int32_t pos, bool piece, int32_t *id);   /* *d is valid until the next draft_new() */
int32_t draft_device(const struct lower *l, int kind, int rank); /* returns the device's index in the plan */
void draft_out(struct lower *l, struct draft *d, int64_t bytes, int32_t every);
/* appends an out-port; returns its index */
int32_t draft_port(struct lower *l, struct draft *d, const struct out_port *o);
bool draft_once(const struct draft *d); /* returns true if the task's results are computed once per batch */
void draft_args(struct lower *l, int32_t task, int n);
int draft_reads(struct lower *l, int32_t task, const struct part *part, int argument, bool fresh);
struct view part_local(const struct layout *layout, const struct type *type, int pos);
/* Returns the view of the k-th local shard, with its position in the global tensor. */
struct view part_placed(const struct pval *v, int32_t k);
/* Returns the view of `slice` in a shard. lo: position of the shard's first element in the global tensor; *skip:
 * elements from the shard's start to the slice. */
struct view part_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip);
void part_is_result(struct part *p, int32_t task, int32_t out);
struct pval *pval_new(struct lower *l, const struct type *type, const struct layout *layout, bool piece,
                      struct ref ref);
void draft_edge(struct lower *l, int32_t to, const struct edge *e); /* appends an edge; duplicates are allowed */

/* order.c */
void order_begin(struct lower *l); /* call when all tasks exist */
/* Makes task a run before task b; adds an edge unless this order is already known. a must precede b in the list. */
void order_after(struct lower *l, int32_t a, int32_t b);
/* Makes all n tasks a[] run before task b. a[] must be sorted. */
void order_all(struct lower *l, const int32_t *a, int32_t n, int32_t b);
void order_edge(struct lower *l, int32_t a, int32_t b);
/* Limits task a to at most n acts ahead of task b. */
void order_credit(struct lower *l, int32_t a, int32_t b, int32_t n);

/* move.c */
struct mover { /* a move under construction */
    struct lower *l;
    const struct plan_move *move;
    const struct box_plan *b; /* work of the move in this partition */
    struct pval *from;
    bool piece; /* true: the move's tasks run once per micro-batch */
    const struct redistribution *cross;
    int32_t *recv;       /* by incoming channel: the RECV or transfer task that writes the bytes */
    int32_t *stage_task; /* by stage buffer: the task that fills it */
    int32_t *part_task;  /* by local destination shard: the task that fills it */
    /* Sources are numbered: local source shards, then stage buffers, then channels. arg_task[source]: the last task
     * that reads the source; arg[source]: index of the argument by which it does */
    int32_t *arg, *arg_task;
    struct box *box; /* boxes of local source shards; computed when first needed */
    bool *boxed;
    struct view part; /* destination shard that is being filled */
};
void mover_init(struct mover *m, struct lower *l, const struct plan_move *move, const struct redistribution *x,
                struct pval *from);
/* Returns the view of a slice in its source, which must be in this partition: stage buffer `stage` or, if `stage`
 * is BOX_PART, the shard at mesh position pos. *part: location of the source; *skip: elements from the start of the
 * source to the slice. */
struct view mover_window(struct mover *m, int32_t stage, int32_t pos, const struct box *slice, struct part *part,
                         int64_t *skip);
/* Returns the view of slice `which` of a channel in the buffer that has received the channel's data. The view is
 * dense; *skip: elements from the buffer's start to the slice. */
struct view mover_received(const struct mover *m, const struct redistribute_channel *c, int32_t which, int64_t *skip);
/* Make the tasks of a move: move_stages() those that fill stage buffers first to end - 1, move_parts() those that
 * fill destination shards. */
int move_stages(struct mover *m, int32_t first, int32_t end);
int move_parts(struct mover *m, struct pval *to);
int move_add(struct mover *m, int32_t task, const struct box_work *w, bool to_stage, const struct box_step *step,
             const struct box *slice, int rank, const struct view *dst, int64_t skip);
/* shared_shard.c: makes the tasks of a move whose destination has equal shards on several ranks of one memory
 * space. The ranks fill one register together. *done: false if shards of the move cannot be shared in this way, or
 * if a device would receive more bytes as a result. */
int shared_shard_parts(struct lower *l, const struct plan_move *move, const struct redistribution *x, struct pval *from,
                       struct pval *to, bool *done);

/* collective.c: makes the local tasks of a library collective. *done: false if the device kind's library has no
 * collective that performs the move. */
int collective_parts(struct lower *l, struct plan_move *move, const struct redistribution *x, struct pval *from,
                     struct pval *to, bool *done);

/* send.c: returns one end of a channel of the move: the sending end if `sends`, else the receiving end. */
struct channel mover_channel(const struct mover *m, const struct redistribute_channel *c, bool sends);
/* Returns the view of slice `which` of a channel at its source, in this partition; *part and *skip as in
 * mover_window(). */
struct view mover_sent(struct mover *m, const struct redistribute_channel *c, int32_t which, struct part *part,
                       int64_t *skip);
/* Returns the placement of the devices that read a channel. */
const struct place *mover_reader(const struct mover *m, const struct redistribute_channel *c);
/* send.c: makes the tasks of a move, including transfers between memory spaces and sends and receives between
 * hosts. */
int move_across(struct lower *l, const struct plan_move *move, const struct redistribution *x, struct pval *from,
                struct pval *to);
/* Returns true if the value is available only after the last micro-batch. */
bool lower_is_late(const struct lower *l, const struct pval *v);
/* Adds one end of a channel to the plan; `task` must be the task made last. */
void channel_add(struct lower *l, int32_t task, const struct channel *c);
/* Copies the channels into the plan, sorted by name. */
void channel_list(struct lower *l);

/* move.c: converts v to the layout in which the current node reads this operand; the outline has the hops. share
 * true: equal shards of the result may share a register (shared_shard.c). */
int lower_moved(struct lower *l, struct pval *v, const struct layout *layout, int operand, bool share,
                struct pval **out);

/* lower.c */
/* Returns the number of threads for a kernel with this many operations and bytes on one rank. */
int lower_team(const struct lower *l, double flops, double bytes);
int lower_nodes(struct lower *l);
int lower_roots(struct lower *l);
struct pval *lower_value(struct lower *l, struct ref r);
struct view number_view(const struct type *t, void *data);

/* update_order.c */
int update_order_gate(struct lower *l, int32_t node); /* call before the node's tasks are made */
void update_order_updates(struct lower *l);

/* credit.c */
void credit_registers(struct lower *l);
void credit_pools(struct lower *l);
int32_t credit_group(const struct lower *l, const struct draft *d);

#endif
