/* assign.h - layout planner: converts a program to a cost network, solves it, and writes the chosen layouts back.
 *
 * Runs between tracing and compiling. Operators stay; their operand and result layouts change, and with them the
 * moves between. Fixed are: explicit moves of the user (prog_node.asked), arguments, variables with a fixed layout,
 * and results with a required layout. Implicit moves vanish. All later passes (compile, verify, explain) read the
 * rewritten program alone, and the verifier checks every signature.
 *
 * Costs are whole nanoseconds: compute time of the busiest rank plus time of moves; ties prefer fewer bytes. Costs
 * depend on the machine model in `rates`, never on the machine itself. A value that is fetched or gathered again
 * (offload.h) is a move of its own, once per act.
 *
 * Memory is what the plan holds. Arguments, variables and results: the whole step. Registers: from writer to last
 * reader. A converted copy: from its first reader to its last; a pending reduction with a single reader is completed
 * directly behind its addends (hops_early). A value that was converted for its only last reader is freed before that
 * reader runs. Views, versions written over old ones, and intermediate values of a chain (fusion_groups.h) hold
 * nothing. Kernel scratch is known after the layouts are (plan_scratch). With micro-batches, a value made per
 * micro-batch and read in a later phase is held once per micro-batch in flight: for one of these during the value's
 * lifetime, for the others from the first to the last operator that runs per micro-batch. Values made once and read by
 * micro-batches are held that long, too. The program belongs to the caller; one thread. */
#ifndef RILLE_PLAN_ASSIGN_H
#define RILLE_PLAN_ASSIGN_H

#include "actors/plan/model/program.h"
#include "actors/plan/model/rates.h"
#include "sbp/solve/certify.h"

/* Costs of moves by mesh axis, in place of the program's cost parameters. */
struct assign_links {
    double alpha_ns[MAX_AXIS], beta_ns_per_byte[MAX_AXIS];
};
struct assign_leaf {
    bool free;       /* layout chosen by the planner */
    int32_t follows; /* free leaf with the same layout (optimiser state follows its parameter); -1: none */
};
struct assign_root {
    int32_t leaf; /* leaf whose layout it must have; -1: none */
    bool fixed;   /* the present layout is required */
};
struct assign_least {     /* bytes; 0: unknown */
    int64_t bytes, floor; /* least memory found; proven lower bound (equal: the minimum) */
};
struct assign_options {
    enum solve_mode mode;
    struct compute_rates rates;
    const struct assign_links *links; /* NULL: equal costs on all axes */
    const struct assign_leaf *leaf;   /* by leaf */
    const struct assign_root *root;   /* by root */
    int64_t memory_limit;             /* bytes per device; 0: none */
    struct assign_least *least;       /* filled if no choice meets the limit; may be NULL */
    const int32_t *known; /* choice of an equal net, nknown nodes: a candidate, and the start of "greedy"; NULL: none */
    int32_t nknown;
    int64_t bound; /* proven lower bound of the cost within the limit; 0: unknown */
    bool quick;    /* see solve.h */
    bool searched; /* the schedule is searched after the layouts; a value counts as one register */
    bool proof;    /* keep data for a certificate */
    bool (*stop)(void *arg);
    void *arg;
};

/* A candidate of a program node: layouts of operands (NULL: numbers, absent) and results. */
struct assign_candidate {
    const struct layout *const *layout;
    double share; /* fraction of the work done by the busiest rank */
};
struct assigned {
    struct arena arena;
    enum solve_mode mode;
    struct net net;
    struct solved solved;
    int32_t nprog; /* program nodes seen by the planner; moves to roots' layouts may follow */
    int32_t *node; /* by program node: net node; -1: none */
    int32_t *leaf; /* by leaf: net node */
    int32_t *root; /* by root: net node of its required layout; -1: any layout */
    const struct assign_candidate **candidate; /* by net node: candidates; NULL for a leaf */
    const struct layout *const **form;         /* by net node that computes nothing: layouts of its candidates */
    int64_t **regret, **regret_high; /* by net node, by candidate: bounds of the regret; NULL until assign_regret */
    int64_t bytes;                   /* bytes sent by all moves */
    int64_t scratch;                 /* scratch bytes of kernels, in addition to peak; set by the owner of a plan */
    int64_t time, peak;              /* predicted time of a step, ns; bytes held by a device (predict.h) */
    int64_t held;      /* bytes held by the compiled plan on the fullest device, with scratch; 0: not compiled */
    int64_t search_ns; /* search time on one core, ns */
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
/* Returns the time of moving t, in whole nanoseconds; NET_NEVER: not allowed. asked: an explicit move of the user,
 * which may make a value partial. *bytes: sent bytes, summed over the ranks. */
int64_t assign_price(const struct assign_prices *p, const struct type *t, const struct layout *from,
                     const struct layout *to, bool asked, int64_t *bytes);
/* As assign_price, for callers that already know the shard size part = assign_part(t, to). */
int64_t assign_price_part(const struct assign_prices *p, const struct type *t, const struct layout *from,
                          const struct layout *to, int64_t part, bool asked, int64_t *bytes);
/* Returns the latency, or the transfer time, in that price; nanoseconds. bytes: received by all ranks. */
double assign_latency(const struct assign_prices *p, const struct layout *from, const struct layout *to);
double assign_sending(const struct assign_prices *p, const struct layout *from, const struct layout *to, int64_t bytes);
/* Return the bytes of the largest shard; a size rounded up to register alignment; the rounded size of that shard. */
int64_t assign_part(const struct type *t, const struct layout *l);
int64_t assign_aligned(int64_t part);
int64_t assign_register(const struct type *t, const struct layout *l);
/* Returns the mesh axis with the slowest links that the move uses (of equals the first); -1: none. A move from
 * another placement uses all axes, including axes of size 1. */
int assign_axis(const struct layout *from, const struct layout *to, const struct assign_links *links);

#endif
