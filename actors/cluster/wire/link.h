/* link.h - the sockets between a coordinator and its workers: ZeroMQ over ipc or tcp.
 *
 * Each worker has three sockets: `control` carries packets in order, `beat` carries heartbeats, and `bulk` carries
 * values. So a long transfer of values delays neither a heartbeat nor a stop. A coordinator's end serves many peers,
 * whose numbers are used again after link_release(); a worker's end has one peer. With a key, the sockets use CURVE
 * (curve.h), and the key of a rank is valid for that rank only.
 *
 * No function of this file blocks. The descriptor of link_fd() is edge-triggered: receive until no message is left,
 * when it becomes readable and also after each send. One thread at a time uses a socket; a lock must order a
 * handover between threads. */
#ifndef RILLE_CLUSTER_LINK_H
#define RILLE_CLUSTER_LINK_H

#include "actors/cluster/wire/key.h"

enum link_socket { LINK_CONTROL, LINK_BEAT, LINK_BULK, NLINK_SOCKET };
enum { LINK_ENDPOINT = 256 };

struct link;

/* Checks an address such as "tcp://127.0.0.1:5555" or "ipc:///run/...". Sets *local if no other host can reach the
 * address. E_ARG: malformed. */
int link_address(const char *text, bool *local);

/* Opens a coordinator's end. bind: a tcp address, with port * for any free port; "ipc://FOLDER/control": ipc in this
 * folder, which is made with mode 0700; NULL: ipc in a new private folder. Closing the link removes the folder. key:
 * NULL: messages are not encrypted, which is permitted only if no other host can reach the address (else E_ARG).
 * E_BUS: the sockets cannot be bound, because the port is in use, for example. */
int link_serve(const char *bind, const struct key *key, struct link **out);
/* Opens a worker's end. address: link_endpoint() of the coordinator. The connection is established when the
 * coordinator exists; until then no message arrives. */
int link_join(const char *address, const struct key *key, struct link **out);
/* Connects the socket `beat` or `bulk` of a worker to the address that the coordinator sent. Messages sent on `bulk`
 * wait for the connection. */
int link_join_more(struct link *l, enum link_socket which, const char *address);
/* Replaces the connection of `control` or `bulk` of a worker's end, which may carry nothing although TCP believes that
 * it is up. Drops messages that were not sent. */
int link_reconnect(struct link *l, enum link_socket which);
/* Removes the coordinator's ipc sockets from their folder, and the folder. Connections that are up stay up. A job calls
 * this function before its workers end, because mpirun kills all processes when one ends with a code other than 0. */
void link_hide(struct link *l);
void link_free(struct link **l);
/* Removes the ipc folder of this address, if the coordinator that made the folder has ended. */
void link_sweep(const char *address);

const char *link_endpoint(const struct link *l, enum link_socket which);
int link_fd(const struct link *l, enum link_socket which);
/* Returns a descriptor that becomes readable when link_state() may have changed. Worker's end only. */
int link_state_fd(const struct link *l);

/* Receives a message; false: none has arrived. *peer: number of the sender (0 at a worker's end). The bytes are valid
 * until the next call. */
bool link_receive(struct link *l, enum link_socket which, int *peer, const void **bytes, size_t *n);
/* Returns the rank whose key a peer has; KEY_ANY: the peer has the workers' shared key, or there are no keys.
 * Coordinator's end only. */
int link_rank(const struct link *l, enum link_socket which, int peer);
/* Returns true if the peer's key permits it to act as worker `rank`. */
bool link_is_of(const struct link *l, enum link_socket which, int peer, int rank);
/* Releases the number of a connection for which the owner has no further use. A message of this connection that
 * arrives soon after has the same number. Coordinator's end only. */
void link_release(struct link *l, enum link_socket which, int peer);
/* Sends a message. E_BUS: the peer is gone or does not accept messages. */
int link_send(struct link *l, enum link_socket which, int peer, const void *bytes, size_t n);

enum link_state {
    LINK_WAITING, /* the coordinator has not been reached yet */
    LINK_UP,
    LINK_DENIED, /* handshakes fail: the keys differ, or only one end has a key */
    LINK_DOWN,   /* the connection has ended; ZeroMQ tries to connect again */
};
enum link_state link_state(struct link *l); /* returns the state of a worker's end */
/* Returns the number of connections of a worker's socket so far (not of `beat`). Messages of a connection that has
 * ended may be lost, in both directions. */
int link_connections(struct link *l, enum link_socket which);
/* Returns true if the coordinator's port refuses connections now: its process has ended. Called repeatedly while
 * link_state() is LINK_DOWN, because an attempt to connect takes time. */
bool link_is_refused(struct link *l);
/* Receives the next event (ZMQ_EVENT_...) of a socket's monitor, without waiting. Returns false if there is none. Sets
 * *what to 0 if the message is too short for an event. monitor may be NULL. */
bool link_event(void *monitor, uint16_t *what);

#endif
