/* verify_run.h - proves that a plan runs to its end. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_RUN_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_RUN_H

#include "actors/plan/verify/flow/proof.h"

int prove_run(struct proof *v);
/* Returns true if task i of a collective may act only at the place of the collective's last task in this partition.
 * That is allowed if task i acts in the same round as the collective's first task, and every reader of task i's
 * results is listed after the last task. */
bool proof_comm_rank_keeps_order(const struct proof *v, int32_t i);
/* Proves by a simulation of tokens that the plan runs to its end. Needed only if the proof by rounds fails. The
 * simulation takes time linear in the number of acts. */
int proof_run_greedily(struct proof *v);

#endif
