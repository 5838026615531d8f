/* program.h - the input of the compiler, free of the session: a list of operator calls in a runnable order.
 *
 * collective.c collects a program from the graph (or a trace), and plan_compile() makes a plan of it. The canonical
 * bytes of a program are the key of the plan cache: operators, attributes, types, layouts and the shape of the
 * program, but no source lines, buffers or numbers. A struct ref names an operand by index: a result of a node, a
 * leaf (an existing value) or a number (bound when a run starts). A program owns its arena. A finished program is
 * read-only, by any thread. */
#ifndef RILLE_PLAN_PROGRAM_H
#define RILLE_PLAN_PROGRAM_H

#include "boxing/path.h"
#include "runtime/base/arena.h"
#include "runtime/graph/graph.h"

enum ref_kind { REF_NONE, REF_NODE, REF_LEAF, REF_NUMBER };
struct ref {
    uint8_t kind;
    uint8_t out; /* REF_NODE: index of the result */
    int32_t index;
};

struct prog_leaf {
    struct type type; /* type of a micro-batch, if piece */
    const struct layout *layout;
    bool piece; /* split along dimension 0: micro-batch k is the k-th part of every shard */
};

struct prog_node {
    const struct op *op;
    const struct attr *attr;
    int32_t nin, nout;
    const struct ref *in;
    const struct layout *const *want; /* layout request by operand; NULL for numbers and absent operands */
    const struct type *type;          /* by result */
    const struct layout *const *layout;
    struct line line;
    const char *name;  /* name of the operator, or of the composite that built the call */
    uint8_t phase;     /* enum node_phase */
    bool piece;        /* runs once per micro-batch */
    bool accumulate;   /* the result is the sum over the micro-batches, in their order */
    int32_t recompute; /* 1 + index of the recomputed node, whose stage runs this node; its own index if that node is
                          not in the program; 0: not a recomputation */
    const struct strategy *strategy; /* the user's sharding strategy for the call; NULL: none */
    bool asked;                      /* an explicit move of the user; implicit moves bridge differing layouts */
    int32_t again; /* (move that offloads, fetches or gathers again, offload.h) 1 + index of the node in whose stage it
                      runs; never shared with an earlier equal move. 0: not such a move */
};

/* A value that outlives the run. */
struct prog_root {
    struct ref ref;
    int32_t overwrites_leaf; /* leaf whose bytes the root may overwrite (variable update), or -1 */
    bool join;               /* results of the micro-batches, joined along dimension 0 */
};

/* Location of a cluster's devices. Devices first to first + n - 1 of a kind are on host `memory`, dealt to `nslot`
 * threads of that host from thread `slot` on. The processes of a host share segments, so its devices read shards in
 * place, and a host has one plan partition. Ranges do not overlap. The map selects the partition; it changes no bit
 * of a result. */
struct plan_range {
    int32_t kind, first, n, slot, nslot, memory;
};
struct plan_map {
    int32_t nrange, nslot; /* nslot: threads of `memory` */
    int32_t memory;        /* memory whose partition plan_compile() makes */
    struct plan_range *range;
};

/* Limits of a virtual stage, in micro-batches. backward, weight: between forward and the end of backward, or of
 * weight gradients. behind: between backward and the end of weight gradients. hop: results in transit to the stage. */
struct prog_pool {
    int32_t backward, weight, behind, hop;
};
/* Priority rule of a device (stage.c): by micro-batch, or by virtual stage. */
enum prog_rule { RULE_PIECES, RULE_DEEP, RULE_RISING, RULE_BACK, RULE_LEAN, RULE_EVEN, RULE_INNER, RULE_ROUNDS, NRULE };

struct program {
    struct arena arena;
    int32_t nleaf, nnumber, nnode, nroot;
    struct prog_leaf *leaf;
    const struct type **number; /* (weak) type of each number */
    struct prog_node *node;
    struct prog_root *root;
    int32_t pieces; /* micro-batches; 1 if there are none */
    int32_t cut;    /* number of equal shares of dimension 0 of batched values; 0: unequal lengths */
    int32_t lag;    /* lookahead of the schedule's credits; 0: one credit per micro-batch (GPipe) */
    bool split;     /* weight gradients may be delayed, which needs more credits from forward to them (stage.h) */
    int32_t
        npool; /* number of virtual stages with chosen pools (schedule_search.c); 0: pools follow from lag and split */
    struct prog_pool *pool;
    uint8_t rule;               /* enum prog_rule */
    bool fold;                  /* a stage whose results return to its input's devices becomes two stages (stage.c) */
    int32_t threads;            /* most device threads */
    const struct plan_map *map; /* cluster map, outlives the program; NULL: one process */
    bool find_nan;              /* tasks search their results for NaN and infinities; nothing is fused then */
    bool dry_run;               /* the plan is only inspected, never run: devices may be meta */
    int32_t shared_least; /* least bytes of a variable whose replicas share a buffer (shared_update.h); 0: never */
    struct box_cost cost; /* cost model that chooses between direct moves and several hops */
};

void program_free(struct program **p);
/* Returns a copy, owned by the caller. */
struct program *program_copy(const struct program *p);
/* Appends the program to s as canonical bytes: equal programs give equal bytes in any process. Placements and
 * layouts are written by content, operators by name; source lines and names of composites are omitted. */
void program_write(const struct program *p, struct str *s);
/* Reads a program from bytes of any origin, without checking that it is legal: program_read() (verify.h) does. Interns
 * placements and layouts in the atlas. E_PLAN names the byte of the error; *out is then NULL. */
int program_parse(const char *bytes, size_t n, struct atlas *at, struct program **out);
/* Checks that a legal program, written again, yields these bytes: each program has exactly one encoding. E_PLAN. */
int program_check_form(const struct program *p, const char *bytes, size_t n);
/* Returns r, or the value before moves on the same placement that the user did not write. */
struct ref program_source(const struct program *p, struct ref r);
struct type ref_type(const struct program *p, struct ref r);
const struct type *ref_type_of(const struct program *p, struct ref r); /* the stored type */
const struct layout *ref_layout(const struct program *p, struct ref r);
bool ref_varies(const struct program *p, struct ref r); /* differs between micro-batches */
/* Returns the node as a call of its operator on global tensors, in the dtypes held by ranks (layout_dtype). */
struct call *program_call(const struct program *p, const struct prog_node *n, struct arena *a);
/* Returns, by node, whether a result overwrites a leaf. */
bool *program_updates(const struct program *p, struct arena *a);
/* Returns, by node, whether the node validates data. Excludes nodes that repeat an earlier check of the same value
 * (a lookup's gradient after the lookup), so that updates wait for a single check. */
bool *program_checks(const struct program *p, struct arena *a);
/* Returns the value that r is a view of; r itself if it is no view. */
struct ref program_whole(const struct program *p, struct ref r);
/* Returns, by summing node, the sum over micro-batches that is the only reader of its result; the result may then be
 * f32 instead of half precision. -1: none. */
int32_t *program_sums(const struct program *p, struct arena *a);
/* Returns, by node, a bit mask of the results that are sums and are read by sums over micro-batches alone; of half
 * precision, such results are held in f32. */
uint8_t *program_wide(const struct program *p, struct arena *a);
/* Makes those results f32: such a sum is complete only after the sum over micro-batches. */
void program_widen(struct program *p);

/* Limits of one task that computes a chain or group of nodes (fusion.c): members, operands, results. */
enum { FUSE_STEPS = 24, FUSE_INPUTS = 128, FUSE_OUTS = FUSE_STEPS * OP_OUT };
/* Number the hops of result k of member m as operands behind all that the step reads. */
enum { HOP_RESULT = FUSE_INPUTS };
static inline int
hops_result(int m, int k)
{
    return HOP_RESULT + m * OP_OUT + k;
}
/* "operand 2", "result 0" */
static inline void
hops_side_print(int operand, struct str *s)
{
    bool made = operand >= HOP_RESULT;
    str_addf(s, "%s %d", made ? "result" : "operand", made ? operand - HOP_RESULT : operand);
}

#endif
