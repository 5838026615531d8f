/* compile.h - makes a plan from a program. Call these functions on the thread that owns the atlas. */
#ifndef RILLE_ACTORS_PLAN_COMPILE_H
#define RILLE_ACTORS_PLAN_COMPILE_H

#include "actors/plan/model/plan.h"

/* Compiles the plan partition of the host that the program's map names; without a map, the complete plan. Takes
 * ownership of the program, also on failure. E_PLAN: the plan cannot run to its end (the error names the blocked
 * tasks); E_MEMORY: it needs too much memory. Call it on the thread that owns the atlas. */
int plan_compile(struct program *p, struct atlas *at, struct plan **out);
void plan_free(struct plan **p);
size_t plan_bytes(const struct plan *p); /* approximate host memory that the plan occupies, bytes */
/* Computes how much scratch memory kernels need, without making a plan. Looks at the first rank of each placement
 * only, so the time does not depend on the number of ranks. The caller keeps the program. Pure. */
int plan_scratch(struct program *p, int64_t *bytes);

#endif
