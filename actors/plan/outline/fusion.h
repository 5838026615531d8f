/* fusion.h - fuses chains of element-wise operators, and groups small updates. The outline's owner, on its thread. */
#ifndef RILLE_ACTORS_PLAN_OUTLINE_FUSION_H
#define RILLE_ACTORS_PLAN_OUTLINE_FUSION_H

#include "actors/plan/outline/outline.h"

void fusion_nodes(struct fusion *f);
/* Lists the members of the group that ends at node, in order. Returns the number of members (at most FUSE_STEPS). */
int fusion_members(const struct fusion *f, int32_t node, int32_t *member);
/* Returns true if the node ends a group of casts of leaves, or is a cast of a leaf and in no group. */
bool fusion_casts(const struct fusion *f, int32_t node);
/* Lists the values that these members read from outside the group, each once, in the order of reading. want[]:
 * layout in which each value is read; NULL for numbers. Returns the number of values (at most FUSE_INPUTS). */
int fusion_inputs(const struct fusion *f, const int32_t *member, int n, struct ref *in, const struct layout **want);
/* Returns the index of a value in the list in[0] to in[n - 1]; n: not found. Entries match if both value and
 * layout are equal. */
int fusion_input(int n, const struct ref *in, const struct layout *const *want, struct ref r, const struct layout *as);
/* Returns true if the task stores result `out` of a node in memory. Result 0 is stored if the node is the last of
 * its group or an update, or if the result is a root or is read outside the group. All further results are always
 * stored. */
bool fusion_shown(const struct fusion *f, int32_t node, int out);

#endif
