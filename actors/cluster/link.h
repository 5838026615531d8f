/* link.h - the sockets between a coordinator and its workers: ZeroMQ over ipc or tcp.
 *
 * Three for each worker: `control` carries packets in order, `beat` the heartbeats, `bulk` values, so that what is long
 * delays neither a sign of life nor a stop. A coordinator's end serves many peers, which it numbers as they come; a
 * worker's has one. With a key they are CURVE (curve.h), and a key of a rank speaks for that one alone.
 *
 * Nothing here waits. link_fd() is readable when something may have come - an edge: read until there is no more, also
 * after a send. One thread at a time uses a socket; who hands it over uses a lock. */
#ifndef RILLE_CLUSTER_LINK_H
#define RILLE_CLUSTER_LINK_H

#include "actors/cluster/key.h"

enum link_socket { LINK_CONTROL, LINK_BEAT, LINK_BULK, NLINK_SOCKET };
enum { LINK_ENDPOINT = 256 };

struct link;

/* Checks "tcp://127.0.0.1:5555", "ipc:///run/...". E_ARG: what is wrong with the address; *local: nobody on another
 * host can reach it. */
int link_address(const char *text, bool *local);

/* bind: a tcp address, whose port may be *, one that is free; or NULL: ipc in a folder of the user's own, which goes
 * with the link. key NULL: none, for addresses of this host alone (E_ARG else). E_BUS: port in use, no right to it...
 */
int link_serve(const char *bind, const struct key *key, struct link **out);
/* address: what link_serve()'s endpoint was. Joins when the coordinator is there; until then nothing comes. */
int link_join(const char *address, const struct key *key, struct link **out);
/* Joins the others, when the coordinator has told where they are. What one sends on that of values waits for it to be
 * there. */
int link_join_more(struct link *l, enum link_socket which, const char *address);
void link_free(struct link **l);
/* Removes the folder that a coordinator left which is no more. */
void link_sweep(const char *address);

const char *link_endpoint(const struct link *l, enum link_socket which);
int link_fd(const struct link *l, enum link_socket which);
/* A worker's end: readable when link_state() may have changed. */
int link_state_fd(const struct link *l);

/* True when a message came; *peer: from whom (0 at a worker's end). The bytes are the link's until the next call. */
bool link_receive(struct link *l, enum link_socket which, int *peer, const void **bytes, size_t *n);
/* Whose key a peer has, at a coordinator's end; KEY_ANY: that of all workers, or there is none. */
int link_rank(const struct link *l, enum link_socket which, int peer);
/* May it speak for that rank? */
bool link_is_of(const struct link *l, enum link_socket which, int peer, int rank);
/* E_BUS: the peer is not there any more, or takes nothing. */
int link_send(struct link *l, enum link_socket which, int peer, const void *bytes, size_t n);

enum link_state {
    LINK_WAITING, /* for the coordinator to be there */
    LINK_UP,
    LINK_DENIED, /* the key is not the coordinator's, or it wants one, or none */
    LINK_DOWN,   /* it was up */
};
enum link_state link_state(struct link *l); /* of a worker's end */

#endif
