/* kept.h - counts the elements that a move within one mesh leaves in place. Pure; any thread. */
#ifndef RILLE_BOXING_KEPT_H
#define RILLE_BOXING_KEPT_H

#include "boxing/grid.h"
#include "runtime/data/hash.h"

/* Returns the number of elements that stay in place in a move within one mesh. An element counts at each mesh
 * position that holds it both before and after the move. Along mesh axes on which neither layout splits the tensor,
 * positions hold the same elements, and only one of them counts.
 * Time depends on the number of mesh axes and on the sizes of the shorter axes, not on the number of ranks. known:
 * cache for all moves of one owner, initially empty, in an arena; NULL: no cache and no allocation. */
int64_t kept_volume(const struct grid *from, const struct grid *to, struct hash_table *known);

#endif
