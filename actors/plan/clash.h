/* clash.h - which of the user's hints no plan meets.
 *
 * What was traced meets them all, on its own mesh: moves that the user wrote are possible there, and strategies were
 * looked for when their operators were called. So a hint that cannot be met is a strategy on another mesh (whatif),
 * which cuts none of the layouts that there are into so many pieces. One call, one thread. */
#ifndef RILLE_PLAN_CLASH_H
#define RILLE_PLAN_CLASH_H

#include "actors/plan/assign.h"

/* Fails with E_SBP, naming each such hint and its line, where there is one in p, whose net a has; with `status`, and
 * the text that there is, where there is none. */
int clash_tell(const struct program *p, const struct assigned *a, int status);

#endif
