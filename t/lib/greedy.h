/* greedy.h - runs a plan's tokens greedily, to check the deadlock proof (actors/plan/verify/verify_run.c). The
 * caller owns the plan. Any thread may call. */
#ifndef RILLE_T_GREEDY_H
#define RILLE_T_GREEDY_H

#include "actors/plan/verify/verify.h"

/* Runs every task whose tokens have arrived, until no task can run. Returns true if all tasks have finished, which
 * must agree with the verifier's deadlock proof. */
static inline bool
runs_greedily(const struct plan *p)
{
    struct proof v = {.plan = p};
    v.first_in = ARENA_ARRAY(&v.tmp, int64_t, p->ntask + 1);
    v.first_out = ARENA_ARRAY(&v.tmp, int64_t, p->ntask + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        v.first_in[i + 1] = v.first_in[i] + p->task[i].nin;
        v.first_out[i + 1] = v.first_out[i] + p->task[i].nout;
    }
    bool fine = proof_run_greedily(&v) == 0;
    arena_fini(&v.tmp);
    return fine;
}

#endif
