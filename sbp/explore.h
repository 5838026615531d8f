/* explore.h - one search of a cost function network: reduce, bound, rule out, branch (inside sbp/).
 *
 * It ends when nothing better than the best solution known is left, or when stop() says so. One owner, one thread. */
#ifndef RILLE_SBP_EXPLORE_H
#define RILLE_SBP_EXPLORE_H

#include "sbp/trail.h"

struct explore {
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
    struct trail trail; /* with text, if somebody wants a proof */
    int64_t scale;      /* solutions cost multiples of it; 1: any number */
    int64_t best;       /* cost of the best solution known; NET_NEVER: none */
    int32_t nchoice;    /* how many variables have a candidate in it: the first ones */
    int32_t *choice;    /* their candidates; it writes them whenever it finds a better one */
    /* The search asks it between looks at the bound, with as much work as the last took: true when it put a better
     * solution into best and choice. NULL: the search asks nobody. */
    bool (*better)(struct explore *s, int64_t work);
    void *of;         /* its own */
    bool root;        /* bound it and no more: no branching */
    int32_t patience; /* looks at the bound without much gain before it gives up; 0: a few */
    int32_t looks;    /* in all; 0: as many as it takes */
    int32_t nlook;
    bool stopped;
    int64_t work;   /* how many costs it looked at, about: the same on every machine */
    int32_t *value; /* by variable: scratch */
};
/* A lower bound on what solutions cost; s->best when there is none below it. c becomes smaller. */
int64_t explore(struct explore *s, struct cfn *c);

#endif
