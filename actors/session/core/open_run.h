/* open_run.h - open runs: a run may return while some of its work is still on streams (actors/act/run/engine.h).
 * Session's thread. */
#ifndef RILLE_SESSION_OPEN_RUN_H
#define RILLE_SESSION_OPEN_RUN_H

#include "runtime/base/base.h"

struct rille_session;
struct runner;
/* Lets pools wait for open runs. Called before the first pool is made. */
void work_order_begin(struct rille_session *s);
/* Sets whether the run may stay open. Waits for open runs if this run cannot be ordered behind them. E_KERNEL,
 * E_CANCEL. */
int open_run_before(struct rille_session *s, struct runner *r);
/* Marks the bound buffers of a run that stays open with the run's number. */
void open_run_bound(struct rille_session *s, struct runner *r);
/* After a run: updates what pools know of open and of failed runs. */
void open_run_after(struct rille_session *s);
/* Waits until no run is open. A failure of open work is reported now, as that of its act. E_CANCEL: interrupted, and
 * a run is still open. Reads and writes of buffers wait by themselves. */
int session_settle(struct rille_session *s);
/* Waits until no run is open, even if interrupted. The next session_settle() reports failures. */
void session_drain(struct rille_session *s);

#endif
