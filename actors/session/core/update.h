/* update.h - updates of variables by optimisers. The session owns the list of pending updates. Session's thread. */
#ifndef RILLE_SESSION_UPDATE_H
#define RILLE_SESSION_UPDATE_H

#include "runtime/graph/graph.h"

struct rille_tensor;
/* A pending update, applied by rille_step, and the version that the update started from. */
struct pending_update {
    struct rille_tensor *t;
    struct val *before;
    bool lent; /* the step in progress may overwrite the bytes of `before` */
};

#endif
