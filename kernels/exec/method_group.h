/* method_group.h - computes updates or casts of several variables in one call. Pure; any thread. */
#ifndef RILLE_KERNELS_EXEC_METHOD_GROUP_H
#define RILLE_KERNELS_EXEC_METHOD_GROUP_H

#include <stdbool.h>

struct fuse_step;

/* Returns true if these steps form a group instead of a chain. A group has independent calls of one operator, and
 * each call writes an output. */
bool group_is(int nstep, const struct fuse_step *step);

#endif
