/* curve.h - who may speak to a ZeroMQ socket: CURVE with the job's keys, and a ZAP that answers whom it lets in.
 *
 * libzmq lets in whoever knows the server's public key when nobody answers for its ZAP, so curve_sender() looks for the
 * name that our own ZAP gives on every message that a serving socket receives. One for each context that has sockets
 * which serve; the context's owner has it, and its thread alone calls it. */
#ifndef RILLE_CLUSTER_CURVE_H
#define RILLE_CLUSTER_CURVE_H

#include "actors/cluster/key.h"

struct curve;
/* Before any bind: a server without it would let everybody in. The key lives as long. E_BUS. */
int curve_new(void *context, const struct key *key, struct curve **out);
/* After the context's shutdown. */
void curve_free(struct curve **c);
/* Before bind. E_BUS. */
int curve_serve(void *socket, const struct key *key);
/* Before connect to a worker of that rank, or to KEY_COORDINATORS. E_BUS. */
int curve_join(void *socket, const struct key *key, int whose);
/* Does this message (zmq_msg_t) come from somebody who may send it? *rank: whose key that is; KEY_ANY: all workers'. */
bool curve_sender(void *msg, int *rank);

#endif
