/* assign.h - layouts for a whole program: from a program to a cost network, solved, and back.
 *
 * A step between tracing and compiling: the operators stay, the layouts in which they read and give change, and with
 * them the moves between. It obeys what the user moved (prog_node.asked), arguments, variables whose layout is fixed
 * and results that must lie as they do; moves that nobody asked for vanish. Everything after (compile, verify, explain)
 * reads the rewritten program alone, and the verifier judges every signature.
 *
 * Costs are whole nanoseconds: what the busiest rank computes, and what moves take; of equals fewer bytes. They depend
 * on the machine model in `rates`, never on the machine. What the program brings again (bring.h) is a move of its own,
 * as often as it acts. Memory is what a plan holds: arguments, variables and results
 * from beginning to end, registers from their writer to their last reader, what was moved from its first reader to its
 * last, but for sums that are owed, which are made right behind their addends (hops_early) if one node reads them;
 * what only the last one reads is gone when that runs, if it was moved for it. Views, and versions written over
 * the old ones, hold nothing, nor does what a chain computes on its way (together.h). The scratch memory of kernels is
 * known when layouts are (plan_scratch). Of a program in pieces, what each piece makes and a later phase reads is there
 * for each piece that is on its way: for one in its time, for the others from the first operator of pieces to the last,
 * as what pieces read that is made once. The program belongs to the caller; one thread. */
#ifndef RILLE_PLAN_ASSIGN_H
#define RILLE_PLAN_ASSIGN_H

#include "actors/plan/program.h"
#include "actors/plan/rates.h"
#include "sbp/certify.h"

/* Mesh axes over which moving costs something else than the program's cost parameters say. */
struct assign_links {
    double alpha_ns[MAX_AXIS], beta_ns_per_byte[MAX_AXIS];
};
struct assign_leaf {
    bool free;       /* its layout is the planner's */
    int32_t follows; /* it lies as this leaf, which is free (an optimiser's state); -1 */
};
struct assign_root {
    int32_t leaf; /* it must lie as this leaf; -1 */
    bool fixed;   /* it must lie as it does */
};
struct assign_least {     /* bytes; 0: nothing is known */
    int64_t bytes, floor; /* the least found; what no choice is below, proved: if they are equal that is the least */
};
struct assign_options {
    enum solve_mode mode;
    struct compute_rates rates;
    const struct assign_links *links; /* NULL: all axes alike */
    const struct assign_leaf *leaf;   /* by leaf */
    const struct assign_root *root;   /* by root */
    int64_t memory_limit;             /* bytes a device; 0: none */
    struct assign_least *least;       /* takes what is told where nothing meets the limit; or NULL */
    const int32_t *known;             /* a choice of such a net, nknown nodes, that may be worth a try, and from which
                                       * "greedy" starts; NULL */
    int32_t nknown;
    int64_t bound; /* no choice within the limit costs less: that is known; 0 */
    bool may_fail; /* as solve.h has it */
    bool quick;    /* as solve.h has it */
    bool searched; /* its schedule is searched for in layouts that are chosen: a value counts as one register */
    bool proof;    /* somebody may want a certificate */
    bool (*stop)(void *arg);
    void *arg;
    /* Asked before "optimal" searches, of what "propagate" and "recursive" choose, as a program that lies so: true:
     * the first such choice is all that is wanted now, and its mode the plan's. NULL: nobody asks. */
    bool (*glance)(void *of, enum solve_mode mode, const struct program *p);
    void *of;
};

/* What one node of the program could have been: layouts of operands (NULL: numbers, absent) and results. */
struct assign_candidate {
    const struct layout *const *layout;
    double share; /* the busiest rank's part of the work */
};
/* What a call that may be made in several operators cost (ways.h) in those rounds that made it so, or in one piece. */
struct assign_call {
    int64_t parts_ns, whole_ns; /* -1: no round did */
    bool parts;                 /* this plan's are */
};
struct assigned {
    struct arena arena;
    enum solve_mode mode;
    struct net net;
    struct solved solved;
    int32_t nprog; /* nodes of the program when the planner saw it; moves to where roots lie may have come after */
    int32_t *node; /* by program node: the net's, -1: it has none */
    int32_t *leaf; /* by leaf */
    int32_t *root; /* by root: the net's node that says where it must lie, -1: nowhere */
    const struct assign_candidate **candidate; /* by net node: ncand; NULL for a leaf's */
    const struct layout *const **form;         /* by net node that computes nothing: its candidates' layouts */
    int64_t **regret, **regret_high;           /* by net node, by candidate; NULL until assign_regret */
    int64_t bytes;                             /* that all moves of the plan send */
    int64_t scratch;                           /* of kernels, beside peak: whoever has a plan says it */
    int64_t time, peak;                        /* of a step, nanoseconds; what a device holds, bytes (predict.h) */
    int64_t held;                              /* by its plan, scratch too, on the fullest device; 0: there is none */
    int64_t search_ns;                         /* of one core: what the search took */
    int32_t ncall;                             /* calls of the program's nodes that whoever traced it tells of */
    const struct assign_call *call;            /* by prog_node.call, from 1 */
    const struct assign_links *links;          /* those of the options; NULL: all axes alike */
};

/* Rewrites p; a failure leaves it as it was. Interns layouts in `at`. E_SBP, E_PLAN ("memory: ..."). */
int assign_layouts(struct program *p, struct atlas *at, const struct assign_options *o, struct assigned **out);
void assigned_free(struct assigned **a);
int assign_regret(struct assigned *a, bool (*stop)(void *arg), void *arg);
/* What moves cost where; one thread. */
struct assign_prices {
    const struct box_cost *cost;
    const struct assign_links *links; /* NULL: all axes alike */
    struct hash_table *known;         /* of box_bytes_known; or NULL */
};
/* Returns what moving t takes, in whole nanoseconds; NET_NEVER: no plan may do it. asked: the user wrote the move, so
 * it may make a partial value of one that is not. *bytes: over all ranks. */
int64_t assign_price(const struct assign_prices *p, const struct type *t, const struct layout *from,
                     const struct layout *to, bool asked, int64_t *bytes);
/* The same for who prices many moves to one layout and knows what a part is there: assign_part(t, to). */
int64_t assign_price_part(const struct assign_prices *p, const struct type *t, const struct layout *from,
                          const struct layout *to, int64_t part, bool asked, int64_t *bytes);
/* What of that price is on the way, nanoseconds: until a message comes; the links, by what all ranks receive. */
double assign_latency(const struct assign_prices *p, const struct layout *from, const struct layout *to);
double assign_sending(const struct assign_prices *p, const struct layout *from, const struct layout *to, int64_t bytes);
/* Bytes of a tensor on the fullest rank; and what they take there as a register, which begins at such an address. */
int64_t assign_part(const struct type *t, const struct layout *l);
int64_t assign_aligned(int64_t part);
int64_t assign_register(const struct type *t, const struct layout *l);
/* Returns the mesh axis of the slowest links over which such a move goes (of equals the first); -1: over none. What
 * comes from another placement goes over those of any axis, also of one device. */
int assign_axis(const struct layout *from, const struct layout *to, const struct assign_links *links);

#endif
