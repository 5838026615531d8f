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

#include "runtime/op.h"

enum { NREMEMBERED = 10000 };

struct buffer;

/* The bytes of a value: one buffer a mesh position (NULL where the shard is empty). Values that are the same bytes
 * under two names (detach, a move between equal layouts) share it; nref counts them. */
struct store {
    int32_t nref;
    int32_t n;
    struct buffer *part[];
};

/* A number in a program: a run binds it when it starts; it is no part of the plan. */
enum number_kind {
    NUM_FIXED,   /* i or f as given */
    NUM_LIVE,    /* the session asks for it again before each call of a traced graph */
    NUM_SEED,    /* of a random operator: the session's seed */
    NUM_ORDINAL, /* of a random operator: from the session's count; one more each call of a traced graph */
};
struct number {
    uint8_t kind;
    bool is_int;
    union {
        double f;
        int64_t i;
    };
    struct rille_live *live; /* NUM_LIVE: actors/session/session.h; the number counts it */
};

struct line { /* where in the user's program; the graph interns file */
    const char *file;
    int32_t line;
    const char *inside; /* "nn.Linear" or NULL */
};

enum { NO_INPUT = -1, ENDED_INPUT = -2 /* the trace is over */ };

struct val {
    struct node *node; /* who computes it; NULL for a number, an input of a trace, or once forgotten */
    uint8_t out;       /* which of node's outputs */
    uint8_t is_number;
    uint8_t needs_grad;   /* backward may go through it */
    uint8_t keep_next;    /* a run computed it and did not keep it, though it has a handle: the next one keeps it */
    uint8_t half_written; /* a run failed while writing it: reading is an error until set again */
    uint8_t leaving;      /* a step is about to put another in its place (session_release) */
    int16_t input;        /* index of a traced graph's input, NO_INPUT, ENDED_INPUT */
    struct type type;
    const struct layout *layout; /* NULL for numbers */
    struct store *store;         /* NULL: not computed, or let go */
    struct number number;
    int32_t hold, keep, remembered;
    struct rille_tensor *owner; /* the variable that this is a version of, or NULL; whoever sets it counts it */
    uint64_t mark;              /* of the graph walk in progress (graph_mark) */
    int32_t index;              /* scratch of that walk */
};

enum node_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_WEIGHT, PHASE_BATCH };
enum node_holding {
    HOLD_ALL,        /* not computed: holds and keeps operands */
    HOLD_SAVED,      /* computed, backward may come: holds them, and keeps those that the gradient saves */
    HOLD_REMEMBERED, /* computed: remembers them for explain */
    HOLD_NONE,       /* forgotten */
};
enum node_state { NODE_NEW, NODE_DONE, NODE_FORGOTTEN };
struct node {
    const struct op *op;
    uint8_t state;
    uint8_t spent; /* backward has run through it: it let go of saved values */
    uint8_t nout;
    uint16_t nin;
    int32_t nlive;   /* outputs with hold > 0 */
    struct val **in; /* nin, NULL where absent */
    struct val *out[OP_OUT];
    const struct layout **want; /* per operand: the layout the chosen signature reads it in; NULL for numbers, absent */
    struct attr *attr;          /* op_nattr(op) values, NULL if none */
    struct line line;
    const char *name; /* of the composite that built it ("cross_entropy"), or NULL */
    uint64_t serial;  /* order of creation: a topological order */
    uint64_t mark;
    int32_t index;
    struct node *older, *newer; /* list of computed nodes that remember */
    uint8_t phase;              /* enum node_phase: what a schedule orders by */
    uint8_t per_piece;          /* in a trace: a run computes it once for each micro-batch */
    uint8_t accumulate;         /* in a trace: sums the pieces into one value a batch */
    uint8_t after;              /* in a trace: depends on an accumulated value */
    uint8_t holding;            /* enum node_holding: what graph.c holds of the operands */
    uint8_t traced;             /* a trace made it */
    struct strategy *strategy;  /* how the user wants it cut (sbp/strategy.h), owned; or NULL */
    uint8_t asked;              /* a move that the user wrote: a planner obeys it */
    uint8_t pins;               /* a move whose gradient goes back to where the operand lies */
    uint64_t shows;      /* the serial of the view that it shows, cast or moved below it: their gradient is one; 0 */
    uint64_t recomputes; /* the serial of the node whose results it computes again for backward; 0: of none */
    int32_t region;      /* the backward pass computes a region again together; 0: results stay for it */
    int32_t call;        /* the call of a planned trace that made it, or whose gradient it is (rounds.h), from 1; 0 */
    uint8_t queued;      /* on graph.c's work list */
};

/* The serial of the view that n is, or shows. */
static inline uint64_t
node_shown(const struct node *n)
{
    return n->shows ? n->shows : n->serial;
}

struct rille_live;
struct rille_tensor; /* a handle of the public face (actors/session/session.h); nothing here looks into it */
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

/* A handle on a value: counts hold and keep. val_drop may free it and all that only it needed. */
void val_hold(struct val *v);
void val_drop(struct graph *g, struct val **v);
/* Somebody needs its bytes, or no longer. */
void val_keep(struct val *v);
void val_unkeep(struct graph *g, struct val *v);

/* The graph calls orphan when a value that has an owner goes. */
void graph_on_orphan(struct graph *g, void (*orphan)(struct rille_tensor *owner));
/* It calls release when a number that names a live one goes: who made the number counted it. */
void graph_on_live(struct graph *g, void (*release)(struct rille_live *live));

/* After a run: the node's outputs have stores (the caller set those that the plan gives). Lets go of operands, but for
 * what the gradient saves while backward may still come. */
void node_done(struct graph *g, struct node *n);
/* The operands of a computed node that still knows them, to compute it once more: holds and keeps them again. False
 * when it forgot them. */
bool node_revive(struct graph *g, struct node *n);
/* Does the gradient of n's operator read operand i, or output k? */
bool node_saves_in(const struct node *n, int i);
bool node_saves_out(const struct node *n, int k);
/* May backward go through n? Not once it has, nor when n's results are versions of variables, where differentiation
 * stops. */
bool node_has_gradient(const struct node *n);
/* Backward has built its nodes: n no longer keeps saved values. */
void node_spend(struct graph *g, struct node *n);

/* A fresh mark; a walk sets val->mark and node->mark to it. */
uint64_t graph_mark(struct graph *g);
/* File names, interned. */
const char *graph_file(struct graph *g, const char *name);

struct graph_count {
    int64_t vals, nodes, remembered;
};
struct graph_count graph_count(const struct graph *g);

struct store *store_new(int n);
void store_hold(struct store *s);
void store_drop(struct store **s); /* gives its buffers back to their pools when it was the last */

#endif
