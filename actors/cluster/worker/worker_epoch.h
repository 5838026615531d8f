/* worker_epoch.h - a worker begins and ends epochs. Called on the main thread. */
#ifndef RILLE_CLUSTER_WORKER_EPOCH_H
#define RILLE_CLUSTER_WORKER_EPOCH_H

#include "actors/cluster/worker/worker_inner.h"

/* Carry out the work WELCOME, MAKE and FORM (member.h). */
void worker_epoch_welcome(struct worker_process *w, const struct order *o);
void worker_epoch_make(struct worker_process *w, const struct order *o);
void worker_epoch_form(struct worker_process *w, const struct order *o);
/* Repeats the first packet of the link for values, after a new connection. The caller holds the lock. */
void worker_epoch_greet(struct worker_process *w);
/* Frees the epoch's engine and bus, and ends its links to other workers. */
void worker_epoch_close(struct worker_process *w);
/* Returns the bus address of a thread in a memory's (host's) plan partition; -1: there is no such thread. */
int64_t worker_epoch_address(const struct worker_process *w, int memory, int thread);

#endif
