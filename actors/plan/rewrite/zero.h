/* zero.h - shards optimiser work and state over the ranks that hold the same parameter shard (ZeRO: Rajbhandari et
 * al. 2020).
 *
 * The pass changes layouts only. An update computes on a slice of its parameter, and the optimiser's state is
 * sharded in the same way. Gradients arrive by reduce-scatter, and an all-gather restores the new parameter's
 * layout. A parameter that is already sharded is sliced within its shards, so each rank's slice is a part of the
 * rank's own shard. Gradients are summed as for the complete tensor, in the same order, so results are
 * bit-identical. The program must not be shared yet; call zero_layouts() on the thread that makes the program. */
#ifndef RILLE_PLAN_ZERO_H
#define RILLE_PLAN_ZERO_H

#include "actors/plan/model/program.h"

/* Shards the optimiser's state and sets leaf[].layout. level 1: gradients are summed completely, then sliced;
 * level 2 and above: gradients are reduce-scattered. root_leaf: by root, the leaf of which the root is a new
 * version; -1: none. */
int zero_layouts(struct program *p, struct atlas *at, int level, const int32_t *root_leaf);

#endif
