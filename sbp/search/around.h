/* around.h - large neighbourhood search around a choice (inside sbp/).
 *
 * The search chooses the candidates of a neighbourhood (some connected nodes) again, while all other nodes stay
 * fixed. A neighbourhood is a small network and is solved like a complete one. So the layout of a chain of operators
 * changes at once, which neither changes of single nodes nor messages achieve. The memory limit is ignored.
 * Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_AROUND_H
#define RILLE_SBP_AROUND_H

#include "sbp/search/local.h"

struct around {
    const struct net *net;
    struct local local; /* the current choice, as local.h stores it */
    int64_t cost, scale;
    bool (*stop)(void *arg); /* ends the search when it returns true; NULL: never */
    void *arg;
    uint64_t random;
    int64_t work;       /* counted work so far (explore.h) */
    int32_t size, most; /* current and largest number of nodes of a neighbourhood */
    /* near: nodes of the current neighbourhood; at: by node: the node's number in the small network; -1: none */
    int32_t *near, nnear, *at;
    int32_t *met; /* by tensor: number of the last neighbourhood that reached the tensor */
    int32_t idle; /* number of searches without gain in a row */
    /* tries: number of neighbourhoods so far; turn: number that selects, modulo the number of readers, the first
     * reader to visit at a tensor with more than HUB readers */
    int32_t tries, turn;
};
/* Starts from a feasible choice. scale: factor by which the search multiplies costs. */
void around_begin(struct around *w, const struct net *n, const int32_t *choice, int64_t scale);
void around_end(struct around *w);
/* Makes search s call around_look() between bounding rounds, starting from the first choice of s. Set only w->net
 * before; call around_end() afterwards. */
struct explore;
void around_ask(struct around *w, struct explore *s);
/* Searches neighbourhoods until `work` is used up. Returns true if local.choice and the cost improved. */
bool around_look(struct around *w, int64_t work);

#endif
