/* worker_epoch.h - a worker begins and ends epochs. Main thread. */
#ifndef RILLE_CLUSTER_WORKER_EPOCH_H
#define RILLE_CLUSTER_WORKER_EPOCH_H

#include "actors/cluster/worker/worker_inner.h"

/* Carry out the orders WELCOME, MAKE and FORM. */
void worker_epoch_welcome(struct worker_process *w, const struct order *o);
void worker_epoch_make(struct worker_process *w, const struct order *o);
void worker_epoch_form(struct worker_process *w, const struct order *o);
/* Frees the engine and the bus of the epoch. */
void worker_epoch_close(struct worker_process *w);
/* Returns the bus address of a thread of a memory's partition; -1: no such thread. */
int64_t worker_epoch_address(const struct worker_process *w, int memory, int thread);

#endif
