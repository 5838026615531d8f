/* lane.h - ready tasks of a thread, by lane; the task that is first in the lane's row acts next.
 *
 * If a run has rows (plan_sim.h), each stream of the thread's devices is a lane, and the thread is the lane of devices
 * without streams. Without rows there is one lane, ordered by priority. Only the worker's thread touches lanes; the
 * session's thread reserves memory between runs. */
#ifndef RILLE_ACT_LANE_H
#define RILLE_ACT_LANE_H

#include "actors/plan/sim/plan_sim.h"
#include "runtime/base/heap.h"

struct run;
struct worker;

struct lane {
    struct heap ready;                   /* ready tasks */
    const struct row_act *row, *row_end; /* acts still expected in this lane */
    int64_t free_ns;                     /* time, ns, at which the lane's last act ended */
};

struct lanes { /* of a thread */
    struct lane *lane;
    int32_t nlane, lane_capacity;
    int32_t nready; /* number of ready tasks in the lanes */
    int32_t *ready; /* storage of the lanes' heaps */
    uint64_t *ready_key;
    int32_t ready_capacity;
    int64_t until_ns; /* deadline, ns, of waits for the next task of a row; INT64_MAX: only stream progress ends the
                         wait; 0: a ready task need not wait */
};

/* Reserves memory for the lanes of a run. */
void lanes_make(struct worker *w, const struct run *run);
void lanes_free(struct worker *w);
/* Resets the lanes for a run: no task is ready, and all of each row is to come. */
void lanes_reset(struct worker *w);

/* Adds a ready task to its lane. */
void lanes_push(struct worker *w, int task);
/* Returns the lane whose first task should act now; needs rows and a ready task. Of lanes that need not wait,
 * selects the first on the virtual clock, so a thread enqueues to several streams in the order of begin times. NULL:
 * all lanes wait, as w->lanes.until_ns says. */
struct lane *lanes_next(struct worker *w);
/* Returns the lane of ready task *i, counted over all lanes, and sets *i to the index in that lane. */
struct lane *lanes_at(struct worker *w, int *i);
/* Records that stream work of the task was found complete. */
void lanes_ended(struct worker *w, int task, int64_t now);

#endif
