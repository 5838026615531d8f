/* worker_unite.h - a worker makes the communicators of a run, together with other workers, before the run begins. Main
 * thread. */
#ifndef RILLE_CLUSTER_WORKER_UNITE_H
#define RILLE_CLUSTER_WORKER_UNITE_H

#include "actors/cluster/worker/worker_inner.h"

struct job;

int worker_unite_meet(struct worker_process *w, struct job *j, const struct packet *start);
/* Cuts all communicators, so that later runs make new communicators. */
void worker_unite_cut(void);
/* worker_unite_store stores a received id; worker_unite_part makes the run abandon waiting for ids. Any thread, with
 * the lock. */
void worker_unite_store(struct worker_process *w, const struct packet *p);
void worker_unite_part(struct worker_process *w);

#endif
