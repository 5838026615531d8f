/* lane.h - ready tasks of a thread, by lane; in a lane, the first task of the schedule row acts next.
 *
 * A run may have schedule rows (plan_sim.h): then each stream of the thread's devices is a lane, and all devices
 * without streams share one more lane. Without rows there is one lane, ordered by priority. Only the worker's thread
 * touches lanes; the session's thread reserves their memory between runs. */
#ifndef RILLE_ACT_LANE_H
#define RILLE_ACT_LANE_H

#include "actors/plan/sim/plan_sim.h"
#include "runtime/base/heap.h"

struct run;
struct worker;

struct lane {
    struct heap ready; /* ready tasks of the lane, by priority */
    /* row: the next expected act of the lane's schedule row; row_end: the end of the row */
    const struct row_act *row, *row_end;
    int64_t free_ns; /* time, ns, at which the lane's last act ended */
};

struct lanes { /* the lanes of one thread */
    struct lane *lane;
    int32_t nlane, lane_capacity;
    int32_t nready; /* number of ready tasks in all lanes of the thread */
    int32_t *ready; /* storage for the lanes' heaps */
    uint64_t *ready_key;
    int32_t ready_capacity;
    /* deadline, ns, of a lane's wait for the next task of its row; INT64_MAX: only stream progress ends the wait; 0:
     * no lane waits */
    int64_t until_ns;
};

/* Reserves memory for the lanes of a run. */
void lanes_make(struct worker *w, const struct run *run);
void lanes_free(struct worker *w);
/* Resets the lanes for a run: no task is ready, and each row is at its start. */
void lanes_reset(struct worker *w);

/* Adds a ready task to its lane. */
void lanes_push(struct worker *w, int task);
/* Returns the lane whose first task should act now. Needs schedule rows and a ready task. Among lanes that need not
 * wait, selects the one whose first task begins earliest in the simulated schedule. So a thread that feeds several
 * streams enqueues in the order of begin times. Returns NULL if all lanes wait; w->lanes.until_ns says until when. */
struct lane *lanes_next(struct worker *w);
/* Returns the lane that holds ready task number *i, counted over all lanes, and sets *i to the task's index in that
 * lane. */
struct lane *lanes_at(struct worker *w, int *i);
/* Records when stream work of the task was found complete. */
void lanes_ended(struct worker *w, int task, int64_t now);

#endif
