/* edge.h - the ends of direct channels: what each says to the other, and in which order an edge has its acts.
 *
 *   RECV: nothing holds it up -> FREE ------------> SEND may act
 *         its work is enqueued <------------ FULL - SEND acts: its work is enqueued
 *
 * A library's send and receive wait for each other on their devices' streams, and the n-th of one end of an edge goes
 * with the n-th of the other. So the sender decides the order, and does not send before the receiver is ready for that
 * very act: it has taken its ports, and nothing of it is left but to enqueue its work. FULLs of an edge arrive in the
 * order in which they left, and the work of each is enqueued when it comes, behind those before it: no act waits on a
 * stream for one that waits for anything else. Each edge has a stream of its own at either end. Where that is full,
 * what is to follow stands in a queue, and the thread goes on.
 *
 * The worker's thread. */
#ifndef RILLE_ACT_EDGE_H
#define RILLE_ACT_EDGE_H

#include "actors/act/actor.h"

/* Is the task such a RECV? It never stands in a lane. */
static inline bool
edge_offers(const struct task *t)
{
    return (t->kind->flags & (KIND_DIRECT | KIND_SENDS)) == KIND_DIRECT;
}

/* A RECV that nothing holds up begins all acts that it can; the other end is told of each. */
void edge_offer(struct worker *w, int task);
/* The other end has sent, as act `turn` of the edge: the work of the RECV is the next on its stream. What nobody is
 * ready for ends the run (E_BUS). */
void edge_told(struct worker *w, int task, uint16_t turn);
/* A SEND acts, as the next on its stream. */
void edge_send(struct worker *w, int task, struct flow *f);
/* Enqueues what stands in the queue of an edge, as far as its stream has room. */
void edge_go_on(struct worker *w, struct flow *f);

#endif
