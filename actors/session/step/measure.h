/* measure.h - memory that devices hold during a step, and the act times of its last timed run. The compiled step owns
 * the times. Session's thread. */
#ifndef RILLE_SESSION_MEASURE_H
#define RILLE_SESSION_MEASURE_H

#include "actors/act/run/engine.h"
#include "actors/plan/sim/plan_sim.h"
#include "rille.h"

struct place;
struct plan;
struct rille_graph;
/* Times of a compiled step's calls. */
struct step_times {
    int64_t ncall, timed_call; /* number of calls; number of the last timed call */
    bool watched;              /* a chart or timeline was requested: every call is timed */
    struct act_time *act;      /* acts of the last timed run */
    int32_t *act_thread;
    int64_t nact, act_capacity, act_thread_capacity, begin_ns;
    struct lane_rows rows; /* expected order of acts on all threads; may be empty */
    struct rille_stats stats;
};
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
