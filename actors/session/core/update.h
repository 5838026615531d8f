/* update.h - updates of variables by optimisers. The session owns the list of pending updates. Session's thread. */
#ifndef RILLE_SESSION_UPDATE_H
#define RILLE_SESSION_UPDATE_H

#include "runtime/graph/graph.h"

struct rille_session;
struct rille_tensor;
/* An update that rille_step will apply, and the version that it starts from. */
struct pending_update {
    struct rille_tensor *t;
    struct val *before;
    bool lent; /* the step in progress may overwrite the bytes of the old version `before` */
};
/* Pending updates, and variables that backward was called on since the last step. */
struct session_updates {
    struct pending_update *update;
    int32_t nupdate, update_capacity;
    struct rille_tensor **watch;
    int32_t nwatch, watch_capacity;
};
/* Drops all pending updates, and the list of variables with backward calls. The variables keep their present
 * versions. */
void updates_forget(struct rille_session *s);

#endif
