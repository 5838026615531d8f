/* explore.h - branch and bound on a cost function network: reduce, bound, prune, branch (inside sbp/).
 *
 * The search ends when no solution better than the best known one is left, or when stop() returns true. One owner,
 * one thread. */
#ifndef RILLE_SBP_EXPLORE_H
#define RILLE_SBP_EXPLORE_H

#include "sbp/net/trail.h"

struct explore {
    bool (*stop)(void *arg); /* ends the search when it returns true; NULL: never */
    void *arg;
    struct trail trail; /* record of the steps; with a text if a proof is needed */
    int64_t scale;      /* a number that divides every solution's cost; 1: nothing is known */
    int64_t best;       /* cost of the best known solution; NET_NEVER: none */
    int32_t nchoice;    /* number of variables in `choice`: the first nchoice variables of the network */
    int32_t *choice;    /* by variable: candidate in the best known solution; updated at each improvement */
    /* Called between bounding rounds with the work of the last round. Returns true if it has found a better solution
     * and stored it in best and choice. NULL: not called. */
    bool (*better)(struct explore *s, int64_t work);
    void *of;  /* argument of better() */
    bool root; /* true: bounds only, without branching */
    /* number of bounding rounds without much gain after which the search branches or ends; 0: the default */
    int32_t patience;
    int32_t looks; /* maximum number of bounding rounds; 0: unlimited */
    int32_t nlook;
    bool stopped;
    int64_t work;   /* counted work: approximate number of costs read, which is the same on every machine */
    int32_t *value; /* work space: the value of each variable */
};
/* Searches network c, and shrinks it. Returns a lower bound on the cost of the network's solutions; s->best if no
 * solution is cheaper. */
int64_t explore(struct explore *s, struct cfn *c);

#endif
