/* graph.h - the stored program: nodes (one operator call each) and values (one result each).
 *
 * A graph belongs to a session and its thread. It keeps nodes and values in slabs and counts, of each value:
 *
 *   hold   a handle, or a node still to be computed or differentiated, keeps the value's record and how to compute it
 *   keep   somebody needs the value's bytes: a handle; a consumer that is not computed yet; a consumer whose gradient
 *          saves it; its own node, when the gradient saves its output
 *   remembered   a computed node remembers its operands for explain; it keeps neither bytes nor liveness
 *
 * When keep falls to 0 the value drops its store (bytes). When hold falls to 0 a computed node lets go of what it held.
 * When hold and remembered are 0 the value goes. The last NREMEMBERED computed nodes remember their operands; older
 * ones forget. */
#ifndef RILLE_RUNTIME_GRAPH_H
#define RILLE_RUNTIME_GRAPH_H

#include "runtime/graph/op.h"

enum { NREMEMBERED = 10000 };

struct buffer;

/* The bytes of a value: one buffer per mesh position (NULL where the shard is empty). Values with identical bytes
 * (detach, a move between equal layouts) share a store; nref counts them. */
struct store {
    int32_t nref;
    int32_t n;
    struct buffer *part[];
};

/* A number in a program, bound when a run starts; not part of the plan. */
enum number_kind {
    NUM_FIXED,   /* i or f as given */
    NUM_LIVE,    /* evaluated again by the session before each call of a traced graph */
    NUM_SEED,    /* operand of a random operator: the session's seed */
    NUM_ORDINAL, /* operand of a random operator: the session's count, plus one per call of a traced graph */
};
struct number {
    uint8_t kind;
    bool is_int;
    union {
        double f;
        int64_t i;
    };
    struct rille_live *live; /* NUM_LIVE: actors/session/core/session.h; the number counts it */
};

struct line { /* position in the user's program; the graph interns file */
    const char *file;
    int32_t line;
    const char *inside; /* "nn.Linear" or NULL */
};

enum { NO_INPUT = -1, ENDED_INPUT = -2 /* the trace is over */ };

struct val {
    struct node *node; /* producer; NULL: a number, an input of a trace, or forgotten */
    uint8_t out;       /* index among node's outputs */
    uint8_t is_number;
    uint8_t needs_grad;   /* backward may pass through the value */
    uint8_t keep_next;    /* the last run computed but did not keep it, though it has a handle; the next run keeps it */
    uint8_t half_written; /* the run that wrote the value failed; reading is an error until it is set again */
    uint8_t leaving;      /* a step is about to replace it (session_release) */
    uint8_t share, rows;  /* traces with micro-batches: relation to the batch's value, and the rows' dimension
                             (actors/session/step/batch_share.h) */
    int16_t input;        /* index of a traced graph's input, NO_INPUT, ENDED_INPUT */
    struct type type;
    const struct layout *layout; /* NULL for numbers */
    struct store *store;         /* NULL: not computed, or released */
    struct number number;
    int32_t hold, keep, remembered;
    struct rille_tensor *owner; /* variable of which this is a version, or NULL; the setter counts the reference */
    uint64_t mark;              /* mark of the current graph walk (graph_mark) */
    int32_t index;              /* scratch of that walk */
};

enum node_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT, PHASE_BATCH };
enum node_holding {
    HOLD_ALL,        /* not computed: holds and keeps operands */
    HOLD_SAVED,      /* computed, backward may follow: holds operands, and keeps those that the gradient saves */
    HOLD_REMEMBERED, /* computed: remembers operands for explain */
    HOLD_NONE,       /* forgotten */
};
enum node_state { NODE_NEW, NODE_DONE, NODE_FORGOTTEN };
struct node {
    const struct op *op;
    uint8_t state;
    uint8_t spent; /* backward has passed through the node and released its saved values */
    uint8_t nout;
    uint16_t nin;
    int32_t nlive;   /* outputs with hold > 0 */
    struct val **in; /* nin, NULL where absent */
    struct val *out[OP_OUT];
    const struct layout **want; /* layouts of the chosen signature, by operand; NULL: number or absent */
    struct attr *attr;          /* op_nattr(op) values, NULL if none */
    struct line line;
    const char *name; /* name of the composite that built the node ("cross_entropy"), or NULL */
    uint64_t serial;  /* creation number: a topological order */
    uint64_t mark;
    int32_t index;
    struct node *older, *newer; /* list of computed nodes that remember */
    uint8_t phase;              /* enum node_phase: sort key of schedules */
    uint8_t per_piece;          /* traces only: computed once per micro-batch */
    uint8_t accumulate;         /* traces only: sums over micro-batches into one value per batch */
    uint8_t after;              /* traces only: depends on an accumulated value */
    uint8_t holding;            /* enum node_holding: how graph.c holds the operands */
    uint8_t traced;             /* created by a trace */
    struct strategy *strategy;  /* strategy set by the user (sbp/strategy.h), owned; or NULL */
    uint8_t asked;              /* a move written by the user, which a planner must keep */
    uint8_t pins;               /* a move whose gradient returns to the operand's layout */
    uint64_t shows;             /* serial of the view below this cast or move, whose gradient is shared; 0: none */
    uint64_t recomputes;        /* serial of the node whose results this node recomputes for backward; 0: none */
    int32_t region;             /* recompute region, recomputed as a whole by backward; 0: results are saved */
    uint8_t queued;             /* on graph.c's work list */
};

/* Returns the serial of the view that n is or shows. */
static inline uint64_t
node_shown(const struct node *n)
{
    return n->shows ? n->shows : n->serial;
}

struct rille_live;
struct rille_tensor; /* a public handle (actors/session/core/handle.h); opaque here */
struct graph;
struct graph *graph_new(void);
void graph_free(struct graph **g);

/* Adds a node, which holds and keeps operands in[], with fresh outputs of the given types and layouts; outputs start
 * with hold = keep = 0: the caller takes a handle on them (val_hold) or gives them to other nodes. Copies want and
 * attr. */
struct node *graph_add(struct graph *g, const struct op *op, int nin, struct val *const *in,
                       const struct layout *const *want, const struct attr *attr, int nout, const struct type *out_type,
                       const struct layout *const *out_layout, struct line line);
/* Add a leaf with bytes (takes over the store's reference; NULL for a traced input), and a number. hold = keep = 0. */
struct val *graph_leaf(struct graph *g, const struct type *t, const struct layout *l, struct store *store);
struct val *graph_number(struct graph *g, struct number n);

/* val_hold adds a handle to a value: increments hold and keep. val_drop may free the value and all that only it
 * needed. */
void val_hold(struct val *v);
void val_drop(struct graph *g, struct val **v);
/* Increment and decrement the number of users of the value's bytes. */
void val_keep(struct val *v);
void val_unkeep(struct graph *g, struct val *v);

/* Sets the function that the graph calls when a value with an owner is freed. */
void graph_on_orphan(struct graph *g, void (*orphan)(struct rille_tensor *owner));
/* Sets the function that the graph calls when a number that refers to a live number is freed; the creator of the
 * number counted the reference. */
void graph_on_live(struct graph *g, void (*release)(struct rille_live *live));

/* Marks a node as computed after a run; the caller has set the stores of the planned outputs. Releases the operands,
 * except those that the gradient saves while backward may still follow. */
void node_done(struct graph *g, struct node *n);
/* Holds and keeps the operands of a computed node again, to recompute it. Returns false if the node has forgotten
 * its operands. */
bool node_revive(struct graph *g, struct node *n);
/* Return true if the gradient of n's operator reads operand i, or output k. */
bool node_saves_in(const struct node *n, int i);
bool node_saves_out(const struct node *n, int k);
/* Returns true if backward may pass through n: not a second time, and not if n's results are versions of variables,
 * where differentiation stops. */
bool node_has_gradient(const struct node *n);
/* Releases the saved values of n, after backward has built its nodes. */
void node_spend(struct graph *g, struct node *n);

/* Returns a new mark for a walk, which sets val->mark and node->mark to it. */
uint64_t graph_mark(struct graph *g);
/* Returns the interned file name. */
const char *graph_file(struct graph *g, const char *name);

struct graph_count {
    int64_t vals, nodes, remembered;
};
struct graph_count graph_count(const struct graph *g);

struct store *store_new(int n);
void store_hold(struct store *s);
void store_drop(struct store **s); /* the last reference returns the buffers to their pools */

#endif
