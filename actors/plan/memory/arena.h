/* arena.h - offsets of registers in device arenas. Used by one plan_compile() call, on its thread. */
#ifndef RILLE_ACTORS_PLAN_MEMORY_ARENA_H
#define RILLE_ACTORS_PLAN_MEMORY_ARENA_H

#include "actors/plan/lower/lower.h"

/* arena.c */
int arena_registers(struct lower *l); /* places registers in arenas; may fail with E_MEMORY */

#endif
