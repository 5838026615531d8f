/* local_set.h - local positions: the mesh positions of a placement whose devices are on the host of the plan
 * partition.
 *
 * The compiler and the verifier of a partition loop over the local positions alone. With a single host, all
 * positions are local. A local set belongs to one compiler or verifier, on one thread. */
#ifndef RILLE_PLAN_LOCAL_SET_H
#define RILLE_PLAN_LOCAL_SET_H

#include "actors/plan/model/program.h"
#include "runtime/data/hash.h"

/* The local positions of a placement, in ascending order. */
struct local_positions {
    const struct place *place;
    int32_t n;
    int32_t *pos;
    bool all; /* all positions are local, so pos[i] is i */
};

struct local_set {
    struct arena *arena;
    const struct plan_map *map; /* cluster map; NULL: one host */
    /* true: position 0 of each placement counts as local, and no other position, for estimates that look at one
     * rank only */
    bool first;
    const struct plan_range **range; /* ranges of the map, sorted by kind, then by first device */
    struct hash_table found;         /* computed struct local_positions, by placement */
    struct local_positions *last;    /* positions that the latest lookup returned */
};

void local_set_init(struct local_set *m, const struct plan_map *map, struct arena *a);
const struct local_positions *local_positions_of(struct local_set *m, const struct place *p);
/* Returns the index in m->pos of mesh position `pos`; -1: the position is on another host. */
int32_t local_set_find(const struct local_positions *m, int32_t pos);
/* Returns the range of the map that contains the device; NULL: the map does not have the device, or there is no
 * map. */
const struct plan_range *local_set_range(const struct local_set *m, int kind, int32_t rank);
/* Returns the host of a device according to the map; 0 without a map. A device of kind meta, which stands for no
 * hardware, counts as a device of every host. */
int32_t local_set_memory(const struct local_set *m, int kind, int32_t rank);
/* Returns the rank of the cpu device that sends and receives data for a local device; -1: the host has no cpu
 * devices. Needed if host code cannot read the device's memory. */
int32_t local_set_host(const struct local_set *m, int kind, int32_t rank);
/* Returns the host of the partition. */
static inline int32_t
local_set_own(const struct local_set *m)
{
    return m->map ? m->map->memory : 0;
}

#endif
