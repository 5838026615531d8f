/* live.h - live numbers: the user's functions that give a number at each call. A live number belongs to its session.
 * Session's thread. */
#ifndef RILLE_SESSION_LIVE_H
#define RILLE_SESSION_LIVE_H

#include "rille.h"

struct rille_live {
    struct rille_session *s;
    struct rille_live *next, *back; /* links of the session's list */
    rille_live_fn *fn;
    void (*drop)(void *arg);
    void (*undo)(void *arg); /* NULL: nothing to undo */
    void *arg;
    int32_t nref;
    bool whole;   /* an integer, not a float */
    double value; /* last answer of fn */
};

#endif
