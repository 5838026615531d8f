/* kept.h - counts the elements that a move within one mesh leaves in place. Pure; any thread. */
#ifndef RILLE_BOXING_KEPT_H
#define RILLE_BOXING_KEPT_H

#include "boxing/grid.h"
#include "runtime/base/hash.h"

/* Returns how many elements positions of one mesh hold under both layouts: summed over tiles, counting one position
 * per tile. Time depends on the number and shorter sizes of mesh axes, not on the number of ranks. known: cache
 * shared by all moves of its owner, initially empty, in an arena; NULL: no cache, no allocation. */
int64_t kept_volume(const struct grid *from, const struct grid *to, struct hash_table *known);

#endif
