/* update.h - updates of variables by optimisers. The session owns the list of pending updates. Used only on the
 * session's thread. */
#ifndef RILLE_SESSION_UPDATE_H
#define RILLE_SESSION_UPDATE_H

#include "runtime/graph/graph.h"

struct rille_session;
struct rille_tensor;
/* Drops all pending updates, and the list of variables with backward calls. The variables keep their present
 * versions. */
void updates_forget(struct rille_session *s);

#endif
