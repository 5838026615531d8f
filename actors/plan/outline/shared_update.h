/* shared_update.h - updates of variables whose replicas share a buffer: each device writes a slice.
 *
 * CPU devices of one host that hold the same shard of a variable share one buffer. A device updates its slice of
 * the buffer and of the optimiser's moments, so all devices together need no more memory and optimiser traffic
 * than one device. Initial values that depend only on a shape (zeros, random values) are written in slices, too.
 * The planner and the verifier call the same functions. Pure. */
#ifndef RILLE_PLAN_SHARED_UPDATE_H
#define RILLE_PLAN_SHARED_UPDATE_H

#include "actors/plan/model/plan.h"

/* Returns true if replicas of a tensor share one buffer: the tensor has at least `least` bytes, and devices that use
 * host memory hold equal shards. */
bool shared_update_in_place(const struct layout *l, const struct type *t, int64_t least);
/* Returns, by node, whether the devices of a host share the node's work: the node is an update, or computes an
 * initial value, of which each device writes a slice. Only roots read the results of such a node. */
bool *shared_update_nodes(const struct program *p, struct arena *a);
/* Returns the slice of the shard `part` that the device at mesh position `pos` writes. *skip: elements from the
 * start of the shard to the slice. If the view of the shard has a position in the global tensor, the view of the
 * slice has its own. */
struct view shared_update_slice(const struct view *part, const struct layout *l, const struct type *t, int pos,
                                int64_t *skip);
/* Returns the byte offset, in the shared buffer, of the slice that the device at position `pos` writes. */
int64_t shared_update_offset(const struct layout *l, const struct type *t, int pos);
/* Returns true if the task reads no more of leaf part `leaf_part` than the slice that its result k, described by
 * o, writes. The task must read the slice untransposed. Other devices write the rest of the shard. */
bool shared_update_reads_own(const struct task *t, const struct out_port *o, int32_t k, int32_t leaf_part);

#endif
