/* variable.h - layouts of variables. Session's thread. */
#ifndef RILLE_ACTORS_SESSION_BUILD_VARIABLE_H
#define RILLE_ACTORS_SESSION_BUILD_VARIABLE_H

#include "actors/session/core/handle.h"

/* Sets the final layout of an "auto" leaf to the layout that a planner chose. */
int tensor_place(struct rille_tensor *t, const struct layout *l);

#endif
