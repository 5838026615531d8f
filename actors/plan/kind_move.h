/* kind_move.h - what tasks that are part of a move have in common. For device threads: each touches its own act alone.
 */
#ifndef RILLE_PLAN_KIND_MOVE_H
#define RILLE_PLAN_KIND_MOVE_H

#include "actors/plan/plan.h"

/* Carries out the steps of the task's part; counts what it reads of other devices' memory. The device's thread. */
int move_begin(struct act *a);
struct stream;
/* Copies windows from `from` to `to`, by the device or by host code: work of the stream. E_KERNEL. */
int move_rearrange(int32_t n, const struct seat_copy *copy, void *from, void *to, const struct stream *s);
/* The type of a result that is a row of numbers: a stage, or what came in. */
struct type move_row(const struct task *t, enum dtype dtype, int32_t out);
/* The same of an end of a channel; also of a plan that is not proved. */
struct type move_far_row(const struct plan *p, int32_t task, int32_t out);

#endif
