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

/* Finds n bytes at a position (position.h). E_BUS: the bytes are not in this worker's memory. The caller holds the
 * lock. */
struct spot {
    const struct device_kind *kind; /* device kind whose copy() reads and writes `data` */
    char *data;
};
int worker_find(const struct worker_process *w, uint64_t at, size_t n, struct spot *out);
/* Repeats requests for bytes of other hosts that were not answered. The caller does not hold the lock. */
void worker_fetch_again(struct worker_process *w);

#endif
