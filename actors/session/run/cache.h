/* cache.h - the plan cache: finds plans by the canonical bytes of their program. The session owns the cache. Used
 * only on the session's thread. */
#ifndef RILLE_SESSION_CACHE_H
#define RILLE_SESSION_CACHE_H

#include "runtime/base/base.h"

struct cache;
struct collection;
struct rille_session;
struct runner;
struct cached {
    struct cached *before, *after; /* neighbours in the list by last use, latest first */
    uint64_t hash;
    size_t nkey, bytes;
    unsigned char *key;
    struct runner *runner;
};
int cache_find(struct rille_session *s, struct collection *c, struct runner **out);
void cache_free(struct cache *c);

#endif
