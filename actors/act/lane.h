/* lane.h - what a thread has to do, by lane: acts that are ready, of which the first in the lane's row comes next.
 *
 * Where a run has rows (play.h), each stream of the thread's devices is a lane, and so is the thread for devices that
 * have none. Without rows all is one lane, in order of priority. The worker's thread touches them; the session's makes
 * room, between runs. */
#ifndef RILLE_ACT_LANE_H
#define RILLE_ACT_LANE_H

#include "actors/plan/play.h"
#include "runtime/heap.h"

struct run;
struct worker;

struct lane {
    struct heap ready;                   /* tasks */
    const struct row_act *row, *row_end; /* what is still expected of it */
    int64_t free_ns;                     /* when its last act ended */
};

/* Makes room for the lanes of a run. */
void lanes_make(struct worker *w, const struct run *run);
void lanes_free(struct worker *w);
/* A run begins: each lane has nothing ready, and all of its row to come. */
void lanes_reset(struct worker *w);

/* The task is ready. */
void lanes_push(struct worker *w, int task);
/* Where there are rows, and something is ready, gives the lane whose first is to act now: of those that do not wait the
 * one whose turn it is by the virtual clock, so that what a thread enqueues to several streams is in the order in which
 * it will begin. NULL: all wait, as w->until_ns says. */
struct lane *lanes_next(struct worker *w);
/* Gives the lane of ready task number *i of all, which becomes its number there. */
struct lane *lanes_at(struct worker *w, int *i);
/* Work of the task, on a stream, was found done. */
void lanes_ended(struct worker *w, int task, int64_t now);

#endif
