/* solve.h - the best choice of a net, or a choice and how far from the best it can be.
 *
 * "optimal" is exact: reductions, a dual bound with solutions on the way, values that the bound rules out, and
 * branching on what is left (reduce.h, dual.h). It always returns a choice and a bound; where nothing stopped it they
 * are equal. "propagate" goes outward from what it has decided, each node by the least conversion to decided
 * neighbours; "recursive" decides one mesh axis after the other, heavy nodes first (MindSpore's double recursion: Cai
 * et al. 2021); "greedy" keeps the choice that it starts from, but for nodes that make it impossible, and so do those
 * two where they end with none; where it has none either the other rules are asked, and the exact search last. A memory
 * limit has prices: each time's bytes cost what a Lagrangian says, so the bound holds under the limit. There converted
 * copies are nodes of their own, so that bytes that depend on several choices have their price too.
 *
 * Pure and deterministic, unless stop() ended it and does not count (work.h). One call, one thread. */
#ifndef RILLE_SBP_SOLVE_H
#define RILLE_SBP_SOLVE_H

#include "runtime/str.h"
#include "sbp/net.h"

enum solve_mode { SOLVE_GREEDY, SOLVE_PROPAGATE, SOLVE_RECURSIVE, SOLVE_OPTIMAL, NSOLVE };

struct solve_options {
    enum solve_mode mode;
    const int32_t *start;    /* a choice to start from; NULL: none is known */
    const int32_t *other;    /* another one, which "optimal" tries too; NULL */
    bool (*stop)(void *arg); /* the search asks now and then: true ends it; NULL: never */
    void *arg;
    bool may_fail; /* under a limit: a choice is known elsewhere; stop() is asked before one is found here */
    bool quick; /* "optimal" under a limit: what is found at once (squeeze.h); stop() then knows no clock. Where that is
                 * too much, and the net is small, the least of all is looked for */
    int64_t until;  /* under a limit: it ends when so much is counted (work.h); 0: never */
    int64_t within; /* under a limit: bytes above it with which a choice is good enough; 0: the limit */
    bool proof;     /* write a certificate's steps */
};
struct solved {
    int32_t
        *choice; /* a candidate for each node, and after them of those that `net` has more; NULL: none is possible */
    const struct net
        *net;            /* what was solved: the net itself or, under a memory limit, with copies as nodes (copies.h) */
    int64_t cost, bound; /* bound <= the least possible <= cost */
    int64_t peak;        /* the most bytes at one time; where nothing meets the limit, the least such that was found */
    int64_t floor;       /* where nothing meets the limit: bytes that every choice has at one time, proved */
    /* What a certificate says (certify.h); with options.proof, and under a memory limit after net_prove. */
    struct str proof;  /* the steps from which `certified` follows; the caller's to free */
    int64_t certified; /* <= bound: the proof lacks what branching under a memory limit found */
    bool owed;         /* the proof is still to be made */
    int64_t scale;     /* of the costs in the proof */
    int32_t ntime;     /* times at which it counts bytes */
    int64_t *price;    /* by time: of a byte (limit.h); NULL without a limit that matters */
};
/* E_PLAN: the net is none, no choice is possible, stop() came before one was found, or the search found none that meets
 * the memory limit - the text ends with the least peak that it found, and says whether no lower one is possible, or
 * what is proved of it. */
int net_solve(struct arena *a, const struct net *n, const struct solve_options *o, struct solved *out);

/* Makes the proof that a certificate needs, if it is owed: seconds for a large net. */
void net_prove(struct arena *a, struct solved *s);

/* Of a choice by "propagate": follows takes, by node, the neighbour decided before it that it agrees with - one that
 * pays for no conversion, of these the one that would have paid most had the node chosen otherwise - or itself. */
void net_follows(const struct net *n, const int32_t *choice, int32_t *follows);

/* How much worse the whole would be if a node took another candidate: of the best such plan, at least low[node][k] and
 * at most high[node][k] more than s->cost (0 for what s chose; NET_NEVER: not possible). low and high are arrays by
 * node of arrays by candidate, the caller's. First by the dual, for all; then exactly, node by node, until stop(). */
int net_regret(const struct net *n, const struct solved *s, bool (*stop)(void *arg), void *arg, int64_t *const *low,
               int64_t *const *high);

#endif
