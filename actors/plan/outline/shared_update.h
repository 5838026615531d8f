/* shared_update.h - updates of variables whose replicas share a buffer: each device writes a slice.
 *
 * CPU devices of one host that hold the same shard of a variable share one buffer. A device updates its slice of the
 * buffer and of the optimiser's moments, so memory and optimiser traffic are those of a single device. Initial
 * values that depend only on a shape (zeros, random values) are written in slices, too. The planner and the verifier
 * call the same functions. Pure. */
#ifndef RILLE_PLAN_SHARED_UPDATE_H
#define RILLE_PLAN_SHARED_UPDATE_H

#include "actors/plan/model/plan.h"

/* Returns true if replicas of such a tensor share one buffer: devices that use host memory hold equal shards, and
 * the tensor has at least `least` bytes. */
bool shared_update_in_place(const struct layout *l, const struct type *t, int64_t least);
/* Returns, by node, whether the node is a sliced update or a sliced initial value. Only roots may read its results. */
bool *shared_update_nodes(const struct program *p, struct arena *a);
/* Returns the slice of `part` that the device at mesh position `pos` writes, and its first element in *skip, counted
 * from the start of the shard. A view with a global position keeps it. */
struct view shared_update_slice(const struct view *part, const struct layout *l, const struct type *t, int pos,
                                int64_t *skip);
/* Returns the byte offset of that slice in the shared buffer. */
int64_t shared_update_offset(const struct layout *l, const struct type *t, int pos);
/* Returns true if the task reads no more of leaf part `leaf_part` than the slice that its result k, o, writes, and
 * reads the slice untransposed. Other devices write the rest. */
bool shared_update_reads_own(const struct task *t, const struct out_port *o, int32_t k, int32_t leaf_part);

#endif
