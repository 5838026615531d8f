/* worker_files.h - the thread of a worker that writes and reads files. */
#ifndef RILLE_CLUSTER_WORKER_FILES_H
#define RILLE_CLUSTER_WORKER_FILES_H

#include "actors/cluster/worker/worker_inner.h"

/* Wakes the thread for new work, and starts it at the first call. The caller holds the lock. */
void worker_files_wake(struct worker_process *w);
/* Cancels the file request with this number, if it was not answered yet; copying stops after the current block. The
 * caller holds the lock. */
void worker_files_cancel(struct worker_process *w, uint64_t count);
/* Waits until the thread has ended, and frees the work that is left. shared.quit must be set. */
void worker_files_close(struct worker_process *w);
/* Writes or reads one file and reports the outcome. Called on the files thread. */
void worker_files_serve(struct worker_process *w, const struct order *o);

#endif
