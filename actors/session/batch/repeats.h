/* repeats.h - finds values that are the same for all indices of a dimension, from the calls that make them. Session's
 * thread, while a step is traced. */
#ifndef RILLE_ACTORS_SESSION_BATCH_REPEATS_H
#define RILLE_ACTORS_SESSION_BATCH_REPEATS_H

#include "runtime/graph/graph.h"

/* Returns true if v is the same for all indices of the dimension, so that the dimension may have any size. */
bool value_repeats(const struct val *v, int axis);

#endif
