/* box_apply.h - the reference for box plans: executes one on host memory, without actors. Pure; any thread. */
#ifndef RILLE_ORACLES_BOX_APPLY_H
#define RILLE_ORACLES_BOX_APPLY_H

#include "boxing/box.h"

/* Executes a plan: src[pos] and dst[pos] are dense shards. */
void box_apply(const struct box_plan *p, void *const *src, void **dst);
/* Returns the view of a slice in a dense shard (part: its box; both in global positions) of a tensor of global type
 * t in layout l, or in a stage. data may be NULL. */
struct view box_slice(const struct type *t, const struct layout *l, const struct box *part, void *data,
                      const struct box *slice);

#endif
