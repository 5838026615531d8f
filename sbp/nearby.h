/* nearby.h - better choices near a choice, under a memory limit (inside sbp/).
 *
 * It solves a neighbourhood in the network - some variables that lie together - anew while the others stay as they are;
 * bytes cost what the Lagrangian says, and more at times that the last try has filled too much. It keeps what is less
 * over the limit than before, or as much and cheaper. Large ones escape what single changes cannot: whole chains move
 * together.
 *
 * Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_NEARBY_H
#define RILLE_SBP_NEARBY_H

#include "sbp/fold.h"
#include "sbp/limit.h"
#include "sbp/solve.h"

struct nearby {
    const struct folded *f;
    struct limit *limit;
    const struct solve_options *o;
    int32_t ntime, *begin, *end; /* by variable: when its nodes take memory */
    int32_t *pick;               /* by variable: the value (index) that it has */
    int64_t *live, *then;        /* by time: bytes; those of what it tries */
    int64_t cost;                /* scaled */
    double over;                 /* bytes over the limit, over all times */
    uint64_t random;
    int64_t work;              /* done */
    int32_t size, most;        /* variables of a neighbourhood; before small ones are tried again */
    int32_t *near, nnear, *at; /* the neighbourhood at hand; by variable: where it stands in it, -1 */
    int32_t *tried;            /* by place in it: the value that it tries; and, further on, the value now */
    int64_t *price, *sum, **extra;
    struct arena arena;
};
/* From a candidate for each variable of f. */
void nearby_begin(struct nearby *w, const struct folded *f, struct limit *m, const struct solve_options *o);
void nearby_set(struct nearby *w, const int32_t *candidate);
void nearby_end(struct nearby *w);
/* Tries neighbourhoods until that was so much work (explore.h). True when it kept something better. */
bool nearby_look(struct nearby *w, int64_t work);
/* The candidates of the variables. */
void nearby_get(const struct nearby *w, int32_t *candidate);

#endif
