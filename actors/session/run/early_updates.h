/* early_updates.h - moves each update of a program to its earliest position. Used only on the session's thread. */
#ifndef RILLE_SESSION_EARLY_UPDATES_H
#define RILLE_SESSION_EARLY_UPDATES_H

#include "runtime/base/base.h"

struct collection;

/* Orders the nodes so that each update comes right behind the last reader of the values that it replaces, and behind
 * all nodes that check data. last: all updates, and the nodes that depend on them, come behind all other nodes. */
void updates_early(struct collection *c, bool last);

#endif
