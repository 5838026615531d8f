/* solve.h - solves a net: the optimal choice, or a choice and a bound on its distance from the optimum.
 *
 * SOLVE_OPTIMAL is exact. The search uses reductions, a dual bound (which also yields solutions), pruning by the
 * bound, and branching (reduce.h, dual.h). It returns a choice and a lower bound. The choice's cost equals the bound
 * unless the search was stopped. SOLVE_PROPAGATE proceeds outward from nodes with one candidate; each node minimises
 * conversions to neighbours that are decided. SOLVE_RECURSIVE decides one mesh axis after the other, heavy nodes
 * first (MindSpore's double recursion: Cai et al. 2021). SOLVE_GREEDY keeps the start choice, except for nodes that
 * make it impossible. The last three modes fall back to the start choice, then to the other rules, and finally to
 * the exact search.
 *
 * Under a memory limit the search is not exact: it returns a choice within the limit (squeeze.h) and a bound
 * (limited.h), or the least peak found. With `quick`, the search finds a choice for every limit from that peak on.
 *
 * Pure and deterministic, unless stop() depends on something other than counted work (work.h). One call, one thread. */
#ifndef RILLE_SBP_SOLVE_H
#define RILLE_SBP_SOLVE_H

#include "runtime/data/str.h"
#include "sbp/net/options.h"
#include "sbp/search/local.h"

struct solved {
    int32_t *choice;       /* by node: the node's candidate; NULL: no choice is possible */
    const struct net *net; /* the net that was solved */
    int64_t cost, bound;   /* bounds on the optimum: bound <= optimum <= cost */
    int64_t peak;          /* largest number of live bytes; without a choice within the limit: the least peak found */
    int64_t floor;         /* without a choice within the limit: a lower bound on the peak of every choice */
    /* Content of a certificate (certify.h). Filled in with options.proof; with a memory limit, only after
     * net_prove(). */
    struct str proof; /* steps that prove the bound `certified`; the caller frees it */
    /* bound that the certificate proves; at most `bound`, because the proof ends before the search does */
    int64_t certified;
    bool owed;      /* true: the proof has not been made yet (net_prove()) */
    int64_t scale;  /* factor by which costs are multiplied in the proof */
    int32_t ntime;  /* number of times at which the proof counts bytes */
    int64_t *price; /* by time: price of a byte (limit.h); NULL: no limit, or one that every choice meets */
};
/* Returns true if the caller's function stop() ends the search. */
bool solve_stops(const struct solve_options *o);
/* Solves a net. E_PLAN: the net is invalid, no choice is possible, stop() ended the search before the first choice,
 * or no choice within the memory limit was found. In the last case the text ends with the least peak found, and
 * gives a lower bound on every peak. */
int net_solve(struct arena *a, const struct net *n, const struct solve_options *o, struct solved *out);

/* Makes the proof for a certificate, unless it was made before. Takes seconds for a large net. */
void net_prove(struct arena *a, struct solved *s);

/* Computes the regrets. The best plan with candidate k of a node costs at least low[node][k] and at most
 * high[node][k] more than s->cost; 0: s chose the candidate; NET_NEVER: impossible. The caller owns low and high.
 * First bounds all regrets by the dual, then computes them exactly, node by node, until stop() returns true. */
int net_regret(const struct net *n, const struct solved *s, bool (*stop)(void *arg), void *arg, int64_t *const *low,
               int64_t *const *high);

#endif
