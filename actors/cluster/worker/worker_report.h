/* worker_report.h - reports of a worker to the coordinator: its progress in every heartbeat and, on request, the
 * present work of each thread. Called with the lock held, on any thread of the worker. */
#ifndef RILLE_CLUSTER_WORKER_REPORT_H
#define RILLE_CLUSTER_WORKER_REPORT_H

#include "actors/cluster/worker/worker_inner.h"

/* Stores the worker's progress, which the next heartbeat reports. */
void worker_report_progress(struct worker_process *w);
/* Answers the packet ASK (member.h): reports each thread's present act, its last acts, and the task for which it
 * waits. */
void worker_report(struct worker_process *w);

#endif
