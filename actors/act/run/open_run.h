/* open_run.h - runs that end before their work is complete.
 *
 * A run that stays open ends when all its acts have begun and the checks of its data are done; part of its work is
 * still on streams then. Until that work is complete, the plan and the run's buffers must stay in place. The work of
 * the next run, and the copy of that run's live numbers, are ordered behind the open run on all streams. So the next
 * run may use the arena of the open run and overwrite what that run reads. At most OPEN_RUNS runs are open: run n ends
 * only when run n - OPEN_RUNS is complete. If the work of an open run fails, the run that is in progress ends with that
 * failure. If no run is in progress, engine_left() reports the failure. The error's text is always that of the failing
 * act. Called on the session's thread. */
#ifndef RILLE_ACT_OPEN_RUN_H
#define RILLE_ACT_OPEN_RUN_H

#include "actors/act/run/actor.h"

/* Returns true if the run may stay open: its plan has one device with streams and no other process, and the run is
 * neither timed nor poisoned. */
bool run_may_stay_open(const struct run *r);
/* Returns the largest number n such that runs 1 to n are complete. */
uint64_t engine_done(const struct engine *e);
/* Returns true if no run is open, or if the streams can order the run's work behind that of the open runs. If false,
 * the caller must wait for the open runs first. */
bool engine_follows(const struct engine *e, const struct run *r);
/* Waits until the run with this number is complete. E_CANCEL: engine_interrupt() was called before the run was
 * complete. With must = true, waits on instead of returning E_CANCEL. */
int engine_await(struct engine *e, uint64_t number, bool must);
/* Returns the number of the first open run (ended, with work left on streams) whose work has failed since the last
 * call; 0: none. Results of that run and of all later runs are invalid. */
uint64_t engine_left_failed(struct engine *e);
/* Returns the error of an open run whose work failed, and sets the error text; 0: none. Reports an error once, and
 * never an error that a run in progress has reported. */
int engine_left(struct engine *e);

/* ---- leave runs open and finish them; called by the engine and by actors ---- */

/* Returns the number of the oldest open run with work left. If there is none, returns the number of the current or
 * last run. */
uint64_t open_run_first(const struct worker *w);
/* Returns true if the current run can end. All its acts must be done or, if the run stays open, enqueued. The run
 * that began OPEN_RUNS runs earlier must be complete. */
static inline bool
worker_is_over(const struct worker *w)
{
    return w->todo == 0 && w->number - open_run_first(w) < OPEN_RUNS;
}
/* Returns true if act u belongs to an earlier run that was left open. */
static inline bool
open_run_has(const struct worker *w, const struct under_way *u)
{
    return !w->active || u->run != w->number;
}
/* Leaves the work of the current run in flight, so that the run can end. */
void open_run_leave(struct worker *w);
/* Finishes the oldest act of a stream. The act's work must be complete, and its run must have been left open. */
void open_run_finish(struct worker *w, struct flow *f);
/* Records failed acts of open runs, before the stream is emptied and the acts are dropped. */
void open_run_check(struct worker *w, const struct flow *f);
/* Enqueues the copy of the run's live numbers (scalars of the user's program) behind the work of open runs; if no
 * run is open, copies the numbers at once. Called before worker_begin(), on the session's thread. E_KERNEL,
 * E_MEMORY. */
int open_run_put_numbers(struct worker *w, const struct run *run);
void open_run_free(struct worker *w);

#endif
