/* replica.h - which updates write variables whose replicas lie in one buffer, and what of it each device writes.
 *
 * Devices of the host's memory that hold the same part of a variable need its bytes once: they read one buffer, and of
 * an update, its moments too, each of them does a slice. So memory, and what an optimiser reads and writes, are those
 * of one device. Values that come of nothing but a shape (zeros, a drawing) are made so from the first. Maker and proof
 * of a plan ask the same rule. Pure. */
#ifndef RILLE_PLAN_REPLICA_H
#define RILLE_PLAN_REPLICA_H

#include "actors/plan/plan.h"

/* Do devices of the host's memory hold this alike, and so much of it that replicas of it are to be one buffer? */
bool replica_in_place(const struct layout *l, const struct type *t, int64_t least);
/* By node: is it such an update, or first value? Nobody but its roots reads its results. */
bool *replica_updates(const struct program *p, struct arena *a);
/* Of a part: the slice that the device at this position of the layout writes, *skip elements from where the part
 * begins. A view that knows its place in the whole still does. */
struct view replica_slice(const struct view *part, const struct layout *l, const struct type *t, int pos,
                          int64_t *skip);
/* Where that slice begins, in bytes, in a buffer that holds the part. */
int64_t replica_offset(const struct layout *l, const struct type *t, int pos);
/* Does a task whose result k is o, a slice of what lies over a leaf part, read no more of that part than this slice,
 * and as it lies (not transposed)? Others write the rest. */
bool replica_reads_own(const struct task *t, const struct out_port *o, int32_t k, int32_t leaf_part);

#endif
