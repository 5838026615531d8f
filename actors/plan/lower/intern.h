/* intern.h - interns equal views, and shares kernels between tasks. Thread of plan_compile(). */
#ifndef RILLE_ACTORS_PLAN_LOWER_INTERN_H
#define RILLE_ACTORS_PLAN_LOWER_INTERN_H

#include "actors/plan/lower/lower.h"

/* Returns the interned view with these sizes and strides. */
const struct view *intern_view(struct lower *l, const struct view *v);
void kernels_begin(struct kernels *k, struct lower *l, int device, int nin, int nout);
/* Sets the call or chain for which kernels are made. The caller must set k->like before this call, and keep step[]
 * until the last kernels_get(). */
void kernels_of(struct kernels *k, int nstep, const struct fuse_step *step);
/* Finds or makes the kernel for the current views, for a device of the plan. */
int kernels_get(const struct kernels *k, int32_t device, struct exec **e);

#endif
