/* clash.h - which of the user's hints no plan meets together.
 *
 * Hints are the to_global moves and strategies of a program. Where a network has no choice at all, hints are lifted one
 * after the other as long as it still has none: those that are left clash. One call, one thread. */
#ifndef RILLE_PLAN_CLASH_H
#define RILLE_PLAN_CLASH_H

#include "actors/plan/assign.h"

/* Fails with E_SBP, naming each hint that clashes and its line, where that is why p cannot be planned; with `status`,
 * and the text that there is, where it is not. */
int clash_tell(const struct program *p, struct atlas *at, const struct assign_options *o, int status);

#endif
