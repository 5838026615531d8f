/* sizes.h - sizes of arenas. Used by one plan_compile() call, on its thread. */
#ifndef RILLE_ACTORS_PLAN_MEMORY_SIZES_H
#define RILLE_ACTORS_PLAN_MEMORY_SIZES_H

#include "actors/plan/lower/lower.h"

enum { ARENA_ALIGN = 64 };
int sizes_check(struct lower *l); /* call before registers are placed; may fail with E_MEMORY */
void sizes_scratch(struct lower *l);

#endif
