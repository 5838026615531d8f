/* options.h - options for solving a net (solve.h). The caller owns what the pointers name; one call, one thread. */
#ifndef RILLE_SBP_OPTIONS_H
#define RILLE_SBP_OPTIONS_H

#include "sbp/net/net.h"

enum solve_mode { SOLVE_GREEDY, SOLVE_PROPAGATE, SOLVE_RECURSIVE, SOLVE_OPTIMAL, NSOLVE };

struct solve_options {
    enum solve_mode mode;
    const int32_t *start; /* known choice from which the search starts; NULL: none */
    const int32_t *other; /* second choice from which SOLVE_OPTIMAL starts; NULL: none */
    /* called repeatedly; a result of true ends the search; NULL: the search ends by itself */
    bool (*stop)(void *arg);
    void *arg;
    /* true: under a memory limit, SOLVE_OPTIMAL first searches for the choice with the least peak, then returns
     * the first choices found (squeeze.h), without a bound. stop() must not depend on a clock */
    bool quick;
    bool proof; /* true: record the steps for a certificate */
};

#endif
