/* worker_run.h - a worker carries out runs. Called on the main thread. */
#ifndef RILLE_CLUSTER_WORKER_RUN_H
#define RILLE_CLUSTER_WORKER_RUN_H

#include "actors/cluster/worker/worker_inner.h"

/* Carries out the work START (member.h). */
void worker_run_start(struct worker_process *w, const struct order *o);

#endif
