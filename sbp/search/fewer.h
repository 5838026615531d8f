/* fewer.h - makes a network with a few of the repeated layers, which represents the complete one (inside sbp/).
 *
 * If layers repeat (repeat.h), the messages and choices in the middle of many layers equal those in the middle of a
 * few. So a network with few layers is bounded or solved first. Each layer of the complete network then starts from
 * the values of its representative. Correctness does not depend on the similarity of layers: messages prove a bound
 * whatever their origin, and the cost of a choice is always computed. Differences only cost time. Deterministic. One
 * owner, one thread. */
#ifndef RILLE_SBP_FEWER_H
#define RILLE_SBP_FEWER_H

#include "sbp/net/cfn.h"
#include "sbp/net/repeat.h"

/* Sets initial messages of a reduced network. pick: receives, by remaining variable, the index of its value. Returns
 * false, without changes, if too little repeats. stop: ends the sweeps when it returns true; NULL: never. *work:
 * increased by the approximate number of costs read. */
bool fewer_messages(struct cfn *c, bool (*stop)(void *arg), void *arg, int32_t *pick, int64_t *work);

/* A net made of a few layers of another net. */
struct fewer {
    struct repeat like; /* the nodes of the complete net as items */
    const struct net *whole;
    struct net net;
    int32_t *is; /* by node of the complete net: the node's number in `net`; -1: omitted */
};
/* Makes the net with few layers. Returns false if too little repeats; then fewer_end() is not needed. */
bool fewer_begin(struct fewer *f, const struct net *n);
void fewer_end(struct fewer *f);
/* fewer_of converts a choice of the complete net to a choice of the small net; fewer_whole converts a choice of the
 * small net back. */
void fewer_of(const struct fewer *f, const int32_t *whole, int32_t *few);
void fewer_whole(const struct fewer *f, const int32_t *few, int32_t *whole);

#endif
