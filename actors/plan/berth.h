/* berth.h - an address for each use of a register, where that takes less than registers that take turns.
 *
 * Of a plan in pieces, flat and not yet proved. It changes where results lie and the bytes of arenas; and a result that
 * packing gave more registers, for a place in each room of its stage, has as many again as its readers ask for. Tables
 * are in the plan's arena. Deterministic; any thread. */
#ifndef RILLE_PLAN_BERTH_H
#define RILLE_PLAN_BERTH_H

#include "actors/plan/plan.h"

/* By task, the number of its first result; by result, how many registers its readers ask for. */
void berth_registers(struct plan *p, const int32_t *first_out, const int32_t *asked);

#endif
