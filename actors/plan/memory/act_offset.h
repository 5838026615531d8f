/* act_offset.h - assigns an offset to each use of a register ("berth"), on devices where these offsets take fewer
 * bytes than registers that are used in turn.
 *
 * Runs on a flat plan with micro-batches, before the plan is verified. Changes the offsets of results and the
 * sizes of arenas. If packing gave a result more registers (one per stage slot) than its readers request, the
 * requested number is restored. Tables are in the plan's arena. Deterministic; may run on any thread. */
#ifndef RILLE_PLAN_ACT_OFFSET_H
#define RILLE_PLAN_ACT_OFFSET_H

#include "actors/plan/model/plan.h"

/* Assigns the offsets in plan p. first_out: by task, index of its first result in `asked`; asked: by result,
 * number of registers that its readers request. */
void act_offset_registers(struct plan *p, const int32_t *first_out, const int32_t *asked);

#endif
