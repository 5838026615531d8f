/* replica.h - replicas of a snapshot on other hosts, and checks that its bytes have not changed. The snapshot owns its
 * copies. Session's thread. */
#ifndef RILLE_SESSION_REPLICA_H
#define RILLE_SESSION_REPLICA_H

#include "runtime/base/str.h"
#include "runtime/graph/graph.h"

struct rille_session;
struct sums;
struct copy {
    struct type type;
    const struct layout *layout;
    struct store *store; /* held; NULL: none */
    struct store *spare; /* held: by mesh position, replica of the shard on another host, if needed; NULL: none */
    struct sums *sums;   /* digests by mesh position; NULL: not taken */
};
bool copy_is_lost(const struct copy *c);  /* a shard or a spare is lost or damaged */
bool copy_is_whole(const struct copy *c); /* no shard is lost or damaged; ignores spares */
void copy_drop(struct copy *c);
/* Begins to make new spares for all copies. Their buffers stay held until copying_end(). E_MEMORY. */
struct copying;
int copies_replicate(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Begins to take the digests of all copies, for copies_check(). */
void copies_digest(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Compares shards and spares with their digests; a shard or spare that differs counts as lost from now on. Skips
 * copies without digests. E_LOST: a host that held some is lost. */
int copies_check(struct rille_session *s, int32_t n, struct copy *const *c);
bool copying_ended(const struct copying *c);
/* Ends the copying. whole: waits until all is done, and reports the error. Not whole: stops after the transfer in
 * progress, and leaves the error text as it was. Returns the outcome; E_CANCEL: stopped early. */
int copying_end(struct copying **c, bool whole);
/* Restores lost shards from replicas and spares. E_LOST; E_IO names what is damaged. */
int copies_mend(struct rille_session *s, int32_t n, struct copy *const *c);
/* Prints the first shard that was lost with its host. */
void copies_tell_lost(struct rille_session *s, int32_t n, struct copy *const *c, struct str *out);
bool copies_gone(struct rille_session *s, int32_t n, struct copy *const *c); /* a shard is lost without a replica */

#endif
