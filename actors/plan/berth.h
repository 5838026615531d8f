/* berth.h - an address for each use of a register, where that takes less than registers that take turns.
 *
 * Of a plan in pieces, flat and not yet proved. It changes where results lie and the bytes of arenas; no order, no
 * credits. Tables are in the plan's arena. Deterministic; any thread. */
#ifndef RILLE_PLAN_BERTH_H
#define RILLE_PLAN_BERTH_H

#include "actors/plan/plan.h"

void berth_registers(struct plan *p);

#endif
