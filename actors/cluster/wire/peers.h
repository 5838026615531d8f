/* peers.h - numbers for the connections of a coordinator's socket.
 *
 * A connection is identified by the routing id of its ROUTER socket. It gets a number when its first message arrives.
 * The owner releases a number when it has no further use for the connection. A released number names its connection
 * until PEERS_RELEASED numbers were released later; then a new connection gets the slot of this number with the next
 * generation. So a job needs as many slots as connections are in use, however often connections end, and a number
 * that was released never names another connection by mistake.
 *
 * Owner: one socket of a link (link.h), which one thread at a time uses. */
#ifndef RILLE_CLUSTER_PEERS_H
#define RILLE_CLUSTER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PEERS: largest number of connections in use, and number of slots; PEER_ID: longest routing id, bytes; PEERS_RELEASED:
 * number of released numbers that still name their connections. A number is slot + PEERS * generation. */
enum { PEERS = 1 << 17, PEER_GENERATIONS = 1 << 14, PEER_ID = 16, PEERS_RELEASED = 64 };

static inline int
peer_slot(int number)
{
    return number & (PEERS - 1);
}

struct peers_entry {
    uint8_t n, id[PEER_ID]; /* n: length of the routing id `id`, bytes */
    int32_t number;
    int32_t rank;      /* rank whose key the connection has; KEY_ANY: a shared key, or none */
    uint64_t released; /* position in the order of releases, from 1; 0: the number is in use */
};

/* All fields 0: no connection. */
struct peers {
    struct peers_entry *entry;
    int n, capacity;   /* n: number of slots, in use or released */
    int nreleased;     /* number of released slots */
    uint64_t releases; /* number of releases so far */
};

/* Returns the number of the connection with this routing id, and adds an unknown connection; -1: too many connections
 * are in use, or the id has no permitted length. A released number is in use again. */
int peers_number(struct peers *p, const void *id, size_t n);
/* Returns the entry of a number; NULL: another connection has the slot now. */
struct peers_entry *peers_entry_of(const struct peers *p, int number);
/* Releases a number. Does nothing if it is released already. */
void peers_release(struct peers *p, int number);
void peers_free(struct peers *p);

#endif
