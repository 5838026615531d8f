/* program.h - what to compute, free of the session: a list of operator calls in an order in which they can run.
 *
 * collect.c collects a program from the graph (or a trace), and plan_compile() makes a plan of it. Its canonical bytes
 * are the key of the plan cache: operators, attributes, types, layouts, the shape of the program; not lines, buffers or
 * numbers. Indices name operands: of a node, of a leaf (a value that exists), of a number (bound when a run starts). A
 * program owns its arena; once it is there, any thread reads it and none writes. */
#ifndef RILLE_PLAN_PROGRAM_H
#define RILLE_PLAN_PROGRAM_H

#include "boxing/path.h"
#include "runtime/arena.h"
#include "runtime/graph.h"

enum ref_kind { REF_NONE, REF_NODE, REF_LEAF, REF_NUMBER };
struct ref {
    uint8_t kind;
    uint8_t out; /* of a node */
    int32_t index;
};

struct prog_leaf {
    struct type type; /* of one piece, if piece */
    const struct layout *layout;
    bool piece; /* cut along dimension 0: piece k is the k-th part of every shard */
};

struct prog_node {
    const struct op *op;
    const struct attr *attr;
    int32_t nin, nout;
    const struct ref *in;
    const struct layout *const *want; /* of each operand; NULL for numbers and absent ones */
    const struct type *type;          /* of the results */
    const struct layout *const *layout;
    struct line line;
    const char *name;  /* the operator's, or of the composite that built it */
    uint8_t phase;     /* enum node_phase */
    bool piece;        /* acts once for each piece */
    bool accumulate;   /* its result is the sum over the pieces, in piece order */
    int32_t recompute; /* 1 + the node whose results it computes a second time, of whose stage it is; itself where the
                          program has no such node: nothing else stands for it. 0: neither */
    const struct strategy *strategy; /* how the user wants it cut, or NULL */
    bool asked;                      /* a move that the user wrote; others are there because layouts differed */
    int32_t again; /* 1 + the node of whose stage it is, which it brings aside or again (bring.h); such
                      moves are made anew, whoever made them before. 0: neither */
    int32_t call;  /* the call of a planned trace that it was made for (actors/session/rounds.h), from 1; 0 */
};

/* A value that outlives the run. */
struct prog_root {
    struct ref ref;
    int32_t overwrites_leaf; /* the leaf over whose bytes it may lie (an update of a variable), or -1 */
    bool join;               /* one piece a time, joined along dimension 0 */
};

/* Where the devices of a cluster are: first to first + n - 1 of a kind lie in `memory`, dealt to nslot of the threads
 * of that memory from `slot` on. Memories are what devices read in place: processes of one host that share segments
 * have one, and so one part. Ranges do not overlap. An input of the part, not of the program: it changes no bit. */
struct plan_range {
    int32_t kind, first, n, slot, nslot, memory;
};
struct plan_map {
    int32_t nrange, nslot; /* threads of `memory` */
    int32_t memory;        /* the one whose part plan_compile() makes */
    struct plan_range *range;
};

/* The pool of a virtual stage, in pieces: how many may be between forward and the end of backward, of weight gradients;
 * between backward and the end of weight gradients; and how many results may be on their way to the stage. */
struct prog_pool {
    int32_t backward, weight, behind, hop;
};
/* What a device does first (stage.c): the first pieces, or a virtual stage before another. */
enum prog_rule { RULE_PIECES, RULE_DEEP, RULE_RISING, RULE_BACK, RULE_LEAN, RULE_EVEN, RULE_INNER, RULE_ROUNDS, NRULE };

struct program {
    struct arena arena;
    int32_t nleaf, nnumber, nnode, nroot;
    struct prog_leaf *leaf;
    const struct type **number; /* their (weak) types */
    struct prog_node *node;
    struct prog_root *root;
    int32_t pieces; /* micro-batches; 1 if there are none */
    int32_t cut;    /* equal parts of dimension 0 of what comes in pieces; 0: of several lengths */
    int32_t lag;    /* of the schedule's credits; 0: as many credits as pieces (gpipe) */
    bool split;     /* gradients of weights may wait: more credits from forward to them (stage.h) */
    int32_t npool;  /* virtual stages with pools that were chosen (dial.c); 0: it follows from lag and split */
    struct prog_pool *pool;
    uint8_t rule;               /* enum prog_rule */
    bool fold;                  /* a stage from which data goes back to where it came from is two (stage.c) */
    int32_t threads;            /* device threads at most */
    const struct plan_map *map; /* of a cluster; NULL: one process. Lives as long as the program */
    bool dry_run;               /* somebody reads its plan and nobody runs it: devices may be meta */
    int32_t shared_least; /* bytes of a variable from which on its replicas share a buffer (replica.h); 0: none do */
    struct box_cost cost; /* decides whether moves go at once or in hops */
};

void program_free(struct program **p);
/* Returns another that is like it, which the caller owns. */
struct program *program_copy(const struct program *p);
/* Appends the program to s as canonical bytes: equal programs give equal bytes, in any process. Placements and layouts
 * go by what they are, operators by name; the bytes leave out lines and names of composites. */
void program_write(const struct program *p, struct str *s);
/* Reads the program of these bytes, if they are what program_write makes and the program is legal; they may come from
 * anybody. Interns placements and layouts in the atlas. E_PLAN says at which byte. */
int program_read(const char *bytes, size_t n, struct atlas *at, struct program **out);
struct type ref_type(const struct program *p, struct ref r);
const struct type *ref_type_of(const struct program *p, struct ref r); /* where the program has it */
const struct layout *ref_layout(const struct program *p, struct ref r);
bool ref_varies(const struct program *p, struct ref r); /* from piece to piece */
/* A node as a call of its operator, on whole tensors of the dtypes that ranks hold (layout_dtype). */
struct call *program_call(const struct program *p, const struct prog_node *n, struct arena *a);
/* By node: does a result of it overwrite a leaf? */
bool *program_updates(const struct program *p, struct arena *a);
/* By node: does it look at data that it may refuse? Where an earlier node allows no other elements of the same value
 * (a lookup, of its gradient) that one alone does: the updates do not wait for two. */
bool *program_checks(const struct program *p, struct arena *a);
/* Returns the value of which r, if it is a view, shows a part. */
struct ref program_whole(const struct program *p, struct ref r);
/* By node that sums: the sum over pieces that alone, in all the program, reads its result, which may be f32 then where
 * it is a half; -1: there is none. */
int32_t *program_sums(const struct program *p, struct arena *a);
/* By node: bits of those results that are sums and that sums over pieces alone read: f32 where they are halves. */
uint8_t *program_wide(const struct program *p, struct arena *a);
/* Makes f32 of those: they are not whole before. */
void program_widen(struct program *p);

#endif
