/* rows.h - schedule rows of a step, in all processes. The compiled step owns the rows. Session's thread. */
#ifndef RILLE_SESSION_ROWS_H
#define RILLE_SESSION_ROWS_H

#include "runtime/base/base.h"

enum { WARM_CALLS = 2 }; /* the call whose times make rows; the next is timed, too */

struct lane_rows;
struct rille_graph;
struct whole;
/* Makes schedule rows from the kept act times; from now on lanes of all processes wait for the next task of their
 * row. */
void rows_make(struct rille_graph *g);
/* Sends workers their partitions of the rows of the whole plan, with the next run. No lanes: sends none. */
void rows_give(struct rille_graph *g, const struct lane_rows *rows, const struct whole *w);

#endif
