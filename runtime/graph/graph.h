/* graph.h - the stored program: nodes (one operator call each) and values (one result each).
 *
 * A graph belongs to a session and its thread. A graph reuses the memory of nodes and values, and counts three kinds
 * of references to each value:
 *
 *   hold        from a handle, or from a node still to be computed or differentiated. The value's record stays, and the
 *               nodes that compute the value.
 *   keep        from a reader of the bytes: a handle; a consumer that is not computed yet; a consumer whose gradient
 *               saves the value; the value's node, if its gradient saves the result. The bytes stay.
 *   remembered  from a computed node, which remembers its operands for explain. Only the value's record stays.
 *
 * When `keep` becomes 0, the value drops its store (bytes). When `hold` becomes 0 for all results of a computed
 * node, the node drops its references to operands. When `hold` and `remembered` are 0, the value is freed. Only the
 * last NREMEMBERED computed nodes remember their operands. */
#ifndef RILLE_RUNTIME_GRAPH_H
#define RILLE_RUNTIME_GRAPH_H

#include "runtime/graph/op.h"

enum { NREMEMBERED = 10000 };

struct buffer;

/* The buffers of a value, by mesh position; NULL: the shard is empty. Values with identical bytes (after detach,
 * or a move between equal layouts) share a store; nref counts the values that share it. */
struct store {
    int32_t nref;
    int32_t n;
    struct buffer *part[];
};

/* Kinds of scalars in a program. Scalars are not part of the plan; they are bound when a run starts. */
enum number_kind {
    NUM_FIXED, /* a constant, in field i or f */
    NUM_LIVE,  /* the result of a user's function, which the session calls before each call of a traced graph */
    NUM_SEED,  /* operand of a random operator: the session's seed */
    /* operand of a random operator: number of random calls of the session so far, plus an increment per call of a
     * traced graph */
    NUM_ORDINAL,
};
struct number {
    uint8_t kind;
    bool is_int;
    union {
        double f;
        int64_t i;
    };
    /* NUM_LIVE: the live number (actors/session/core/live.h), to which the number holds a reference */
    struct rille_live *live;
};

struct line { /* a line in the user's program; the graph interns `file` */
    const char *file;
    int32_t line;
    int32_t module;     /* number that the caller gave that module, for err_in_module(); 0: none */
    const char *inside; /* module that the line belongs to: "nn.Linear"; NULL: none */
};
/* Adds the program line to this thread's error, which an operator has reported. Adds the module, too, if `status`
 * says that data or a kernel is at fault. */
void line_blame(const struct line *at, int status);

/* Special values of val.input. ENDED_INPUT: the value was an input of a trace that has ended. STAND_IN: the value
 * stands for the values at all positions of a scan, and is never computed (actors/session/scan/scan_body.h). */
enum { NO_INPUT = -1, ENDED_INPUT = -2, STAND_IN = -3 };

struct val {
    /* node that computes the value; NULL: a number, an input of a trace, or a value whose node the graph has freed */
    struct node *node;
    uint8_t out; /* index among the node's results */
    uint8_t is_number;
    uint8_t needs_grad; /* 1: gradients flow through the value in backward */
    /* 1: the last run computed the value but did not keep it, although it has a handle; the next run keeps it */
    uint8_t keep_next;
    /* 1: a run failed while it overwrote the value; reading the value is an error until the user sets it again */
    uint8_t half_written;
    uint8_t leaving; /* 1: a step is about to replace the value (session_release) */
    /* 1: the user created the value without a placement. The first operator that reads the value moves it to the
     * placement of its other operands (actors/session/core/placing.h) */
    uint8_t unplaced;
    /* 1: the value was assigned to a variable with its gradient recorded. So backward passes through the value,
     * although a variable owns it */
    uint8_t recorded;
    /* for traces with micro-batches (actors/session/batch/share.h). share: enum batch_share: how the value
     * follows from the value for the whole batch; rows: dimension that has the batch's rows; blocks: number of row
     * blocks of that dimension */
    uint8_t share, rows;
    int16_t blocks;
    int16_t input; /* index of the value among a traced graph's inputs; or NO_INPUT, ENDED_INPUT, STAND_IN */
    struct type type;
    const struct layout *layout; /* NULL: the value is a number */
    struct store *store;         /* NULL: the value is not computed, or was dropped */
    struct number number;
    int32_t hold, keep, remembered;
    /* variable of which this value is a version; NULL: none. The code that sets the field counts the reference */
    struct rille_tensor *owner;
    uint64_t mark; /* mark (graph_mark) of the last walk over the graph that visited the value */
    int32_t index; /* number that the current walk over the graph stores here */
};

enum node_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT, PHASE_BATCH };
enum node_holding {
    HOLD_ALL, /* not computed: holds references to operands, and keeps their bytes */
    /* computed, and backward may follow: holds references to operands, and keeps the bytes that the gradient saves */
    HOLD_SAVED,
    HOLD_REMEMBERED, /* computed: only remembers its operands, for explain */
    HOLD_NONE,       /* has no references to operands */
};
enum node_state { NODE_NEW, NODE_DONE, NODE_FORGOTTEN };
struct node {
    const struct op *op;
    uint8_t state;
    /* 1: backward has passed through the node, and the graph has dropped its saved values */
    uint8_t spent;
    uint8_t nout;
    uint16_t nin;
    int32_t nlive;   /* number of results with hold > 0 */
    struct val **in; /* [nin] operands; NULL: absent */
    struct val *out[OP_OUT];
    const struct layout **want; /* by operand: layout that the chosen signature requires; NULL: a number, or absent */
    struct attr *attr;          /* values of op_nattr(op) attributes; NULL: there are none */
    struct line line;
    const char *name; /* name of the composite that added the node ("cross_entropy"); NULL: none */
    uint64_t serial;  /* number of the node in order of creation, which is a topological order */
    uint64_t mark;
    int32_t index;
    struct node *older, *newer; /* neighbours in the list of computed nodes that remember their operands */
    uint8_t phase;              /* enum node_phase, by which schedules sort nodes */
    uint8_t per_piece;          /* 1: in a trace, the node runs once per micro-batch */
    /* 1: in a trace, the node adds the values of all micro-batches into one value per batch */
    uint8_t accumulate;
    /* 1: in a trace, the node depends on a value that was added over all micro-batches */
    uint8_t after;
    uint8_t holding;           /* enum node_holding: how the node refers to its operands */
    uint8_t traced;            /* 1: a trace added the node */
    struct strategy *strategy; /* strategy of the user (sbp/strategy.h), owned; NULL: none */
    /* the user's gradient function and hooks (actors/session/build/own_gradient.h), owned until backward has passed;
     * NULL: none */
    struct own_gradient *own;
    uint8_t asked; /* 1: the node is a move that the user wrote, so the planner must keep it */
    uint8_t pins;  /* 1: the node is a move whose gradient gets the layout of the move's operand */
    /* serial of the view (a reshape, for example) whose readers read this node instead, because a cast or a move
     * was inserted before the view. Both have one gradient. 0: no such view */
    uint64_t shows;
    uint64_t recomputes; /* serial of the node that this node recomputes for backward; 0: none */
    /* number of the recomputation region, all of which backward recomputes; 0: the node's results are kept instead */
    int32_t region;
    uint8_t queued; /* 1: the node is on the work list of graph.c */
};

/* Returns the serial of the view that n replaces for its readers (shows); if there is none, the serial of n. */
static inline uint64_t
node_shown(const struct node *n)
{
    return n->shows ? n->shows : n->serial;
}

struct own_gradient;
struct rille_live;
struct rille_tensor; /* a public handle, defined in actors/session/core/handle.h */
struct graph;
struct graph *graph_new(void);
void graph_free(struct graph **g);

/* Adds a node with new results of the given types and layouts. The node takes references to its operands in[] and
 * keeps their bytes. Results begin with hold = keep = 0: the caller takes references (val_hold), or passes them to
 * other nodes. Copies want and attr. */
struct node *graph_add(struct graph *g, const struct op *op, int nin, struct val *const *in,
                       const struct layout *const *want, const struct attr *attr, int nout, const struct type *out_type,
                       const struct layout *const *out_layout, struct line line);
/* Add a leaf with bytes, or a number, with hold = keep = 0. Takes ownership of the store's reference; store NULL: an
 * input of a trace. */
struct val *graph_leaf(struct graph *g, const struct type *t, const struct layout *l, struct store *store);
struct val *graph_number(struct graph *g, struct number n);

/* Returns true if v is a version of a variable, at which differentiation stops. */
static inline bool
val_is_variable(const struct val *v)
{
    return v->owner && !v->recorded;
}

/* val_hold adds a handle's reference to a value: increments hold and keep. val_drop removes the reference, and may
 * free the value and all nodes and values that only this value needed. */
void val_hold(struct val *v);
void val_drop(struct graph *g, struct val **v);
/* Increment and decrement `keep`, the number of users of a value's bytes. */
void val_keep(struct val *v);
void val_unkeep(struct graph *g, struct val *v);

/* Sets the function that the graph calls when a value with an owner is freed. */
void graph_on_orphan(struct graph *g, void (*orphan)(struct rille_tensor *owner));
/* Sets the function that releases the live number of a value of kind NUM_LIVE. The graph calls the function when
 * the value is freed. The code that created the value has counted the reference. */
void graph_on_live(struct graph *g, void (*release)(struct rille_live *live));
/* Sets the function that releases a node's own_gradient. The function may drop values. */
void graph_on_own_gradient(struct graph *g, void (*release)(struct graph *g, struct own_gradient *own));

/* Marks a node as computed after a run. The caller has set the stores of the results that the plan keeps. Drops the
 * references to operands, except those that the gradient saves if backward may still follow. */
void node_done(struct graph *g, struct node *n);
/* Takes references to the operands of a computed node again, so that the node can be recomputed. Returns false if
 * the node no longer remembers its operands. */
bool node_revive(struct graph *g, struct node *n);
/* Return true if the gradient of n's operator reads operand i, or result k. */
bool node_saves_in(const struct node *n, int i);
bool node_saves_out(const struct node *n, int k);
/* Returns true if backward may pass through n: backward has not passed through n yet, and n's results are not
 * versions of variables, at which differentiation stops. */
bool node_has_gradient(const struct node *n);
/* Drops the saved values of n, after backward has added its nodes. */
void node_spend(struct graph *g, struct node *n);

/* Returns a new mark for a walk over the graph. The walk stores the mark in val->mark and node->mark of the values
 * and nodes that it visits. */
uint64_t graph_mark(struct graph *g);
/* Returns the mark of the latest walk. */
uint64_t graph_last_mark(const struct graph *g);
/* Returns the interned copy of a file name. */
const char *graph_file(struct graph *g, const char *name);

struct graph_count {
    int64_t vals, nodes, remembered;
};
struct graph_count graph_count(const struct graph *g);

struct store *store_new(int n);
void store_hold(struct store *s);
void store_drop(struct store **s); /* dropping the last reference frees the buffers */

#endif
