/* fewer.h - a network of which a few layers are left stands for the whole (inside sbp/).
 *
 * Where layers repeat (repeat.h), messages and choices in the middle of many are those in the middle of few. So a
 * network of few layers is bounded, or chosen, first, and each layer of the whole begins with what the one has that
 * stands for it. Messages prove what they prove wherever they come from, and a choice costs what it costs: where layers
 * are less alike than they look this takes time, never truth. Deterministic. One owner, one thread. */
#ifndef RILLE_SBP_FEWER_H
#define RILLE_SBP_FEWER_H

#include "sbp/cfn.h"
#include "sbp/repeat.h"

/* Gives a reduced network messages, and pick a value (an index) for each variable left. False, and nothing happens: too
 * little repeats. stop: NULL, or asked now and then, true ends the sweeps; adds to *work how many costs it looked at.
 */
bool fewer_messages(struct cfn *c, bool (*stop)(void *arg), void *arg, int32_t *pick, int64_t *work);

/* A net with few layers of another one. */
struct fewer {
    struct repeat like; /* items are nodes of the whole */
    const struct net *whole;
    struct net net;
    int32_t *is; /* by node of the whole: its number here; -1: it is left out */
};
/* False: too little repeats, and there is nothing to end. */
bool fewer_begin(struct fewer *f, const struct net *n);
void fewer_end(struct fewer *f);
/* A choice of the whole to one of the net, and back. */
void fewer_of(const struct fewer *f, const int32_t *whole, int32_t *few);
void fewer_whole(const struct fewer *f, const int32_t *few, int32_t *whole);

#endif
