/* net_zmq.h - links over tcp by ZeroMQ. Carrier's thread, with the carrier's lock held. */
#ifndef RILLE_ACTORS_CLUSTER_TRANSPORT_NET_ZMQ_H
#define RILLE_ACTORS_CLUSTER_TRANSPORT_NET_ZMQ_H

#include "actors/cluster/transport/carrier_inner.h"

int net_zmq_bind(struct carrier *c, enum road road, const char *host);

#endif
