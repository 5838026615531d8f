/* options.h - how a net is to be solved (solve.h). The caller owns what the pointers name; one call, one thread. */
#ifndef RILLE_SBP_OPTIONS_H
#define RILLE_SBP_OPTIONS_H

#include "sbp/net/net.h"

enum solve_mode { SOLVE_GREEDY, SOLVE_PROPAGATE, SOLVE_RECURSIVE, SOLVE_OPTIMAL, NSOLVE };

struct solve_options {
    enum solve_mode mode;
    const int32_t *start;    /* a known choice to start from; NULL: none */
    const int32_t *other;    /* a second start choice for SOLVE_OPTIMAL; NULL: none */
    bool (*stop)(void *arg); /* polled by the search; true ends it; NULL: never */
    void *arg;
    bool quick; /* SOLVE_OPTIMAL under a limit: look for the least peak first, then return the first choices found
                 * (squeeze.h), without a bound. stop() must not depend on a clock */
    bool proof; /* write the steps of a certificate */
};

#endif
