/* open_run.h - runs that end before their work is complete.
 *
 * A run that stays open ends when all its acts have begun and the findings in its data are known; part of the work
 * is still on streams then. Until that work is complete, the plan and the run's buffers must stay in place. The work
 * of the next run, and the copy of its numbers, are ordered behind the open run on all streams. So the next run may
 * use the same arena and overwrite what the open run reads. At most OPEN_RUNS runs are open: a run ends only when
 * the OPEN_RUNS-th run before is complete. A failure of open work ends the run that is in progress when the failure
 * is found, or is reported by engine_left(); either way with the text of the failing act. Session's thread. */
#ifndef RILLE_ACT_OPEN_RUN_H
#define RILLE_ACT_OPEN_RUN_H

#include "actors/act/run/actor.h"

/* Returns true if the run may stay open: its plan has one device with streams, in this process only, and the run is
 * neither timed nor poisoned. */
bool run_may_stay_open(const struct run *r);
/* Returns the number of the run up to which all are complete. */
uint64_t engine_done(const struct engine *e);
/* Returns true if no run is open, or the run can be ordered behind the open runs; else the open runs must be awaited
 * first. */
bool engine_follows(const struct engine *e, const struct run *r);
/* Waits until the run with this number is complete. E_CANCEL: not complete, after engine_interrupt; never if `must`. */
int engine_await(struct engine *e, uint64_t number, bool must);
/* Returns the number of the first open run whose work failed since the last call; 0: none. Results of that run and
 * of all later ones are invalid. */
uint64_t engine_left_failed(struct engine *e);
/* Returns 0, or the error of failed open work (after fail()), once; never a failure that a run in progress reported. */
int engine_left(struct engine *e);

/* ---- for the engine and actors ---- */

/* Returns the number of the first open run with work left; else of the current or last run. */
uint64_t open_run_first(const struct worker *w);
/* Returns true if the current run can end: every act is done (enqueued, if the run stays open), and so is the
 * OPEN_RUNS-th run before. */
static inline bool
worker_is_over(const struct worker *w)
{
    return w->todo == 0 && w->number - open_run_first(w) < OPEN_RUNS;
}
/* Returns true if the act belongs to a run that was left open. */
static inline bool
open_run_has(const struct worker *w, const struct under_way *u)
{
    return !w->active || u->run != w->number;
}
/* Ends the current run and leaves its work in flight. */
void open_run_leave(struct worker *w);
/* Finishes the oldest act of a flow: the work is complete, and the run was left open. */
void open_run_finish(struct worker *w, struct flow *f);
/* Checks the acts of open runs for failures before the flow is emptied, and keeps the reason. */
void open_run_check(struct worker *w, const struct flow *f);
/* Orders the run and the copy of its numbers behind the open runs; if none is open, copies the numbers. Before
 * worker_begin, on the session's thread. E_KERNEL, E_MEMORY. */
int open_run_put_numbers(struct worker *w, const struct run *run);
void open_run_free(struct worker *w);

#endif
