/* worker_report.h - what a worker does: its progress, and its answer to the coordinator's question. Called with the
 * lock held, on any thread of the worker. */
#ifndef RILLE_CLUSTER_WORKER_REPORT_H
#define RILLE_CLUSTER_WORKER_REPORT_H

#include "actors/cluster/worker/worker_inner.h"

/* Updates the progress that the next heartbeat reports. */
void worker_report_progress(struct worker_process *w);
/* Carries out the work ASK (member.h): reports what each thread does, its last acts, and what it waits for. */
void worker_report(struct worker_process *w);

#endif
