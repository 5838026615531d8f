/* peers.h - numbers for the connections of a coordinator's socket.
 *
 * A ROUTER socket identifies a connection by a routing id. A connection gets a number when its first message arrives.
 * The owner releases the number when it has no further use for the connection. The number of slots is limited, so a
 * new connection may get the slot of a released number, with the next generation. A slot is reused only after
 * PEERS_RELEASED later releases, or if no slot is unused. Until then a message of the released connection makes the
 * released number valid again. So the number of connections during a job is not limited, and the generation
 * distinguishes an old number from the new number of its slot.
 *
 * Owner: one socket of a link (link.h), which one thread at a time uses. */
#ifndef RILLE_CLUSTER_PEERS_H
#define RILLE_CLUSTER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* PEERS: maximum number of slots, which limits the connections in use; PEER_GENERATIONS: number of generations, after
 * which they repeat; PEER_ID: maximum length of a routing id, bytes; PEERS_RELEASED: number of slots that stay released
 * while unused slots are left. A number is slot + PEERS * generation. */
enum { PEERS = 1 << 17, PEER_GENERATIONS = 1 << 14, PEER_ID = 16, PEERS_RELEASED = 64 };

static inline int
peer_slot(int number)
{
    return number & (PEERS - 1);
}

struct peers_entry {
    uint8_t n, id[PEER_ID]; /* n: length of the routing id `id`, bytes */
    int32_t number;
    int32_t rank;      /* rank whose key the connection uses; KEY_ANY: a key that ranks share, or no key */
    uint64_t released; /* position in the order of releases, from 1; 0: the number is in use */
};

/* A table of connections; all fields 0: an empty table. */
struct peers {
    struct peers_entry *entry;
    int n, capacity;   /* n: number of slots, in use or released */
    int nreleased;     /* number of released slots */
    uint64_t releases; /* number of releases so far */
};

/* Returns the number of the connection with this routing id. Adds the connection if it is unknown, and puts a released
 * number in use again. -1: all slots are in use, or the length of the id is 0 or more than PEER_ID. */
int peers_number(struct peers *p, const void *id, size_t n);
/* Returns the entry of a number; NULL: the number was never assigned, or another connection has its slot. */
struct peers_entry *peers_entry_of(const struct peers *p, int number);
/* Releases a number. Does nothing if the number is released or unknown. */
void peers_release(struct peers *p, int number);
void peers_free(struct peers *p);

#endif
