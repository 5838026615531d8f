/* coordinator_admit.h - admits workers, and assigns their devices to memories. Any thread that holds the cluster's
 * lock. */
#ifndef RILLE_ACTORS_CLUSTER_COORDINATOR_COORDINATOR_ADMIT_H
#define RILLE_ACTORS_CLUSTER_COORDINATOR_COORDINATOR_ADMIT_H

#include "actors/cluster/coordinator/coordinator.h"

struct waiting;

/* Rejects the worker on link `peer`, because it sends packets of another protocol version. */
void coordinator_foreign(struct coordinator *c, int peer, int protocol);

/* Returns true if the phase is IDLE, and a waiting worker can have a rank in the next epoch. */
bool coordinator_can_grow(const struct coordinator *c);
/* Sets the ranks whose workers an elastic job waits for: ranks 0 to started - 1. */
void coordinator_await(struct coordinator *c, int started);

/* Records that no member keeps a snapshot of an earlier controller any more. */
void coordinator_kept_dropped(struct coordinator *c);
void coordinate_hello(struct coordinator *c, int peer, const struct packet *p);
bool coordinate_all_in(struct coordinator *c);
/* If every rank is present, sends NOTICE_FULL. In an elastic job, first retires ranks that nobody is expected to
 * join. rank: the rank that was admitted last; -1: none. */
void coordinate_complete(struct coordinator *c, int rank);
/* Admits waiting workers to the ranks that are open. */
void coordinate_seat(struct coordinator *c);
/* Sends a packet to a worker that waits for a rank. */
void coordinate_tell_waiting(struct coordinator *c, struct waiting *w, struct packet p);
void coordinate_forget_waiting(struct coordinator *c, int i);
bool coordinate_zero(const unsigned char id[CLUSTER_ID]);
/* Returns true if the bytes are equal. The duration does not reveal the position of a difference. */
bool coordinate_same(struct span said, const unsigned char want[CLUSTER_ID]);

/* Dismisses waiting workers that are silent, and shows the others that this coordinator is alive. */
void coordinate_tick_waiting(struct coordinator *c);

#endif
