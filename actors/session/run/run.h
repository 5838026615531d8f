/* run.h - computes requested values. Used only on the session's thread. */
#ifndef RILLE_SESSION_RUN_H
#define RILLE_SESSION_RUN_H

#include "runtime/graph/graph.h"

struct number;
struct rille_session;
/* Computes in one run all of the n values that are not computed yet. */
int session_eval(struct rille_session *s, int n, struct val *const *v);
/* Computes all uncomputed values that have handles and read one of the values `going` (NULL entries: no value).
 * Called before a step replaces the values `going`: otherwise results that the user never reads would keep ever
 * more old versions in memory. A value that cannot be computed stays uncomputed; its reader gets the error. Fails
 * only on an interrupt or a lost worker. */
int session_release(struct rille_session *s, int n, struct val *const *going);
/* Binds a number: stores the bits that a kernel reads, an int64_t or a double. */
void number_bind(struct rille_session *s, const struct number *n, uint64_t *out);

/* Adapts the session to the present devices of its workers: to their numbers and, if devices have moved to other
 * hosts or threads, to their new memory. Drops the plans that were made for the earlier devices. */
void run_renew_devices(struct rille_session *s);

#endif
