/* traffic.h - numbers, acknowledges and repeats messages of two workers. Any thread that holds the carrier's lock. */
#ifndef RILLE_ACTORS_CLUSTER_TRANSPORT_TRAFFIC_H
#define RILLE_ACTORS_CLUSTER_TRANSPORT_TRAFFIC_H

#include "actors/cluster/transport/carrier_inner.h"

/* Called with the lock held. traffic_keep numbers a message and keeps a copy. traffic_stamp
 * sets the acknowledgements of a message. traffic_void releases the bytes of runs that have ended. carrier_admit
 * handles the acknowledgements of a message of this epoch, and returns false if the message must be dropped.
 * carrier_accept counts a message that was accepted. carrier_acknowledge sends CARRIER_ACK if something is not
 * acknowledged. traffic_is_stuck, called at every tick, returns true if the other worker has acknowledged nothing for
 * half of link_ms. */
void traffic_keep(struct traffic *t, struct head *h, zmq_msg_t *body);
struct kept *traffic_kept(const struct traffic *t, int32_t i); /* returns message i, from 0, the oldest */
void traffic_stamp(struct traffic traffic[NROAD], struct head *h);
void traffic_void(struct traffic *t);
bool traffic_is_stuck(struct carrier *c, int rank, enum road road);
void traffic_clear(struct traffic *t);
bool carrier_admit(struct carrier *c, enum road road, const struct head *h);
void carrier_accept(struct carrier *c, enum road road, const struct head *h, size_t nbyte);
void carrier_acknowledge(struct carrier *c, int rank);

#endif
