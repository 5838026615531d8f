/* measure.h - memory that devices hold during a step, and the act times of its last timed run. The compiled step owns
 * the times. Session's thread. */
#ifndef RILLE_SESSION_MEASURE_H
#define RILLE_SESSION_MEASURE_H

#include "runtime/base/base.h"

struct place;
struct plan;
struct rille_device_stats;
struct rille_graph;
/* Returns the index of the plan's device at a mesh position. */
int measure_device(const struct plan *p, const struct place *place, int pos);
/* Adds the memory beside registers: leaves, and roots that overwrite no leaf. over: by root, whether the root
 * overwrites its leaf. */
void measure_values(const struct plan *p, const bool *over, struct rille_device_stats *device);
/* Returns the most bytes that any device holds during a step: leaves, registers, scratch, and results that overwrite
 * no leaf. Sets *device (may be NULL) to that device of the plan. */
int64_t measure_held(const struct plan *p, int32_t *device);
/* Checks that no device holds more than the limit. E_MEMORY: names the largest tenants of the registers. */
int measure_fits(const struct plan *p, int64_t limit);
/* Keeps the act times of the run that just ended. */
void measure_keep(struct rille_graph *g);

#endif
