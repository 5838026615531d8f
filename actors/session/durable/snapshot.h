/* snapshot.h - snapshots of a cluster's variables. The session owns them. Session's thread. */
#ifndef RILLE_SESSION_SNAPSHOT_H
#define RILLE_SESSION_SNAPSHOT_H

#include "runtime/base/base.h"

struct snapshot;
void snapshot_free(struct snapshot **p);

#endif
