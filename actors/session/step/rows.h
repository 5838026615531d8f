/* rows.h - makes the schedule rows of a step: the order of tasks on each lane, in all processes. The compiled
 * step owns the rows. Used only on the session's thread. */
#ifndef RILLE_SESSION_ROWS_H
#define RILLE_SESSION_ROWS_H

#include "runtime/base/base.h"

enum { WARM_CALLS = 2 }; /* number of the call whose act times determine the rows; the next call is timed, too */

struct lane_rows;
struct rille_graph;
struct whole;
/* Makes a schedule from the measured act times: the order of tasks in each lane (stream or thread). From now on,
 * each lane waits for its next task in this order, in all processes. */
void rows_make(struct rille_graph *g);
/* Sends each worker its part of the schedule (order of tasks by stream or thread), together with the next run.
 * Sends nothing if there is no schedule. */
void rows_give(struct rille_graph *g, const struct lane_rows *rows, const struct whole *w);

#endif
