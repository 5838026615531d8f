/* mine.h - which devices, and which positions of a placement, lie in the memory that a part of a plan is of.
 *
 * Whoever makes or proves a part loops over these positions alone. Where everything is one memory they are all that
 * there are. A table belongs to that maker or prover; one thread. */
#ifndef RILLE_PLAN_MINE_H
#define RILLE_PLAN_MINE_H

#include "actors/plan/program.h"
#include "runtime/hash.h"

/* The positions of a placement that lie in the memory, ascending. */
struct mine {
    const struct place *place;
    int32_t n;
    int32_t *pos;
    bool all; /* every position: then pos[i] is i */
};

struct mines {
    struct arena *arena;
    const struct plan_map *map;      /* NULL: one memory */
    bool first;                      /* of each placement its first position alone, wherever it lies */
    const struct plan_range **range; /* by kind, then by first device */
    struct hash_table found;         /* struct mine, by placement */
    struct mine *last;               /* the one asked for last */
};

void mines_init(struct mines *m, const struct plan_map *map, struct arena *a);
const struct mine *mine_of(struct mines *m, const struct place *p);
/* Returns where a position stands among them, -1: it lies in another memory. */
int32_t mine_find(const struct mine *m, int32_t pos);
/* Returns the range of a device; NULL: nobody has it, or there is no map. */
const struct plan_range *mines_range(const struct mines *m, int kind, int32_t rank);
/* Returns the memory of a device: its range's, 0 where there is no map; a device that only stands for its layout (meta)
 * is in every memory. */
int32_t mines_memory(const struct mines *m, int kind, int32_t rank);
/* Returns the rank of the cpu device, of the memory of a device that lies in this one, through which what host code
 * does not read of it goes to other memories, and comes from there; -1: the memory has no cpu devices. */
int32_t mines_host(const struct mines *m, int kind, int32_t rank);
/* Returns the memory that the part is of. */
static inline int32_t
mines_own(const struct mines *m)
{
    return m->map ? m->map->memory : 0;
}

#endif
