/* offload.h - saves memory at the cost of transfers: offloads values that backward reads, or gathers variables
 * again for backward.
 *
 * Offload (Rhu et al. 2016): values that forward saves for backward are moved to another placement and fetched
 * back; the state of optimisers is offloaded, too. ZeRO stage 3 (Rajbhandari et al. 2020): a sharded variable is
 * gathered for forward, and gathered once more for backward. The functions add moves to the program and change
 * nothing else, so results are bit-identical and operators keep their devices. The number of registers determines
 * how far ahead a fetch runs (credit.c). The program must not be shared yet; call these functions on the thread
 * that makes the program. */
#ifndef RILLE_PLAN_OFFLOAD_H
#define RILLE_PLAN_OFFLOAD_H

#include "actors/plan/model/program.h"

/* Offloads the state of optimisers, and the values of forward that backward reads, to the placement `storage`. Each
 * rank of a value gets a device of its own there. Sets leaf[].layout of the state. variable: by leaf, whether the
 * leaf is a variable; root_leaf: by root, the leaf of which the root is a new version, -1: none; depth: as in
 * offload_gather_again(). E_ARG: a value's placement has more devices than `storage`, or is `storage` itself. */
int offload_values(struct program *p, struct atlas *at, const struct place *storage, const bool *variable,
                   const int32_t *root_leaf, int32_t depth);
/* Gathers sharded leaves a second time, for backward, if a backward reader needs them replicated. This gather runs
 * once per micro-batch. again: by leaf, whether to gather the leaf again; depth: number of values that are in
 * memory or in flight ahead of the value being read (normally 1). */
void offload_gather_again(struct program *p, const bool *again, int32_t depth);

#endif
