/* curve.h - access control of ZeroMQ sockets: CURVE with the job's keys, and a ZAP handler that admits clients.
 *
 * Without an answer to its ZAP request libzmq admits every client that knows the server's public key. So
 * curve_sender() checks each message received by a serving socket for the User-Id that our ZAP handler sets. One
 * handler per context with serving sockets, used by the thread of the context's owner only. */
#ifndef RILLE_CLUSTER_CURVE_H
#define RILLE_CLUSTER_CURVE_H

#include "actors/cluster/wire/key.h"

struct curve;
/* Starts the ZAP handler of a context, before any bind: a server without a handler would admit everybody. The key
 * must outlive the handler. E_BUS. */
int curve_new(void *context, const struct key *key, struct curve **out);
/* Frees the handler, after the context's shutdown. */
void curve_free(struct curve **c);
/* Makes a socket a CURVE server, before bind. E_BUS. */
int curve_serve(void *socket, const struct key *key);
/* Makes a socket a CURVE client of the worker of that rank, or of KEY_COORDINATORS, before connect. E_BUS. */
int curve_join(void *socket, const struct key *key, int whose);
/* Returns true if a permitted client sent this message (zmq_msg_t). *rank: rank of the client's key; KEY_ANY: the
 * workers' shared key. */
bool curve_sender(void *msg, int *rank);

#endif
