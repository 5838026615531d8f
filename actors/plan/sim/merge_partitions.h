/* merge_partitions.h - the parts of a plan as one plan again, for who looks at what all memories do: where a channel
 * was, an edge stands from the task that sends to the one that receives, with as many registers.
 *
 * Nobody runs a joined plan: it has no kernels' memory and no leaves of its own. It borrows the parts; any thread. */
#ifndef RILLE_PLAN_MERGE_PARTITIONS_H
#define RILLE_PLAN_MERGE_PARTITIONS_H

#include "actors/plan/model/plan.h"

/* Parts of one program, some of its memories at least, each once: their devices, threads and tasks follow one another
 * in this order. first: the number of each part's first task. In arena a. as_one: moves between parts are as those of
 * one memory, which the receiver's device makes when a register there is free; else they are as parts run, where as
 * many pieces may be on their way as well. */
const struct plan *plan_merge_partitions(const struct plan *const *part, int n, bool as_one, struct arena *a,
                                         int32_t *first);

struct act_time;
/* The acts of one run of each part, of a part on a clock of its own, and of a task in the order in which they were. How
 * many nanoseconds later than part 0's each clock has to be taken, at least, that nothing was received before it was
 * sent: for each message RECV does not begin before SEND began, nor end before that ended. Clocks that go at different
 * speeds may leave some that do. act NULL where nact is 0; later[0] is 0. */
void plan_clocks(const struct plan *const *part, int n, const struct act_time *const *act, const int64_t *nact,
                 int64_t *later);

#endif
