/* measure.h - measures the memory that devices hold during a step, and keeps the act times of its last timed run.
 * The compiled step owns the times. Used only on the session's thread. */
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
    int64_t ncall, timed_call; /* ncall: number of calls so far; timed_call: number of the last timed call */
    bool watched;              /* the user has requested a chart or timeline, so every call is timed */
    struct act_time *act;      /* acts of the last timed run */
    int32_t *act_thread;
    int64_t nact, act_capacity, act_thread_capacity, begin_ns;
    struct lane_rows rows; /* order in which each thread or stream is to execute its tasks; empty: any order */
    struct rille_stats stats;
};
/* Returns the index of the plan's device at a mesh position. */
int measure_device(const struct plan *p, const struct place *place, int pos);
/* Adds the memory of a step's inputs (leaves), and of results (roots) that do not overwrite an input. over: by
 * root, true if the root overwrites its leaf. */
void measure_values(const struct plan *p, const bool *over, struct rille_device_stats *device);
/* Returns the largest number of bytes that a device holds during a step: leaves, registers, scratch memory, and
 * results that do not overwrite a leaf. *device: that device's index in the plan; device may be NULL. */
int64_t measure_held(const struct plan *p, int32_t *device);
/* Checks that no device needs more than the limit. E_MEMORY: a device needs more; the text names its largest
 * tensors. */
int measure_fits(const struct plan *p, int64_t limit);
/* Copies the act times of the run that just ended into the step's record. */
void measure_keep(struct rille_graph *g);

#endif
