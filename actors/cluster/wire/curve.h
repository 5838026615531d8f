/* curve.h - access control of ZeroMQ sockets: CURVE with the job's keys, and a handler that admits clients (ZAP).
 *
 * If a ZAP request gets no answer, libzmq admits every client that knows the server's public key. So curve_sender()
 * checks that each message received by a server has a User-Id, which only this handler sets. Each context with
 * server sockets has one handler, used only by the thread of the context's owner. */
#ifndef RILLE_CLUSTER_CURVE_H
#define RILLE_CLUSTER_CURVE_H

#include "actors/cluster/wire/key.h"

struct curve;
/* Starts the ZAP handler of a context. Call curve_new() before any bind, because a server without a handler would
 * admit everybody. The key must outlive the handler. E_BUS. */
int curve_new(void *context, const struct key *key, struct curve **out);
/* Frees the handler. The context must have been shut down. */
void curve_free(struct curve **c);
/* Makes a socket a CURVE server. Must be called before bind. E_BUS. */
int curve_serve(void *socket, const struct key *key);
/* Makes a socket a CURVE client. Must be called before connect. The server is the worker of rank `whose`, or the
 * coordinator (KEY_COORDINATORS). E_BUS. */
int curve_join(void *socket, const struct key *key, int whose);
/* Returns true if a permitted client sent this message (a zmq_msg_t). Sets *rank to the rank of the client's key, or
 * to KEY_ANY for the workers' shared key. */
bool curve_sender(void *msg, int *rank);

#endif
