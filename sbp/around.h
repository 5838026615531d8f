/* around.h - better choices around a choice (inside sbp/).
 *
 * It chooses a neighbourhood, some nodes that lie together, anew while all others stay: a small network, which it
 * searches as the whole. So chains of operators change their layout together, which no single change and no message
 * brings about. For networks without a memory limit; nearby.h is the same with one. Deterministic. One owner, one
 * thread. */
#ifndef RILLE_SBP_AROUND_H
#define RILLE_SBP_AROUND_H

#include "sbp/local.h"

struct around {
    const struct net *net;
    struct local local; /* the choice */
    int64_t cost, scale;
    bool (*stop)(void *arg); /* NULL: never */
    void *arg;
    uint64_t random;
    int64_t work;              /* done (explore.h) */
    int32_t size, most;        /* nodes of a neighbourhood */
    int32_t *near, nnear, *at; /* the neighbourhood at hand; by node: where it stands in the small network, -1 */
    int32_t *met;              /* by tensor: the last neighbourhood that it lay at */
    int32_t idle;              /* how often a search has asked in vain */
    int32_t tries, turn;       /* how many neighbourhoods it has made; which reader of a hub comes first */
};
/* Begins from a choice that is possible; the search multiplies costs by scale. */
void around_begin(struct around *w, const struct net *n, const int32_t *choice, int64_t scale);
void around_end(struct around *w);
/* The search asks it for better choices, beginning from its first; w has the net alone. around_end afterwards. */
struct explore;
void around_ask(struct around *w, struct explore *s);
/* Tries neighbourhoods until that was so much work. True when it found something better: local.choice, cost. */
bool around_look(struct around *w, int64_t work);

#endif
