/* worker_kept.h - memory with a snapshot that a worker keeps after the loss of its controller. The next controller
 * reads the snapshot from it (memory/kept.h). Called with the worker's lock held, or while the worker has one thread.
 */
#ifndef RILLE_CLUSTER_WORKER_KEPT_H
#define RILLE_CLUSTER_WORKER_KEPT_H

#include "actors/cluster/worker/worker_inner.h"

/* Moves the memory of a worker whose controller was lost to *kept. If the memory has no snapshot, *kept stays as it
 * is. */
void worker_kept_take(struct worker_process *w, struct worker_kept *kept);
/* Frees the kept memory if it is that of this job: a worker that its own controller had declared lost returns. */
void worker_kept_forget(struct worker_kept *kept, const unsigned char job[CLUSTER_ID]);
/* Handles a HOLD packet with the flag HOLD_KEPT: frees the kept memory (HOLD_GIVE), or the part of it that no snapshot
 * needs. Only the next controller sends this, because processes of the lost controller's job could still use the
 * memory. */
int worker_kept_hold(struct worker_kept *kept, uint32_t flags);
/* Writes path and size of the latest memory, "PATH BYTES"; empty: there is none. */
void worker_kept_path(const struct worker_kept *kept, char out[KEPT_PATH]);
void worker_kept_free(struct worker_kept *kept);

#endif
