/* totals.h - totals over all runs of a session, for monitors: times, memory and moved bytes.
 *
 * The session's thread adds each run after it has ended; any thread reads the totals. Nothing is added before
 * rille_metrics_begin(), because the bytes that a program moves take time to count. */
#ifndef RILLE_SESSION_TOTALS_H
#define RILLE_SESSION_TOTALS_H

#include "rille.h"

struct runner;
/* Bytes that a run of one plan moves, by name of the move. The runner's arena owns it. */
struct moved_bytes {
    int n;
    struct rille_moved move[RILLE_MOVES];
};
/* Adds a run that has ended. */
void totals_add(struct rille_session *s, struct runner *r, int status);

#endif
