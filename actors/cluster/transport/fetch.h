/* fetch.h - workers fetch bytes from another host's memory. Carrier's thread, except for carrier_fetch(). */
#ifndef RILLE_ACTORS_CLUSTER_TRANSPORT_FETCH_H
#define RILLE_ACTORS_CLUSTER_TRANSPORT_FETCH_H

#include "actors/cluster/transport/carrier.h"

#include <zmq.h>

struct head;
struct item;

/* Requests n bytes, at most CARRIER_PIECE, from the host memory of a worker. count: number of the request, which is
 * passed to brought() with the answer. No answer arrives if the epoch ends first, or has not begun at the other
 * worker. May be called on any thread, even if the thread holds a lock of the callbacks. */
enum { CARRIER_PIECE = 1 << 20 };
void carrier_fetch(struct carrier *c, int rank, uint64_t count, uint64_t at, size_t n);
/* Send and receive requests for bytes of a host's memory, and the answers. */
void carrier_send_fetch(struct carrier *c, const struct item *i);
enum fate carrier_take_fetch(struct carrier *c, const struct head *h, zmq_msg_t *body);
enum fate carrier_take_fetched(struct carrier *c, const struct head *h, zmq_msg_t *body);

#endif
