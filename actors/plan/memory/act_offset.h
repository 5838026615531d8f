/* act_offset.h - an offset for each use of a register ("berth"), where that takes fewer bytes than rotating registers.
 *
 * Works on a flat plan in micro-batches, before verification. Changes offsets of results and the bytes of arenas. A
 * result that packing gave extra registers, one per stage slot, returns to the number that its readers request.
 * Tables are in the plan's arena. Deterministic; any thread. */
#ifndef RILLE_PLAN_ACT_OFFSET_H
#define RILLE_PLAN_ACT_OFFSET_H

#include "actors/plan/model/plan.h"

/* first_out: by task, index of its first result. asked: by result, registers requested by the readers. */
void act_offset_registers(struct plan *p, const int32_t *first_out, const int32_t *asked);

#endif
