/* solve.h - solves a net: the optimal choice, or a choice and a bound on its distance from the optimum.
 *
 * SOLVE_OPTIMAL is exact: reductions, a dual bound that yields solutions on the way, pruning by the bound, and
 * branching (reduce.h, dual.h). It returns a choice and a bound, which are equal unless the search was stopped.
 * SOLVE_PROPAGATE proceeds outward from decided nodes; each node minimises conversions to decided neighbours.
 * SOLVE_RECURSIVE decides one mesh axis after the other, heavy nodes first (MindSpore's double recursion: Cai et al.
 * 2021). SOLVE_GREEDY keeps the start choice, except for nodes that make it impossible. The last three modes fall
 * back to the start choice, then to the other rules, and finally to the exact search.
 *
 * Under a memory limit the search is not exact: it returns a choice within the limit (squeeze.h) and a bound
 * (limited.h), or the least peak found. With `quick` every limit from that peak on is met.
 *
 * Pure and deterministic, unless stop() depends on something other than counted work (work.h). One call, one thread. */
#ifndef RILLE_SBP_SOLVE_H
#define RILLE_SBP_SOLVE_H

#include "runtime/base/str.h"
#include "sbp/net/options.h"
#include "sbp/search/local.h"

struct solved {
    int32_t *choice;       /* by node: its candidate; NULL: no choice is possible */
    const struct net *net; /* the solved net */
    int64_t cost, bound;   /* bound <= optimum <= cost */
    int64_t peak;          /* maximum of live bytes; if no choice was found within the limit, the least maximum found */
    int64_t floor;         /* if no choice was found within the limit: a lower bound on the peak of every choice */
    /* Content of a certificate (certify.h); with options.proof, and under a memory limit after net_prove. */
    struct str proof;  /* steps that prove `certified`; the caller frees it */
    int64_t certified; /* <= bound: the proof ends sooner than the search */
    bool owed;         /* the proof has not been made yet */
    int64_t scale;     /* factor of the costs in the proof */
    int32_t ntime;     /* number of times at which the proof counts bytes */
    int64_t *price;    /* by time: price of a byte (limit.h); NULL without an effective limit */
};
/* Solves a net. E_PLAN: the net is invalid, no choice is possible, stop() came before the first choice, or no choice
 * that meets the memory limit was found. The text of the last error ends with the least peak found, and gives a lower
 * bound on every peak. */
int net_solve(struct arena *a, const struct net *n, const struct solve_options *o, struct solved *out);

/* Makes the proof for a certificate if it has not been made yet: seconds for a large net. */
void net_prove(struct arena *a, struct solved *s);

/* Fills the regrets: the best plan with candidate k of a node costs at least low[node][k] and at most high[node][k]
 * more than s->cost (0: chosen by s; NET_NEVER: impossible). low and high are the caller's, by node, by candidate.
 * First bounds all by the dual, then solves node by node exactly, until stop(). */
int net_regret(const struct net *n, const struct solved *s, bool (*stop)(void *arg), void *arg, int64_t *const *low,
               int64_t *const *high);

#endif
