/* bus_host.h - messages between device threads of several processes on one host.
 *
 * A bus end is a slot of the cluster. The ends of a host share a segment. For each pair of ends, the segment has a
 * message ring, which only the sender writes. For each end, the segment has a futex word, on which the end's thread
 * sleeps. The segment belongs to an epoch. The controller makes the segment, and the workers map it. A process opens
 * the ends of its slots by bus_kind's open, with the bus from bus_host_map() as options.with.
 *
 * As between threads, a message's arrival makes the bytes of its register visible to the receiver; sender and
 * receiver both map these bytes. A message may arrive before this process knows that the message's run has begun.
 * Until then the message stays in its ring (bus_kind's admit). */
#ifndef RILLE_CLUSTER_BUS_HOST_H
#define RILLE_CLUSTER_BUS_HOST_H

#include "actors/act/bus/bus.h"
#include "actors/act/run/recorder.h"
#include "actors/cluster/wire/wire.h"

enum { BUS_HOST_SLOTS = 256 };

/* Returns the size, in bytes, of a segment for nslot slots (device threads of the host). */
size_t bus_host_bytes(int nslot);
/* Initializes a segment for nslot slots (device threads of the host), in zeroed memory. */
void bus_host_format(void *segment, int nslot);

/* Creates the bus of a process on a segment. owner: by slot, the process that runs the slot; the slots of a process
 * are its threads, in order. E_BUS: the segment was not made for nslot slots. bus_kind's close frees the bus. */
int bus_host_map(void *segment, size_t bytes, int nslot, const uint32_t *owner, struct bus **out);
/* Sets the function that sends messages to processes of other hosts, whose addresses have no slot. bus_host_far()
 * must be called before the first message is sent. The sending thread calls the function. */
struct bus_far {
    void *of;
    int (*send)(void *of, const struct msg *m);
};
void bus_host_far(struct bus *b, const struct bus_far *far);
/* bus_host_fetch delivers a message from another host to a thread of this process. It returns false if the thread's
 * ring is full, and drops a message for an unknown thread. Only one thread may deliver messages. bus_host_fetch_room
 * returns true if the ring has space for the message. */
bool bus_host_fetch(struct bus *b, const struct msg *m);
bool bus_host_fetch_room(struct bus *b, const struct msg *m);
/* Wakes the session's thread, if it sleeps until a message of this bus arrives. Any thread. */
void bus_host_nudge(struct bus *b);
/* Returns the shared word by which the processes decide whether a run can still be cancelled (engine_options.gate). */
_Atomic uint64_t *bus_host_gate(void *segment);
/* Returns the flight recorder of a slot's thread. The thread records its acts there, and other processes read them
 * (engine_options.recorder). */
struct recorder *bus_host_recorder(void *segment, int slot);

/* Returns one of the words that a slot's worker shares with the worker that relays its heartbeats (member.h). */
_Atomic uint64_t *bus_host_beat(void *segment, int slot, enum beat_word which);

extern const struct bus_kind bus_host;

#endif
