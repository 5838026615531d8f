/* bytes.h - computes the bytes of a move in closed form, without planning it. Pure; any thread. */
#ifndef RILLE_BOXING_BYTES_H
#define RILLE_BOXING_BYTES_H

#include <stdbool.h>
#include <stdint.h>

struct hash_table;
struct layout;
struct type;

/* Returns the `bytes` that box_plan would compute, without making the steps. INT64_MAX: box_plan rejects the move.
 * Allocates nothing. */
int64_t box_bytes(const struct type *t, const struct layout *from, const struct layout *to);
/* Returns the same number as box_bytes(), with a cache for callers that price many moves. The cache keeps results by
 * group of dimensions (kept.h), because many moves have such groups in common. known: cache for any types, layouts
 * and meshes, initially empty, with its arena set; one thread. NULL: no cache. */
int64_t box_bytes_known(const struct type *t, const struct layout *from, const struct layout *to,
                        struct hash_table *known);
/* Returns true if the move changes only the layout's name (layout_same_boxes), not the shards. bytes: box_bytes of
 * the move. If both layouts are on one mesh, the running time depends on the number of mesh axes, not of ranks. */
bool box_renames(const struct type *t, const struct layout *from, const struct layout *to, int64_t bytes);

#endif
