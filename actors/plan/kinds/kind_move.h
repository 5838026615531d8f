/* kind_move.h - functions shared by the kinds that belong to a move. Device threads; a thread touches its own act
 * only. */
#ifndef RILLE_PLAN_KIND_MOVE_H
#define RILLE_PLAN_KIND_MOVE_H

#include "actors/plan/model/plan.h"

/* Runs the steps of a task's move, and counts bytes read from other devices' memory. Device's thread. */
int move_begin(struct act *a);
struct stream;
/* Copies windows from `from` to `to`, by the device or by host code, as work of the stream. E_KERNEL. */
int move_rearrange(int32_t n, const struct comm_rank_copy *copy, void *from, void *to, const struct stream *s);
/* Returns the type of a result that is a plain row of numbers: a stage, or received data. */
struct type move_row(const struct task *t, enum dtype dtype, int32_t out);
/* Returns the same for an end of a channel. The plan may be unproved. */
struct type move_far_row(const struct plan *p, int32_t task, int32_t out);

#endif
