/* greedy.h - runs the tasks of a plan as soon as their inputs arrive, to check the deadlock proof
 * (actors/plan/verify/flow/verify_run.c). Each edge carries tokens: a full register, or a released one. The caller owns
 * the plan. Any thread may call. */
#ifndef RILLE_T_GREEDY_H
#define RILLE_T_GREEDY_H

#include "actors/plan/verify/flow/verify_run.h"

/* Runs every task whose tokens (full inputs and free registers) have arrived, until no task can run. Returns true
 * if all tasks have finished. The verifier's deadlock proof must give the same answer. */
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
