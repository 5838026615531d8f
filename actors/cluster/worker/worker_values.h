/* worker_values.h - answers the controller's requests for bytes of the host's memory. Called with the worker's lock
 * held. The worker owns the memory. */
#ifndef RILLE_CLUSTER_WORKER_VALUES_H
#define RILLE_CLUSTER_WORKER_VALUES_H

#include "actors/cluster/worker/worker_inner.h"

/* Answers a request. status: 0 or the error, whose text is sent. bytes: the requested bytes. */
void worker_values_reply(struct worker_process *w, const struct packet *p, int status, struct span bytes);
/* Writes bytes to a position (position.h). E_BUS: the bytes are not in this worker's memory. */
int worker_values_store(const struct worker_process *w, uint64_t at, const void *bytes, size_t n);
/* Handles all requests that have arrived. */
void worker_values_receive(struct worker_process *w);

#endif
