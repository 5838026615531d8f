/* kind_move.h - functions shared by the task kinds that belong to a move.
 *
 * All functions run on device threads; a thread touches only the act that it runs. */
#ifndef RILLE_PLAN_KIND_MOVE_H
#define RILLE_PLAN_KIND_MOVE_H

#include "actors/plan/model/plan.h"

/* Runs the steps of a task's move, and counts the bytes read from other devices' memory. Runs on the device's
 * thread. */
int move_begin(struct act *a);
struct stream;
/* Copies n windows from buffer `from` to buffer `to`, by the device or by host code, as work of the stream.
 * E_KERNEL. */
int move_rearrange(int32_t n, const struct comm_rank_copy *copy, void *from, void *to, const struct stream *s);
/* Returns the type of a result whose elements form a dense vector, without a shape: a stage buffer, or received
 * data. */
struct type move_row(const struct task *t, enum dtype dtype, int32_t out);
/* Returns the type of the dense vector that a channel's task sends or receives. Also works for a plan that was not
 * verified. */
struct type move_far_row(const struct plan *p, int32_t task, int32_t out);

#endif
