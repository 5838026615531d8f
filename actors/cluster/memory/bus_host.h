/* bus_host.h - messages between device threads of several processes on one host.
 *
 * A bus end is a slot of the cluster. The ends share one segment: a message ring for each pair of ends, written by
 * the sender only, and for each end a futex word to sleep on. The segment belongs to an epoch; the controller makes
 * it, the workers map it, and each process opens the ends of its own slots with bus_kind's open (options.with: the
 * bus from bus_host_map()).
 *
 * As between threads, the arrival of a message orders the register bytes that the message is about; both processes
 * map those bytes.
 *
 * A message may arrive before this process is told to begin the message's run. Until then the message stays in its
 * ring (admit). */
#ifndef RILLE_CLUSTER_BUS_HOST_H
#define RILLE_CLUSTER_BUS_HOST_H

#include "actors/act/bus/bus.h"

enum { BUS_HOST_SLOTS = 256 };

/* Returns the bytes of a segment for that many slots. */
size_t bus_host_bytes(int nslot);
/* Initializes a segment, in fresh (zero) memory. */
void bus_host_format(void *segment, int nslot);

/* Creates the bus of one process on a segment. owner: by slot, the process that runs the slot; the slots of a
 * process are its threads, in order. E_BUS: not a segment of that many slots. bus_kind's close frees the bus. */
int bus_host_map(void *segment, size_t bytes, int nslot, const uint32_t *owner, struct bus **out);
/* Sets the handler for messages to addresses without a slot, which are processes of other hosts, before the first
 * message is sent. The sending thread calls send. */
struct bus_far {
    void *of;
    int (*send)(void *of, const struct msg *m);
};
void bus_host_far(struct bus *b, const struct bus_far *far);
/* Delivers a message from a different host to a thread of this process; false: no space now. Drops a message for an
 * unknown thread. Only a single thread may deliver. bus_host_fetch_room returns true if there is space. */
bool bus_host_fetch(struct bus *b, const struct msg *m);
bool bus_host_fetch_room(struct bus *b, const struct msg *m);
/* Wakes the session thread if it is blocked on this bus. Any thread. */
void bus_host_nudge(struct bus *b);
/* Returns the word by which the processes decide if a run can still be cancelled (engine_options.gate). */
_Atomic uint64_t *bus_host_gate(void *segment);
/* Returns the progress word of a slot's thread, for observers in other processes (engine_options.doing). */
_Atomic uint64_t *bus_host_doing(void *segment, int slot);

/* Returns the word for the heartbeats of the slot's worker; down: the word for the coordinator's heartbeats to that
 * worker, left by its speaker (member.h). */
_Atomic uint64_t *bus_host_beat(void *segment, int slot, bool down);

extern const struct bus_kind bus_host;

#endif
