/* kept.h - describes snapshots, so that the next controller can read them from the memory of kept workers.
 *
 * A description is JSON: {"state": text of the program, "values": {name: {"dtype", "shape", "parts"}}}. A part is a
 * shard: its box ("lo", "hi"), the digests of its blocks, and the places where its bytes are: pairs of a memory (host)
 * and a position in it. The session owns the description that it has found. Used only on the session's thread. */
#ifndef RILLE_SESSION_KEPT_H
#define RILLE_SESSION_KEPT_H

#include "actors/session/durable/replica.h"

struct rille_state;
/* Stores the description of a snapshot with the workers. copy: by tensor of the state, its copy in the snapshot, with
 * digests. E_LOST, E_MEMORY; E_ARG: a name or a text is not UTF-8. */
int kept_store(struct rille_session *s, int64_t number, const struct rille_state *state,
               const struct copy *const *copy);
struct kept_description;
void kept_free(struct kept_description **k);

#endif
