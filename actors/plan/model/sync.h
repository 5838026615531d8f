/* sync.h - chooses the stream of each task's work, and the synchronisation of each edge.
 *
 * Called on the thread that makes the plan; the plan is read-only from then on. */
#ifndef RILLE_PLAN_SYNC_H
#define RILLE_PLAN_SYNC_H

#include "actors/plan/model/plan.h"

/* Returns true if the work of the device runs on streams. */
bool sync_has_streams(const struct plan_device *d);
/* Sets the stream of every task and the token of every in-port of a plan under construction. */
void sync_choose(struct plan *p);
/* Returns, by plan device, the stream roles of the device's tasks: bit 1 << role is set for each. Any thread. */
void sync_roles(const struct plan *p, uint8_t *roles);

#endif
