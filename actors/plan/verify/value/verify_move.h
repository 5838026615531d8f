/* verify_move.h - proves that the tasks of a move do what box_plan() says. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_MOVE_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_MOVE_H

#include "actors/plan/verify/value/verify_value.h"

int value_move(struct values *s, int32_t task);
/* Proves that the task is part of the move of value s->box_ref: the task must name the node of that value, and act
 * as often as the value requires. */
int value_moves(struct values *s, int32_t task);
/* Prove one step of a move. value_takes() proves that source f is this window of its argument. value_fills() proves
 * that the destination is this window of the result. */
int value_takes(const struct values *s, int32_t task, const struct box_from *f, const struct view *view, int64_t skip);
int value_fills(const struct values *s, int32_t task, const struct box_move *m, const struct view *view, int64_t skip);
/* Proves that source f reads shard pos of the moved value. Returns the window of `slice` in the shard. */
int value_source(struct values *s, int32_t task, const struct box_from *f, int32_t pos, const struct box *slice,
                 struct view *view, int64_t *skip);
/* Proves, at the first task of a move, that the move has the right place in the list and moves the right value.
 * Sets s->cross and s->box_ref. */
int value_begin_move(struct values *s, int32_t task);

#endif
