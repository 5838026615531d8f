/* live.h - live numbers: operands whose value a function of the user returns at each call of a compiled step. A
 * live number belongs to its session. Used only on the session's thread. */
#ifndef RILLE_SESSION_LIVE_H
#define RILLE_SESSION_LIVE_H

#include "rille.h"

struct rille_live {
    struct rille_session *s;
    struct rille_live *next, *back; /* neighbours in the session's list */
    rille_live_fn *fn;
    void (*drop)(void *arg);
    void (*undo)(void *arg); /* reverts the last call of fn after an error; NULL: nothing to revert */
    void *arg;
    int32_t nref;
    bool whole;   /* the number is an integer, not a float */
    double value; /* last value that fn returned */
};

#endif
