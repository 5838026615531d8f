/* box_apply.h - reference for plans of moves: executes a plan on host memory, without actors. Pure; any thread. */
#ifndef RILLE_ORACLES_BOX_APPLY_H
#define RILLE_ORACLES_BOX_APPLY_H

#include "boxing/box.h"

/* Executes a plan. src[pos] and dst[pos]: the dense shards of mesh position pos. */
void box_apply(const struct box_plan *p, void *const *src, void **dst);
/* Returns a view of a slice of a tensor of global type t in layout l. The slice is stored in a dense shard or in a
 * staging buffer; part: the box of that shard. slice and part are in global positions. data may be NULL. */
struct view box_slice(const struct type *t, const struct layout *l, const struct box *part, void *data,
                      const struct box *slice);

#endif
