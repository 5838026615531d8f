/* assign.h - layout planner: converts a program to a cost network, solves the network, and writes the chosen layouts
 * back.
 *
 * The layout planner runs between tracing and compiling. Operators stay; the layouts of their operands and results
 * change, and so do the moves between them. Fixed are explicit moves of the user (prog_node.asked), arguments,
 * variables with a fixed layout, and results with a required layout. Implicit moves are removed. All later passes
 * (compile, verify, explain) read the rewritten program alone, and the verifier checks every signature.
 *
 * Costs are whole nanoseconds: compute time of the busiest rank plus time of moves. Of equal costs, the planner
 * prefers fewer bytes. Costs depend on the machine model in `rates`, never on the machine itself. A value that is
 * fetched or gathered again (offload.h) has a move of its own, which runs once per act.
 *
 * Memory is counted as in the compiled plan. Arguments, variables and results hold bytes for the whole step.
 * Registers hold bytes from the writer to the last reader. A converted copy holds bytes from its first reader to its
 * last. A pending reduction with a single reader is completed directly after the addends are computed (hops_early).
 * If a value is converted only for its last reader, the value is freed before that reader runs. Views, versions
 * written over old ones, and intermediate values of a chain (fusion_groups.h) hold no bytes. Kernel scratch is
 * computed once layouts are chosen (plan_scratch). With micro-batches, a value made per micro-batch and read in a
 * later phase is held once per micro-batch in flight. One copy is counted during the value's lifetime, the other
 * copies from the first to the last operator that runs per micro-batch. A value made once and read by all
 * micro-batches is also counted from the first to the last operator that runs per micro-batch. The program belongs
 * to the caller; one thread. */
#ifndef RILLE_PLAN_ASSIGN_H
#define RILLE_PLAN_ASSIGN_H

#include "actors/plan/model/program.h"
#include "actors/plan/model/rates.h"
#include "sbp/solve/certify.h"

/* Costs of moves by mesh axis, used instead of the program's cost parameters. */
struct assign_links {
    double alpha_ns[MAX_AXIS], beta_ns_per_byte[MAX_AXIS];
};
struct assign_leaf {
    bool free;       /* layout chosen by the planner */
    int32_t follows; /* free leaf that must get the same layout, as optimiser state follows its parameter; -1: none */
};
struct assign_root {
    int32_t leaf; /* leaf whose layout the root must have; -1: none */
    bool fixed;   /* the root must keep its present layout */
};
struct assign_least {     /* least memory that a plan needs per device, bytes; 0: unknown */
    int64_t bytes, floor; /* least memory of any plan found; proven lower bound; if both are equal, the minimum */
};
struct assign_options {
    enum solve_mode mode;
    struct compute_rates rates;
    const struct assign_links *links; /* NULL: equal costs on all axes */
    const struct assign_leaf *leaf;   /* by leaf */
    const struct assign_root *root;   /* by root */
    int64_t memory_limit;             /* memory limit per device, bytes; 0: no limit */
    struct assign_least *least;       /* filled if no choice meets the limit; may be NULL */
    /* choice found for an equal net with nknown nodes: an additional candidate, and the start of mode "greedy";
     * NULL: none */
    const int32_t *known;
    int32_t nknown;
    int64_t bound; /* proven lower bound of the cost of any choice within the memory limit; 0: unknown */
    bool quick;    /* search for less time, as `quick` in sbp/net/options.h */
    bool searched; /* a schedule search follows, so a value counts as one register for now */
    bool proof;    /* keep the data from which a certificate is made */
    bool (*stop)(void *arg);
    void *arg;
};

/* A candidate of a program node: layouts of operands and results; NULL for operands that are numbers or absent. */
struct assign_candidate {
    const struct layout *const *layout;
    double share; /* fraction of the work done by the busiest rank */
};
struct assigned {
    struct arena arena;
    enum solve_mode mode;
    struct net net;
    struct solved solved;
    /* number of program nodes that the planner read; moves to layouts of roots may be appended to the program */
    int32_t nprog;
    int32_t *node; /* by program node: net node; -1: none */
    int32_t *leaf; /* by leaf: net node */
    int32_t *root; /* by root: net node that stands for its required layout; -1: any layout is allowed */
    const struct assign_candidate **candidate; /* by net node: candidates; NULL for a leaf */
    const struct layout *const **form;         /* by net node that computes nothing: layout of each of its candidates */
    /* by net node, by candidate: lower and upper bound of the regret; NULL until assign_regret() */
    int64_t **regret, **regret_high;
    int64_t bytes;      /* bytes sent by all moves */
    int64_t scratch;    /* scratch bytes of kernels, in addition to peak; set by the owner of a plan */
    int64_t time, peak; /* predicted time of a step, ns; predicted peak bytes on the fullest device (predict.h) */
    int64_t held;       /* bytes held by the compiled plan on the fullest device, with scratch; 0: not compiled */
    int64_t search_ns;  /* search time on one core, ns */
    const struct assign_links *links; /* copy of the options' links; NULL: equal costs on all axes */
};

/* Rewrites p; on failure p is unchanged. Interns layouts in `at`. E_SBP, E_PLAN ("memory: ..."). */
int assign_layouts(struct program *p, struct atlas *at, const struct assign_options *o, struct assigned **out);
void assigned_free(struct assigned **a);
int assign_regret(struct assigned *a, bool (*stop)(void *arg), void *arg);
/* Cost model of moves; one thread. */
struct assign_prices {
    const struct box_cost *cost;
    const struct assign_links *links; /* NULL: equal costs on all axes */
    struct hash_table *known;         /* cache of box_bytes_known; or NULL */
};
/* Returns the time of moving a tensor of type t, in whole nanoseconds; NET_NEVER: the move is not allowed. asked: an
 * explicit move of the user, which may make a value partial. *bytes: sent bytes, summed over the ranks. */
int64_t assign_price(const struct assign_prices *p, const struct type *t, const struct layout *from,
                     const struct layout *to, bool asked, int64_t *bytes);
/* Does the same as assign_price(), for callers that already know the shard size part = assign_part(t, to). */
int64_t assign_price_part(const struct assign_prices *p, const struct type *t, const struct layout *from,
                          const struct layout *to, int64_t part, bool asked, int64_t *bytes);
/* Return two addends of assign_price() in ns: the latency, and the transfer time. bytes: received by all ranks
 * together. */
double assign_latency(const struct assign_prices *p, const struct layout *from, const struct layout *to);
double assign_sending(const struct assign_prices *p, const struct layout *from, const struct layout *to, int64_t bytes);
/* Return sizes in bytes: of the largest shard (assign_part); of `part` rounded up to the alignment of registers
 * (assign_aligned); of a register for the largest shard (assign_register). */
int64_t assign_part(const struct type *t, const struct layout *l);
int64_t assign_aligned(int64_t part);
int64_t assign_register(const struct type *t, const struct layout *l);
/* Returns the mesh axis with the slowest links among those that the move uses, the first of equals; -1: none. A move
 * from another placement uses all axes, including axes of size 1. */
int assign_axis(const struct layout *from, const struct layout *to, const struct assign_links *links);

#endif
