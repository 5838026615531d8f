/* p2p.h - direct channels: the protocol between both ends, and the order of acts on a point-to-point link (NCCL
 * send/recv).
 *
 *   RECV: ready -> FREE -------------------------> SEND may act
 *         its work is enqueued <------------ FULL - SEND acts: its work is enqueued
 *
 * A library's send and receive wait for each other on their devices' streams, and the n-th send on a link matches
 * the n-th receive. So the sender decides the order, and sends only when the receiver is ready for exactly that act:
 * the receiver has consumed tokens and registers, and only has to enqueue the work. FULL messages of a link arrive
 * in the order sent, and the receiver enqueues the matching work on arrival. So an act on a stream waits only for
 * its partner, and the partner's work is already enqueued or is enqueued next. A link has a stream of its own at
 * either end. If the stream is full, further acts wait in a queue, and the thread continues.
 *
 * Only the worker's thread uses a link. */
#ifndef RILLE_ACT_P2P_H
#define RILLE_ACT_P2P_H

#include "actors/act/run/actor.h"

/* Returns true if the task is the RECV of a direct channel (point-to-point link). Such a RECV never waits in a
 * lane. */
static inline bool
p2p_offers(const struct task *t)
{
    return (t->kind->flags & (KIND_P2P | KIND_SENDS)) == KIND_P2P;
}

/* Begins all acts for which a ready RECV has full inputs and free registers. For each act, sends a FREE to the other
 * end. */
void p2p_offer(struct worker *w, int task);
/* Handles a FULL message: the other end has enqueued act number `turn` of the link. Queues the RECV's matching act
 * on the stream of the link. An unexpected number fails the run (E_BUS). */
void p2p_full(struct worker *w, int task, uint16_t turn);
/* Queues an act of a SEND task on the stream of its link. */
void p2p_send(struct worker *w, int task, struct flow *f);
/* Enqueues queued acts of a link, as many as its stream has room for. */
void p2p_continue(struct worker *w, struct flow *f);

#endif
