/* constraint_conflict.h - reports user hints that no plan can satisfy.
 *
 * A traced program satisfies all hints on its own mesh, because explicit moves are possible and operators checked
 * their strategies when called. Only a strategy can be unsatisfiable, and only on another mesh (rille.whatif): none
 * of the possible layouts splits the operands into that many shards. Each call is independent and uses one thread. */
#ifndef RILLE_PLAN_CONSTRAINT_CONFLICT_H
#define RILLE_PLAN_CONSTRAINT_CONFLICT_H

#include "actors/plan/assign/assign.h"

/* Fails with E_SBP and lists each unsatisfiable hint of p with its source line. a: the planner's network of p. If p
 * has no unsatisfiable hint, returns `status` and leaves the error message unchanged. */
int constraint_conflict_report(const struct program *p, const struct assigned *a, int status);

#endif
