/* kept.h - describes snapshots, so that the next controller can read them from the memory of kept workers.
 *
 * A description is JSON: {"state": text of the program, "values": {name: {"dtype", "shape", "parts"}}}. A part is a
 * shard: its box ("lo", "hi"), the digests of its blocks, and the places where its bytes are: pairs of a memory (host)
 * and a position in it. The session owns the description that it has found. Used only on the session's thread. */
#ifndef RILLE_SESSION_KEPT_H
#define RILLE_SESSION_KEPT_H

#include "actors/session/durable/replica.h"
#include "runtime/data/arena.h"

/* Names and copies of the values of a training's state, and its text. The owner is a snapshot. */
struct kept_state {
    int32_t n;
    const char **name;
    const struct copy **copy; /* with digests */
    const char *text;
    struct arena arena; /* memory of all arrays and texts */
};
void kept_state_free(struct kept_state **k);
/* Stores the description of a state with the workers. E_LOST, E_MEMORY; E_ARG: a name or a text is not UTF-8. */
int kept_store(struct rille_session *s, const struct kept_state *state);
struct kept_description;
void kept_free(struct kept_description **k);

#endif
