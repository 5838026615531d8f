/* worker_files.h - the files thread of a worker. */
#ifndef RILLE_CLUSTER_WORKER_FILES_H
#define RILLE_CLUSTER_WORKER_FILES_H

#include "actors/cluster/worker/worker_inner.h"

/* Wakes the files thread for a new order. With the lock. */
void worker_files_wake(struct worker_process *w);
/* Cancels the file of this count between two blocks, if it is unanswered. With the lock. */
void worker_files_cancel(struct worker_process *w, uint64_t count);
/* Joins the thread, after shared.quit, and frees the orders that are left. */
void worker_files_close(struct worker_process *w);
/* Carries out a file order and reports the outcome. On the files thread. */
void worker_files_serve(struct worker_process *w, const struct order *o);

#endif
