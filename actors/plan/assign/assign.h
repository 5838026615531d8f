/* assign.h - layout planner: converts a program to a cost network, solves the network, and writes the chosen layouts
 * back.
 *
 * The layout planner runs between tracing and compiling. The pass keeps all operators; it changes the layouts of
 * their operands and results, and the moves between operators. It also keeps explicit moves of the user
 * (prog_node.asked), arguments, variables with a fixed layout, and results with a required layout. Implicit moves
 * are removed, and inserted again where the chosen layouts differ. All later passes (compile, verify, explain) read
 * the rewritten program alone, and the verifier checks every signature.
 *
 * A cost is the compute time of the busiest rank plus the time of moves, in whole nanoseconds. Of two choices with
 * equal cost, the planner prefers the one with fewer bytes. Costs are computed from the machine model in `rates`,
 * not measured. A value that is fetched or gathered again (offload.h) has a separate move, which runs at each act of
 * its reader.
 *
 * Memory is counted as in the compiled plan. Arguments, variables and results hold bytes for the whole step. A
 * register holds bytes from its writer to its last reader, a converted copy from its first reader to its last
 * reader. A pending reduction with a single reader is completed directly after the addends are computed
 * (hops_early). If a value is converted only for its last reader, the value is freed before that reader runs. Views,
 * versions written over old ones, and intermediate values of a chain (fusion_groups.h) hold no bytes. Scratch memory
 * of kernels is computed after layouts are chosen (plan_scratch). With micro-batches, a value made per micro-batch
 * and read in a later phase is held once per micro-batch in flight: one copy is counted during the value's lifetime,
 * and the other copies from the first to the last operator that runs per micro-batch. A value made once and read by
 * all micro-batches is also counted from the first to the last operator that runs per micro-batch. The program
 * belongs to the caller; one thread. */
#ifndef RILLE_PLAN_ASSIGN_H
#define RILLE_PLAN_ASSIGN_H

#include "actors/plan/model/program.h"
#include "actors/plan/model/rates.h"
#include "sbp/solve/certify.h"

/* Cost parameters of moves by mesh axis, which replace the cost parameters of the program. */
struct assign_links {
    double alpha_ns[MAX_AXIS], beta_ns_per_byte[MAX_AXIS];
};
struct assign_leaf {
    bool free; /* true: the planner chooses the layout */
    /* another free leaf whose layout this leaf must have, too, as optimiser state has that of its parameter; -1:
     * none */
    int32_t follows;
};
struct assign_root {
    int32_t leaf; /* leaf whose layout the root must have; -1: none */
    bool fixed;   /* true: the root must keep its traced layout */
};
struct assign_least { /* least memory that a plan needs per device, bytes; 0: unknown */
    /* bytes: least memory of any plan that was found; floor: proven lower bound of the memory of any plan */
    int64_t bytes, floor;
};
struct assign_options {
    enum solve_mode mode;
    struct compute_rates rates;
    const struct assign_links *links; /* NULL: equal costs on all axes */
    const struct assign_leaf *leaf;   /* by leaf: constraints on its layout */
    const struct assign_root *root;   /* by root: constraints on its layout */
    int64_t memory_limit;             /* memory limit per device, bytes; 0: no limit */
    struct assign_least *least;       /* out: the least memory, if no choice meets the limit; may be NULL */
    /* choice for an equal net that was found earlier; NULL: none. nknown: number of net nodes in it. The search
     * tries this choice, too, and mode "greedy" starts from it */
    const int32_t *known;
    int32_t nknown;
    int64_t bound; /* proven lower bound of the cost of any choice within the memory limit; 0: unknown */
    bool quick;    /* true: stop the search at the first choices found (options.h, `quick`) */
    /* true: a schedule search follows and determines the numbers of registers, so the planner counts one register
     * per value */
    bool searched;
    bool proof; /* true: keep the data from which a proof of optimality (certificate) is made */
    bool (*stop)(void *arg);
    void *arg;
};

/* A candidate of a program node: the layouts of its operands and results. The layout is NULL for an operand that is
 * a number or absent. */
struct assign_candidate {
    const struct layout *const *layout;
    double share; /* work of the busiest rank as a share of the node's work, 0 to 1 */
};
struct assigned {
    struct arena arena;
    enum solve_mode mode;
    struct net net;
    struct solved solved;
    /* number of program nodes before planning; the planner may append moves to the required layouts of roots */
    int32_t nprog;
    int32_t *node; /* by program node: its net node; -1: none */
    int32_t *leaf; /* by leaf: its net node */
    int32_t *root; /* by root: net node that reads the root in its required layout; -1: any layout is allowed */
    const struct assign_candidate **candidate; /* by net node: candidates; NULL for a leaf */
    /* by net node that only chooses a layout: the layouts among which the node chooses */
    const struct layout *const **form;
    /* Regret of a candidate: extra cost of the best plan with it. By net node and candidate: regret: lower bound,
     * regret_high: upper bound, ns. NULL before assign_regret() */
    int64_t **regret, **regret_high;
    int64_t bytes;      /* bytes sent by all moves */
    int64_t scratch;    /* scratch memory of kernels, bytes, not included in `peak`; set by the plan's owner */
    int64_t time, peak; /* predicted time of a step, ns; predicted peak of bytes on the fullest device (predict.h) */
    /* bytes that the compiled plan holds on the fullest device, with scratch memory; 0: not compiled */
    int64_t held;
    int64_t search_ns;                /* time of the search on one core, ns */
    const struct assign_links *links; /* copy of the options' links; NULL: equal costs on all axes */
};

/* Chooses layouts and rewrites p; on failure p is unchanged. Interns layouts in `at`. E_SBP: no legal choice.
 * E_PLAN ("memory: ..."): no choice found within the memory limit. */
int assign_layouts(struct program *p, struct atlas *at, const struct assign_options *o, struct assigned **out);
void assigned_free(struct assigned **a);
/* Computes the regrets of all candidates: the extra cost of the best plan that has the candidate instead of the
 * chosen one. If stop(arg) returns true, ends early, with wider bounds. */
int assign_regret(struct assigned *a, bool (*stop)(void *arg), void *arg);
/* Cost model of moves. Not thread-safe, because each query may add an entry to the cache `known`. */
struct assign_prices {
    const struct box_cost *cost;
    const struct assign_links *links; /* NULL: equal costs on all axes */
    struct hash_table *known;         /* cache of box_bytes_known(); NULL: none */
};

struct planner;
struct value;

/* Returns the value that node i reads. */
struct value *planner_source(struct planner *w, int32_t i);

#endif
