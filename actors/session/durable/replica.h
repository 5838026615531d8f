/* replica.h - keeps replicas of a snapshot's shards on other hosts, and detects changed bytes. The snapshot owns
 * its copies. Used only on the session's thread. */
#ifndef RILLE_SESSION_REPLICA_H
#define RILLE_SESSION_REPLICA_H

#include "runtime/data/str.h"
#include "runtime/graph/graph.h"

struct rille_session;
struct sums;
struct copy {
    struct type type;
    const struct layout *layout;
    struct store *store; /* the shards, held by reference; NULL: none */
    /* by mesh position: copy of the shard on another host ("spare"), by reference; NULL: no copy, or none is
     * needed */
    struct store *spare;
    struct sums *sums; /* digests by mesh position; NULL: not computed */
};
/* Returns true if a shard, or its copy on another host, is lost or damaged. */
bool copy_is_lost(const struct copy *c);
/* Returns true if no shard is lost or damaged. Ignores the copies on other hosts. */
bool copy_is_whole(const struct copy *c);
void copy_drop(struct copy *c);
/* Begins to copy shards to other hosts, into new buffers, which stay held until copying_end(). E_MEMORY: no memory
 * for the buffers. */
struct copying;
int copies_replicate(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Begins to compute the digests of all copies, for copies_check(). */
void copies_digest(struct rille_session *s, int32_t n, struct copy *const *c, struct copying **out);
/* Returns the digests of a shard, by block of 1 MiB; NULL: not computed. */
const uint64_t *copy_digests(const struct copy *c, int32_t pos);
/* Compares shards and spares with their digests. A shard or spare that differs from its digest counts as lost
 * from now on. Skips copies without digests. E_LOST: a host with shards or spares was lost. */
int copies_check(struct rille_session *s, int32_t n, struct copy *const *c);
/* Returns true if all shards that must be equal have equal digests. */
bool copy_agrees(const struct copy *c);
/* Prints the devices and workers of shards that differ. If no shard differs, prints nothing. right: a correct
 * copy of the same variable to compare with; NULL: compares the replicas of each shard with each other. */
void copy_print_odd(const struct rille_session *s, const struct copy *c, const struct copy *right, struct str *out);
bool copying_ended(const struct copying *c);
/* Ends the work that copies_replicate() or copies_digest() began. whole true: waits until all work is done, and
 * reports errors. whole false: stops after the transfer in progress, and leaves the error text unchanged. Returns
 * the status; E_CANCEL: stopped early. */
int copying_end(struct copying **c, bool whole);
/* Restores lost shards from equal shards of the same variable and from spares (copies on other hosts). E_LOST: no
 * copy of a shard is left. E_IO: a shard is damaged; the error text names the shard. */
int copies_mend(struct rille_session *s, int32_t n, struct copy *const *c);
/* Prints the name of the first shard that was lost together with its host. */
void copies_tell_lost(struct rille_session *s, int32_t n, struct copy *const *c, struct str *out);
/* Returns true if some shard is lost and no intact copy of it is left on any host. */
bool copies_gone(struct rille_session *s, int32_t n, struct copy *const *c);

#endif
