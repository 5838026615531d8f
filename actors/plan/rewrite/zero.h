/* zero.h - shards optimiser work and state over the ranks that hold the same parameter shard (ZeRO: Rajbhandari et
 * al. 2020).
 *
 * The pass changes only layouts. An update computes on slices of its parameter, the optimiser's state is sharded
 * likewise, gradients arrive by reduce-scatter, and the new parameter is returned by all-gather. Existing splits of
 * the parameter are applied first, so that each rank's slice belongs to its own shard. Gradients are summed as for
 * the complete tensor, in the same order, so results are bit-identical. The program must not be shared yet; call
 * zero_layouts() on the thread that makes the program. */
#ifndef RILLE_PLAN_ZERO_H
#define RILLE_PLAN_ZERO_H

#include "actors/plan/model/program.h"

/* Shards the optimiser's state and sets leaf[].layout. level 1: gradients are summed completely, then sliced; level
 * 2 and above: gradients are reduce-scattered. root_leaf: by root, the leaf whose new version it is; -1: none. */
int zero_layouts(struct program *p, struct atlas *at, int level, const int32_t *root_leaf);

#endif
