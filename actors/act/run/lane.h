/* lane.h - ready tasks of a thread, in lanes. A schedule row is the planned order of the acts of one lane.
 *
 * A run may have schedule rows (plan_sim.h). Then each stream of the thread's devices is a lane, and the devices
 * without streams share one more lane. In each lane, the ready task that comes first in the row acts next. A run
 * without rows has a single lane, ordered by priority. Only the worker's thread uses lanes; the session's thread
 * reserves their memory between runs. */
#ifndef RILLE_ACT_LANE_H
#define RILLE_ACT_LANE_H

#include "actors/plan/sim/plan_sim.h"
#include "runtime/data/heap.h"

struct run;
struct worker;

struct lane {
    struct heap ready; /* ready tasks of the lane, by priority */
    /* row: the next expected act of the lane's schedule row; row_end: the end of the row */
    const struct row_act *row, *row_end;
    int64_t free_ns; /* time, ns, at which the lane's last act ended */
};

struct lanes {
    struct lane *lane;
    int32_t nlane, lane_capacity;
    int32_t nready; /* number of ready tasks in all lanes of the thread */
    int32_t *ready; /* storage for the lanes' heaps of ready tasks */
    uint64_t *ready_key;
    int32_t ready_capacity;
    /* time, ns (CLOCK_MONOTONIC), until which a lane waits for the next task of its schedule row; INT64_MAX: the
     * wait has no time limit and ends by stream progress; 0: no lane waits */
    int64_t until_ns;
};

/* Reserves memory for the lanes of a run. */
void lanes_make(struct worker *w, const struct run *run);
void lanes_free(struct worker *w);
/* Resets the lanes for a run: no task is ready, and each row is at its start. */
void lanes_reset(struct worker *w);

/* Adds a ready task to its lane. */
void lanes_push(struct worker *w, int task);
/* Returns the lane (ready tasks of one stream) whose first task should act now. Of the lanes that need not wait, it
 * is the lane whose first task begins earliest in the simulated schedule. So a thread with several streams enqueues
 * work in the order of begin times. Returns NULL if all lanes wait; w->lanes.until_ns is then the deadline. Requires
 * schedule rows and a ready task. */
struct lane *lanes_next(struct worker *w);
/* Returns the lane that holds the *i-th ready task of the thread, counted over all lanes. Sets *i to the task's
 * index in that lane. */
struct lane *lanes_at(struct worker *w, int *i);
/* Records the time at which the thread found the task's stream work complete. */
void lanes_ended(struct worker *w, int task, int64_t now);

#endif
