/* estimate.h - estimates computing times with the constants of rates.h. The functions are pure and may run on any
 * thread. */
#ifndef RILLE_PLAN_ESTIMATE_H
#define RILLE_PLAN_ESTIMATE_H

#include "actors/plan/model/plan.h"

/* Estimates the time of one act of each task on one core, in ns: cost[task]. */
void plan_estimate(const struct plan *p, int64_t *cost);
/* Adds the floating-point operations of one run to flops[], by plan device. A multiply-add counts as two operations.
 * Recomputed operators count each time they run. */
void plan_flops(const struct plan *p, double *flops);
/* Returns the estimated time of one rank's share of a node's call, without the fixed cost of an act, ns. */
int64_t node_estimate(const struct program *p, int32_t node, struct arena *tmp);

/* Computes the work of a call on complete (global) tensors: *flops, the floating-point operations, and *bytes, the
 * bytes read and written. */
void call_work(const struct call *c, double *flops, double *bytes);

#endif
