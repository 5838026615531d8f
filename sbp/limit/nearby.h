/* nearby.h - large neighbourhood search under a memory limit (inside sbp/).
 *
 * Solves a neighbourhood (some connected variables of the network) again while the others stay fixed. Bytes have
 * their Lagrangian prices, and higher ones at times that the last attempt overfilled. A result is kept if its excess
 * over the limit is smaller, or equal at lower cost. Large neighbourhoods escape local optima of single changes,
 * because whole chains move together.
 *
 * Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_NEARBY_H
#define RILLE_SBP_NEARBY_H

#include "sbp/net/fold.h"
#include "sbp/limit/limit.h"
#include "sbp/net/options.h"

struct nearby {
    const struct folded *f;
    struct limit *limit;
    const struct solve_options *o;
    int32_t ntime, *begin, *end; /* by variable: live range of its nodes' bytes */
    int32_t *pick;               /* by variable: index of its current value */
    int64_t *live, *then;        /* by time: bytes of the current choice; bytes of the attempt */
    int64_t cost;                /* cost of the current choice, scaled */
    double over;                 /* excess over the limit, in bytes, summed over times */
    uint64_t random;
    int64_t work;              /* work done so far */
    int32_t size, most;        /* variables per neighbourhood; size at which it restarts small */
    int32_t *near, nnear, *at; /* the current neighbourhood; by variable: position in `near`, or -1 */
    int32_t *tried;            /* by position in `near`: attempted value, followed by the current values */
    int64_t *price, *sum, **extra;
    struct arena arena;
};
/* Starts from a candidate for each variable of f. */
void nearby_begin(struct nearby *w, const struct folded *f, struct limit *m, const struct solve_options *o);
void nearby_set(struct nearby *w, const int32_t *candidate);
void nearby_end(struct nearby *w);
/* Tries neighbourhoods until `work` is spent (explore.h). Returns true if a better choice was kept. */
bool nearby_look(struct nearby *w, int64_t work);
/* Writes the candidates of the current choice. */
void nearby_get(const struct nearby *w, int32_t *candidate);

#endif
