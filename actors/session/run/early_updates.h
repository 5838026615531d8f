/* early_updates.h - moves each update of a program to its earliest position. Used only on the session's thread. */
#ifndef RILLE_SESSION_EARLY_UPDATES_H
#define RILLE_SESSION_EARLY_UPDATES_H

#include "runtime/base/base.h"

struct collection;

/* Moves each update to the position behind its operands, behind the last reader of the values that the update replaces,
 * and behind all nodes that check data. last: updates and the nodes that depend on updates come behind all others. */
void updates_early(struct collection *c, bool last);

#endif
