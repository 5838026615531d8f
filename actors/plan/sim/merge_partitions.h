/* merge_partitions.h - joins the partitions of a plan into one plan, for analyses and simulations of all hosts
 * together.
 *
 * Each channel becomes an edge from the sending to the receiving task, with the channel's number of registers. A
 * joined plan cannot run, because it has no kernels and no leaves. The joined plan refers to the partitions, which
 * must outlive it; any thread. */
#ifndef RILLE_PLAN_MERGE_PARTITIONS_H
#define RILLE_PLAN_MERGE_PARTITIONS_H

#include "actors/plan/model/plan.h"

/* Joins n partitions of one program, one partition per host. Devices, threads and tasks keep the order of the
 * partitions. first[part]: index of the partition's first task in the joined plan. as_one true: the joined plan
 * works as on a single host, where the receiver's device performs a transfer once it has a free register. as_one
 * false: it works as in a cluster, where the sender performs the transfer, so several micro-batches may be in
 * transit. The joined plan is in arena a. */
const struct plan *plan_merge_partitions(const struct plan *const *part, int n, bool as_one, struct arena *a,
                                         int32_t *first);

struct act_time;
/* Aligns the clocks of n partitions. act: the acts of one run of each partition, timed by its own clock, with the
 * acts of a task in order; NULL if nact is 0. Returns in later[i] the least number of ns to add to the times of
 * partition i so that no message is received before it is sent. So no RECV begins before its SEND begins, or ends
 * before its SEND ends. later[0] is 0. If clocks differ in speed, some messages may still seem to arrive early. */
void plan_clocks(const struct plan *const *part, int n, const struct act_time *const *act, const int64_t *nact,
                 int64_t *later);

#endif
