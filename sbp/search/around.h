/* around.h - large neighbourhood search around a choice (inside sbp/).
 *
 * Chooses a neighbourhood (some connected nodes) again while all other nodes stay fixed: a small network, solved
 * like the whole. This changes the layout of a chain of operators at once, which neither changes of single nodes nor
 * messages achieve. The memory limit is ignored. Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_AROUND_H
#define RILLE_SBP_AROUND_H

#include "sbp/search/local.h"

struct around {
    const struct net *net;
    struct local local; /* the current choice */
    int64_t cost, scale;
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
    uint64_t random;
    int64_t work;              /* work done so far (explore.h) */
    int32_t size, most;        /* size of a neighbourhood, in nodes, and its maximum */
    int32_t *near, nnear, *at; /* the current neighbourhood; by node: number in the small network, or -1 */
    int32_t *met;              /* by tensor: mark of the last neighbourhood next to it */
    int32_t idle;              /* number of searches in a row without gain */
    int32_t tries, turn;       /* neighbourhoods built so far; first reader to take at a hub tensor */
};
/* Starts from a possible choice. scale: factor of the search's costs. */
void around_begin(struct around *w, const struct net *n, const int32_t *choice, int64_t scale);
void around_end(struct around *w);
/* Makes the search s ask w for better choices, starting from the first choice of s. Only w->net must be set. Call
 * around_end afterwards. */
struct explore;
void around_ask(struct around *w, struct explore *s);
/* Tries neighbourhoods until `work` is spent. Returns true if local.choice and cost improved. */
bool around_look(struct around *w, int64_t work);

#endif
