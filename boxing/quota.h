/* quota.h - what ranks may receive on a way that gives none of them more than the direct exchange does.
 *
 * A quota knows what the direct exchange gives each rank. Asked at a layout in between, it adds to what a rank has
 * received what it receives at least from there on, so that a way that cannot keep up ends where that is certain, and
 * not where it arrives. Of ranks that are not listed it knows nothing.
 *
 * Who made it owns it; one thread. */
#ifndef RILLE_BOXING_QUOTA_H
#define RILLE_BOXING_QUOTA_H

#include "runtime/hash.h"
#include "runtime/layout.h"

enum { QUOTA_TILES = 1 << MAX_AXIS }; /* on larger meshes ranks are looked at one by one alone */

struct quota {
    struct arena *arena; /* owns what it remembers, and what it is given */
    const struct type *type;
    const struct layout *to;
    int32_t nrank;
    const int32_t *rank;    /* ascending; of a mesh of QUOTA_TILES ranks at most all of them */
    const int64_t *most;    /* by index of rank: bytes that the direct exchange gives it */
    struct hash_table room; /* by layout */
};

/* May a way in which ranks have received so much, in bytes, and that is at a layout keep up yet? It sends the least
 * bytes over all ranks. */
bool quota_lasts(struct quota *q, const struct layout *at, const int64_t *received);

#endif
