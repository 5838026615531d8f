/* explore.h - one search of a cost function network: reduce, bound, rule out, branch (inside sbp/).
 *
 * Ends when nothing better than the best solution known is left, or when it is told to. One owner, one thread. */
#ifndef RILLE_SBP_EXPLORE_H
#define RILLE_SBP_EXPLORE_H

#include "sbp/trail.h"

struct explore {
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
    struct trail trail; /* with text, if a proof is wanted */
    int64_t scale;      /* solutions cost multiples of it; 1: any number */
    int64_t best;       /* cost of the best solution known; NET_NEVER: none */
    int32_t nchoice;    /* of the first so many variables it is kept */
    int32_t *choice;    /* their candidates; written whenever a better one is found */
    /* Asked between looks at the bound, with as much work as the last took: true when it put a better solution into
     * best and choice. NULL: nobody is asked. */
    bool (*better)(struct explore *s, int64_t work);
    void *of;         /* its own */
    bool root;        /* bound it and no more: no branching */
    int32_t patience; /* looks at the bound without much gain before it is given up; 0: a few */
    int32_t looks;    /* in all; 0: as many as it takes */
    int32_t nlook;
    bool stopped;
    int64_t work;   /* costs looked at, about: the same on every machine */
    int32_t *value; /* by variable: scratch */
};
/* A lower bound on what solutions cost; s->best when there is none below it. c becomes smaller. */
int64_t explore(struct explore *s, struct cfn *c);

#endif
