/* constraint_conflict.h - reports user hints that no plan can satisfy.
 *
 * A traced program satisfies all hints on its own mesh: explicit moves are possible, and operators checked their
 * strategies when called. An unsatisfiable hint is therefore a strategy on another mesh (whatif), because none of
 * the available layouts cuts the operands into that many shards. One call, one thread. */
#ifndef RILLE_PLAN_CONSTRAINT_CONFLICT_H
#define RILLE_PLAN_CONSTRAINT_CONFLICT_H

#include "actors/plan/assign/assign.h"

/* Fails with E_SBP and names each unsatisfiable hint of p (whose net is in a) with its line. Without such a hint,
 * returns `status` and leaves the error message as it is. */
int constraint_conflict_report(const struct program *p, const struct assigned *a, int status);

#endif
