/* link.h - the sockets between a coordinator and its workers: ZeroMQ over ipc or tcp.
 *
 * Each worker has three: `control` carries packets in order, `beat` heartbeats, and `bulk` values, so that long
 * transfers delay neither a heartbeat nor a stop. A coordinator's end serves many peers, numbered in order of
 * arrival; a worker's end has one peer. With a key, the sockets use CURVE (curve.h), and the key of a rank is valid
 * for that rank only.
 *
 * No function here blocks. link_fd() is edge-triggered: when it is readable, and after each send, receive until no
 * message is left. One thread at a time uses a socket; a handover between threads needs a lock. */
#ifndef RILLE_CLUSTER_LINK_H
#define RILLE_CLUSTER_LINK_H

#include "actors/cluster/wire/key.h"

enum link_socket { LINK_CONTROL, LINK_BEAT, LINK_BULK, NLINK_SOCKET };
enum { LINK_ENDPOINT = 256 };

struct link;

/* Checks an address: "tcp://127.0.0.1:5555", "ipc:///run/...". Sets *local if no other host can reach it. E_ARG:
 * malformed. */
int link_address(const char *text, bool *local);

/* Opens a coordinator's end. bind: a tcp address, with port * for any free port; NULL: ipc in a new private folder,
 * removed with the link. key NULL: no encryption, for addresses of this host only (else E_ARG). E_BUS: port in use,
 * no permission... */
int link_serve(const char *bind, const struct key *key, struct link **out);
/* Opens a worker's end. address: link_endpoint() of the coordinator. Connects when the coordinator is there; until
 * then no message arrives. */
int link_join(const char *address, const struct key *key, struct link **out);
/* Connects `beat` or `bulk` to the address that the coordinator sent. Messages sent on `bulk` wait for the
 * connection. */
int link_join_more(struct link *l, enum link_socket which, const char *address);
void link_free(struct link **l);
/* Removes the ipc folder of a coordinator that no longer exists. */
void link_sweep(const char *address);

const char *link_endpoint(const struct link *l, enum link_socket which);
int link_fd(const struct link *l, enum link_socket which);
/* Returns a descriptor that is readable when link_state() may have changed. Worker's end. */
int link_state_fd(const struct link *l);

/* Receives a message, false: none. *peer: number of the sender (0 at a worker's end). The bytes are valid until the
 * next call. */
bool link_receive(struct link *l, enum link_socket which, int *peer, const void **bytes, size_t *n);
/* Returns the rank whose key a peer has; KEY_ANY: the key of all workers, or no key. Coordinator's end. */
int link_rank(const struct link *l, enum link_socket which, int peer);
/* Returns true if the peer's key permits it to act as that rank. */
bool link_is_of(const struct link *l, enum link_socket which, int peer, int rank);
/* Sends a message. E_BUS: the peer is gone, or accepts no messages. */
int link_send(struct link *l, enum link_socket which, int peer, const void *bytes, size_t n);

enum link_state {
    LINK_WAITING, /* for the coordinator */
    LINK_UP,
    LINK_DENIED, /* wrong key, or only one side has a key */
    LINK_DOWN,   /* the link was up and has ended */
};
enum link_state link_state(struct link *l); /* worker's end */

#endif
