/* kept.h - what a move within one mesh need not send.
 *
 * Pure; any thread. */
#ifndef RILLE_BOXING_KEPT_H
#define RILLE_BOXING_KEPT_H

#include "boxing/grid.h"
#include "runtime/hash.h"

/* Elements that positions of one mesh hold under both layouts: summed over the tiles, each at one of its positions. In
 * time of the mesh's axes and their shorter sizes, not of its ranks. known: remembers what was counted, for all moves
 * of whoever owns it: empty at first, in an arena; NULL: nothing is remembered, nor allocated. */
int64_t kept_volume(const struct grid *from, const struct grid *to, struct hash_table *known);

#endif
