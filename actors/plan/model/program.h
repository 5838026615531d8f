/* program.h - the input of the compiler, independent of the session: a list of operator calls in an order in which
 * they can run.
 *
 * collect.c makes a program from the graph or a trace, and plan_compile() makes a plan from the program. The
 * canonical bytes of a program are the key of the plan cache: operators, attributes, types, layouts and the
 * structure of the program, but no source lines, buffers or numbers. A struct ref names an operand by index: a
 * result of a node, a leaf (an existing value) or a number (bound when a run starts). A program owns its arena. A
 * finished program is read-only and may be used by any thread. */
#ifndef RILLE_PLAN_PROGRAM_H
#define RILLE_PLAN_PROGRAM_H

#include "boxing/path.h"
#include "runtime/data/arena.h"
#include "runtime/graph/graph.h"

enum ref_kind { REF_NONE, REF_NODE, REF_LEAF, REF_NUMBER };
struct ref {
    uint8_t kind;
    uint8_t out; /* REF_NODE: index of the result among the node's results */
    int32_t index;
};
static inline bool
ref_equal(struct ref a, struct ref b)
{
    return a.kind == b.kind && a.index == b.index && a.out == b.out;
}

struct prog_leaf {
    struct type type; /* type of the complete value; if `piece` is set, type of one micro-batch */
    const struct layout *layout;
    /* true: the value differs per micro-batch. Dimension 0 is then split, and micro-batch k is the k-th part of
     * every shard */
    bool piece;
};

struct prog_node {
    const struct op *op;
    const struct attr *attr;
    int32_t nin, nout;
    const struct ref *in;
    /* by operand: layout in which the node reads the operand; NULL for numbers and absent operands */
    const struct layout *const *want;
    const struct type *type; /* types by result */
    const struct layout *const *layout;
    struct line line;
    const char *name; /* name of the operator, or of the composite that built the call */
    uint8_t phase;    /* enum node_phase */
    bool piece;       /* runs once per micro-batch */
    bool accumulate;  /* the result is summed over the micro-batches, in their order */
    /* with accumulate: the values of the micro-batches are not summed, but appended to each other along dimension 0
     * of every shard (append.h) */
    bool append;
    /* recomputed node: 1 + index of the original node, in whose stage this node runs, too. If the program does not
     * contain the original: 1 + index of this node. 0: not a recomputation */
    int32_t recompute;
    const struct strategy *strategy; /* the user's sharding strategy for the call; NULL: none */
    /* true: the user asked for this move; false: the move was inserted because layouts differ */
    bool asked;
    /* move that offloads, fetches or gathers again (offload.h): 1 + index of the node in whose stage the move runs.
     * Another node never reads the copy that such a move makes. 0: an ordinary move or node */
    int32_t again;
};

/* A value that outlives the run. */
struct prog_root {
    struct ref ref;
    int32_t overwrites_leaf; /* leaf whose bytes the root may overwrite (variable update), or -1 */
    bool join; /* the root's value consists of the results of all micro-batches, joined along dimension 0 */
};

/* A range of a cluster's devices, all on one host: devices first to first + n - 1 of a kind. They are assigned
 * round-robin to `nslot` threads of host `memory`; the first of these threads is thread `slot`. Ranges do not
 * overlap. All processes of a host share memory segments, so devices of a host read each other's shards in place,
 * and a host has one plan partition. The map decides which tasks are in which partition. Results do not depend on
 * it, bit for bit. */
struct plan_range {
    int32_t kind, first, n, slot, nslot, memory;
};
struct plan_map {
    int32_t nrange, nslot; /* nrange: number of ranges; nslot: number of threads of the partition's host */
    int32_t memory;        /* host whose partition plan_compile() makes */
    struct plan_range *range;
};

/* Limits of a virtual stage. Each field is the largest number of micro-batches that may be at once between two
 * events. backward: between forward and the end of backward. weight: between forward and the end of weight
 * gradients. behind: between backward and the end of weight gradients. hop: on their way to the stage. */
struct prog_pool {
    int32_t backward, weight, behind, hop;
};
/* Priority rule of a device: the order in which its ready micro-batches and virtual stages run (stage.c). */
enum prog_rule { RULE_PIECES, RULE_DEEP, RULE_RISING, RULE_BACK, RULE_LEAN, RULE_EVEN, RULE_INNER, RULE_ROUNDS, NRULE };

struct program {
    struct arena arena;
    int32_t nleaf, nnumber, nnode, nroot;
    struct prog_leaf *leaf;
    const struct type **number; /* by number: its type, which may be weak */
    struct prog_node *node;
    struct prog_root *root;
    int32_t pieces; /* number of micro-batches; 1: the batch is not divided */
    /* number of equal parts into which dimension 0 of the batch is split; 0: micro-batches of unequal lengths */
    int32_t cut;
    /* lookahead of the schedule (stage.h): number of micro-batches per hop between stages by which a stage may be
     * ahead of the next; 0: one register per micro-batch (GPipe) */
    int32_t lag;
    /* true: weight gradients may run later than input gradients, which needs more registers (split backward,
     * stage.h) */
    bool split;
    /* number of entries in `pool`, which has the limits of each virtual stage as a search has chosen them
     * (schedule_search.c); 0: the limits follow from lag and split */
    int32_t npool;
    struct prog_pool *pool;
    uint8_t rule; /* enum prog_rule */
    /* true: a stage whose results return to the devices of its input is divided into two stages (stage.c) */
    bool fold;
    int32_t threads;            /* largest number of device threads */
    const struct plan_map *map; /* cluster map, which outlives the program; NULL: one process */
    bool find_nan;              /* every task searches its results for NaN and infinities, and nothing is fused */
    /* the plan is only inspected and never run, so devices may be of kind meta (no hardware) */
    bool dry_run;
    /* least size of a variable whose replicas share a buffer, bytes (shared_update.h); 0: never */
    int32_t shared_least;
    struct box_cost cost; /* cost model that chooses between a direct move and several hops */
};

void program_free(struct program **p);
/* Returns a copy of the program, which the caller owns. */
struct program *program_copy(const struct program *p);
/* Returns the value of which r is a copy in another layout on the same placement, made by moves that the user did
 * not ask for; r itself if no such move made r. */
struct ref program_source(const struct program *p, struct ref r);
/* Returns how often per step operand r is moved for node n: 1, or the number of micro-batches. A move that is
 * repeated per micro-batch although its value does not change (prog_node.again) counts once per micro-batch. */
int64_t program_move_times(const struct program *p, const struct prog_node *n, struct ref r);
struct type ref_type(const struct program *p, struct ref r);
/* returns a pointer to the type that the program stores */
const struct type *ref_type_of(const struct program *p, struct ref r);
const struct layout *ref_layout(const struct program *p, struct ref r);
bool ref_varies(const struct program *p, struct ref r); /* returns true if the value differs per micro-batch */
/* Returns the node as a call of the node's operator on global tensors, with the dtypes that ranks hold in memory
 * (layout_dtype). */
struct call *program_call(const struct program *p, const struct prog_node *n, struct arena *a);
/* Returns, by node, whether one of its results overwrites a leaf. */
bool *program_updates(const struct program *p, struct arena *a);
/* Returns, by node, whether the node validates data. If several nodes would validate the same value (a lookup and
 * its gradient), only the first of them is marked, so that updates wait for one check. */
bool *program_checks(const struct program *p, struct arena *a);
/* Returns the value that r is a view of; r itself if r is no view. */
struct ref program_whole(const struct program *p, struct ref r);
/* Returns, by node, the node that sums the result over micro-batches; -1: none, or the result has other readers. A
 * result without other readers may be f32 instead of half precision. */
int32_t *program_sums(const struct program *p, struct arena *a);
/* Returns, by node, a bit mask of the results that are computed as sums, for instance by a product, and are read
 * only by sums over micro-batches. Such a result of half precision is stored as f32. */
uint32_t *program_wide(const struct program *p, struct arena *a);
/* Changes the types of the results listed by program_wide() to f32, so that rounding to half precision happens once,
 * after the last micro-batch. */
void program_widen(struct program *p);

/* Limits of one task that computes a chain or group of nodes (fusion.c): number of members, operands, results. */
enum { FUSE_STEPS = 24, FUSE_INPUTS = 128, FUSE_OUTS = FUSE_STEPS * OP_OUT };
/* Names of hops have a number for each operand. Result k of member m of a chain or group has the number HOP_RESULT
 * + m * OP_OUT + k, after the numbers of all operands. */
enum { HOP_RESULT = FUSE_INPUTS };
static inline int
hops_result(int m, int k)
{
    return HOP_RESULT + m * OP_OUT + k;
}
/* Prints "operand 2" or "result 0" for an operand number of a hop. */
static inline void
hops_side_print(int operand, struct str *s)
{
    bool made = operand >= HOP_RESULT;
    str_addf(s, "%s %d", made ? "result" : "operand", made ? operand - HOP_RESULT : operand);
}

#endif
