/* open_run.h - open runs: a run may return while some of its work is still on streams (actors/act/run/engine.h).
 * Used only on the session's thread. */
#ifndef RILLE_SESSION_OPEN_RUN_H
#define RILLE_SESSION_OPEN_RUN_H

#include "runtime/base/base.h"

struct rille_session;
struct runner;
/* Registers the function by which memory pools wait for open runs. Called before the first pool is created. */
void work_order_begin(struct rille_session *s);
/* Decides whether the run may stay open. Waits for open runs if this run cannot be ordered behind them. E_KERNEL:
 * an open run failed. E_CANCEL: the wait was interrupted. */
int open_run_before(struct rille_session *s, struct runner *r);
/* Stores the run's number in the bound buffers if the run stays open. */
void open_run_bound(struct rille_session *s, struct runner *r);
/* Reports to the pools, after a run, which runs are open and which failed. */
void open_run_after(struct rille_session *s);
/* Waits until no run is open. Reports an error of an open run as the error of the act that failed. E_CANCEL:
 * interrupted while a run is still open. Functions that read or write buffers call session_settle() themselves. */
int session_settle(struct rille_session *s);
/* Waits until no run is open, even if interrupted. The next session_settle() reports errors. */
void session_drain(struct rille_session *s);

#endif
