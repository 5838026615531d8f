/* kind_move.h - what tasks that are part of a move have in common. For device threads: each touches its own act alone.
 */
#ifndef RILLE_PLAN_KIND_MOVE_H
#define RILLE_PLAN_KIND_MOVE_H

#include "actors/plan/plan.h"

/* Carries out the steps of the task's part; counts what it reads of other devices' memory. The device's thread. */
int move_begin(struct act *a);
/* The type of a result that is a row of numbers: a stage, or what came in. */
struct type move_row(const struct task *t, enum dtype dtype, int32_t out);

#endif
