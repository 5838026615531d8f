/* constraint_conflict.h - reports user hints that no plan can satisfy.
 *
 * A traced program satisfies all hints on the mesh of the trace, because explicit moves are always possible, and
 * operators check their strategies when they are called. Only a strategy can be unsatisfiable, and only on another
 * mesh (rille.whatif): the strategy demands a number of shards into which no legal layout splits the operands. Each
 * call is independent and uses one thread. */
#ifndef RILLE_PLAN_CONSTRAINT_CONFLICT_H
#define RILLE_PLAN_CONSTRAINT_CONFLICT_H

#include "actors/plan/assign/assign.h"

/* Lists each hint of the user in p that no candidate satisfies, with its source line, and fails with E_SBP. If
 * there is no such hint, returns `status` and leaves the error message unchanged. a: the planner's network of p. */
int constraint_conflict_report(const struct program *p, const struct assigned *a, int status);

#endif
