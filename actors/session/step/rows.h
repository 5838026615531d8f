/* rows.h - makes the schedule rows of a step: the order of tasks on each lane, in all processes. The compiled
 * step owns the rows. Used only on the session's thread. */
#ifndef RILLE_SESSION_ROWS_H
#define RILLE_SESSION_ROWS_H

#include "runtime/base/base.h"

enum { WARM_CALLS = 2 }; /* number of the call whose act times determine the rows; the next call is timed, too */

struct lane_rows;
struct rille_graph;
struct whole;
/* Makes schedule rows from the kept act times. From now on, each lane waits for the next task of its row, in all
 * processes. */
void rows_make(struct rille_graph *g);
/* Sends each worker its part of the schedule rows, together with the next run. Sends nothing if there are no
 * lanes. */
void rows_give(struct rille_graph *g, const struct lane_rows *rows, const struct whole *w);

#endif
