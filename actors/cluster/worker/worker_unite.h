/* worker_unite.h - a worker creates the communicators of a run, together with other workers, before the run begins.
 * Called on the main thread. */
#ifndef RILLE_CLUSTER_WORKER_UNITE_H
#define RILLE_CLUSTER_WORKER_UNITE_H

#include "actors/cluster/worker/worker_inner.h"

struct job;

int worker_unite_meet(struct worker_process *w, struct job *j, const struct packet *start);
/* Aborts the communicators, so that later runs create new communicators. */
void worker_unite_cut(void);
/* worker_unite_store stores an id that was received. worker_unite_part makes the current run stop waiting for ids.
 * Any thread; the caller holds the lock. */
void worker_unite_store(struct worker_process *w, const struct packet *p);
void worker_unite_part(struct worker_process *w);

#endif
