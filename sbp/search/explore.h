/* explore.h - branch and bound on a cost function network: reduce, bound, prune, branch (inside sbp/).
 *
 * The search ends when no solution better than the best known one is left, or when stop() returns true. One owner,
 * one thread. */
#ifndef RILLE_SBP_EXPLORE_H
#define RILLE_SBP_EXPLORE_H

#include "sbp/net/trail.h"

struct explore {
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
    struct trail trail; /* trail; with text if a proof is wanted */
    int64_t scale;      /* every solution's cost is a multiple of this; 1: arbitrary costs */
    int64_t best;       /* cost of the best solution known; NET_NEVER: none */
    int32_t nchoice;    /* number of leading variables that have a candidate in `choice` */
    int32_t *choice;    /* their candidates in the best solution; written at each improvement */
    /* Called between bounding rounds with the work of the last round. Returns true if it has put a better solution
     * into best and choice. NULL: not called. */
    bool (*better)(struct explore *s, int64_t work);
    void *of;         /* context of better() */
    bool root;        /* bound only, without branching */
    int32_t patience; /* bounding rounds without much gain before the search branches or ends; 0: the default */
    int32_t looks;    /* maximum number of bounding rounds; 0: unlimited */
    int32_t nlook;
    bool stopped;
    int64_t work;   /* approximate number of costs read: the same on every machine */
    int32_t *value; /* by variable: scratch */
};
/* Searches c, which shrinks. Returns a lower bound on the cost of its solutions; s->best if none is cheaper. */
int64_t explore(struct explore *s, struct cfn *c);

#endif
