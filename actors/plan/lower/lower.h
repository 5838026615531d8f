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

/* Returns the number of threads for a kernel with this many operations and bytes on one rank. */
int lower_team(const struct lower *l, double flops, double bytes);
int lower_nodes(struct lower *l);
int lower_roots(struct lower *l);
struct pval *lower_value(struct lower *l, struct ref r);
struct view number_view(const struct type *t, void *data);

#endif
