/* assigned.h - functions on the results of a planner, which the session owns. Session's thread. */
#ifndef RILLE_ACTORS_PLAN_ASSIGN_ASSIGNED_H
#define RILLE_ACTORS_PLAN_ASSIGN_ASSIGNED_H

#include "actors/plan/assign/assign.h"

void assigned_free(struct assigned **a);
/* Computes the regrets of all candidates: the extra cost of the best plan that has the candidate instead of the
 * chosen one. If stop(arg) returns true, ends early, with wider bounds. */
int assign_regret(struct assigned *a, bool (*stop)(void *arg), void *arg);

#endif
