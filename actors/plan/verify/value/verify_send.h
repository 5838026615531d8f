/* verify_send.h - proves sends, receives and transfers. Thread of plan_verify(). */
#ifndef RILLE_ACTORS_PLAN_VERIFY_VERIFY_SEND_H
#define RILLE_ACTORS_PLAN_VERIFY_VERIFY_SEND_H

#include "actors/plan/verify/value/verify_value.h"

int value_send(struct values *s, int32_t task);
int value_recv(struct values *s, int32_t task);
int value_p2p_send(struct values *s, int32_t task);
int value_p2p_recv(struct values *s, int32_t task);
int value_transfer(struct values *s, int32_t task);
/* Groups of tasks of a hop, as value_turn() returns them for the next task of the hop. The order is: SENDs of
 * shards; for each level of stage buffers RECVs, FILLs of these stage buffers, and SENDs of them; RECVs for shards;
 * FILLs of shards. *which: index of the channel, stage buffer or shard. */
enum turn { SEND_ALL, RECV_ALL, FILL_STAGES, FILL_PARTS, NO_TURN };
enum turn value_turn(struct values *s, int32_t *which);
/* At the last task of a move, proves that the move had all its tasks. At other tasks, does nothing. */
int value_end_move(const struct values *s, int32_t task);
/* Proves that argument f->arg is the receive buffer of the right channel: the channel for source i of the step. */
int value_received(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
                   const struct box_from *f);
/* Finds the dense block that contains `slice` in a stage buffer of this partition. */
bool value_stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view,
                        int64_t *skip);

#endif
