/* fewer.h - a network with a few of the repeated layers that stands for the whole (inside sbp/).
 *
 * If layers repeat (repeat.h), the messages and choices in the middle of many layers equal those in the middle of a
 * few. So a network of few layers is bounded, or chosen, first. Each layer of the whole then starts from the values
 * of its representative. Correctness does not depend on the similarity of layers: messages prove a bound whatever
 * their origin, and the cost of a choice is always computed. Differences only cost time. Deterministic. One owner,
 * one thread. */
#ifndef RILLE_SBP_FEWER_H
#define RILLE_SBP_FEWER_H

#include "sbp/net/cfn.h"
#include "sbp/net/repeat.h"

/* Sets initial messages of a reduced network; pick: by remaining variable, index of its value. Returns false,
 * with nothing changed, if too little repeats. stop: true ends the sweeps; NULL: never. Adds the approximate number
 * of costs read to *work. */
bool fewer_messages(struct cfn *c, bool (*stop)(void *arg), void *arg, int32_t *pick, int64_t *work);

/* A net made of a few layers of another net. */
struct fewer {
    struct repeat like; /* items are nodes of the whole net */
    const struct net *whole;
    struct net net;
    int32_t *is; /* by node of the whole net: its number in `net`; -1: left out */
};
/* Returns false if too little repeats; fewer_end is not needed then. */
bool fewer_begin(struct fewer *f, const struct net *n);
void fewer_end(struct fewer *f);
/* Convert a choice of the whole net to one of the small net, and back. */
void fewer_of(const struct fewer *f, const int32_t *whole, int32_t *few);
void fewer_whole(const struct fewer *f, const int32_t *few, int32_t *whole);

#endif
