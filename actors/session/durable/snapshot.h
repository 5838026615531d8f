/* snapshot.h - takes snapshots of a cluster's variables and recovers from them. The session owns the snapshots.
 * Used only on the session's thread. */
#ifndef RILLE_SESSION_SNAPSHOT_H
#define RILLE_SESSION_SNAPSHOT_H

#include "runtime/base/base.h"

struct snapshot;
void snapshot_free(struct snapshot **p);
/* A variable whose replicas differed. Kept until a comparison after the same work shows which replicas were wrong. */
struct doubt;
void doubt_free(struct doubt **d);

#endif
