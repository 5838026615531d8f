/* bus_host.h - messages between the device threads of several processes of one host.
 *
 * An end is a slot of the cluster. All ends share one segment: a ring of messages for each two of them, which its
 * sender alone writes, and for each end a word on which it sleeps. The segment belongs to an epoch; the controller
 * makes it, the workers map it, and each opens the ends of its own slots with bus_kind's open (options.with: what
 * bus_host_map() gave).
 *
 * As between threads, a message's arrival orders the bytes that it is about: registers lie in memory that both map.
 *
 * A process may hear of a run before anybody tells it to begin it. Such messages stay in their ring until it does
 * (admit). */
#ifndef RILLE_CLUSTER_BUS_HOST_H
#define RILLE_CLUSTER_BUS_HOST_H

#include "actors/act/bus.h"

enum { BUS_HOST_SLOTS = 256 };

/* Bytes of the segment of so many slots. */
size_t bus_host_bytes(int nslot);
/* Lays it out, in fresh memory. */
void bus_host_format(void *segment, int nslot);

/* Maps the bus as one process sees it. owner: by slot, the process that runs it; a process's slots are its threads, in
 * order. E_BUS: the segment is not one of so many slots. Closing the last bus opened with it frees it. */
int bus_host_map(void *segment, size_t bytes, int nslot, const uint32_t *owner, struct bus **out);
/* Sets who takes messages to addresses that no slot has, those of processes of other hosts; before anybody sends any.
 * The thread that sends one calls send. */
struct bus_far {
    void *of;
    int (*send)(void *of, const struct msg *m);
};
void bus_host_far(struct bus *b, const struct bus_far *far);
/* Brings a message from there to a thread of this process; false: there is no room now. One thread brings all; drops
 * what names nobody here. */
bool bus_host_bring(struct bus *b, const struct msg *m);
bool bus_host_bring_room(struct bus *b, const struct msg *m);
/* Makes the session's end look up, whatever it waits for. Any thread. */
void bus_host_nudge(struct bus *b);
/* The word by which the processes decide whether they can still cancel a run (engine_options.gate). */
_Atomic uint64_t *bus_host_gate(void *segment);
/* What a slot's thread does, for whoever looks at it from outside: a word of the segment. */
_Atomic uint64_t *bus_host_doing(void *segment, int slot);

/* Where the slot's worker leaves its heartbeats, and the coordinator's for it (down) lie (member.h). */
_Atomic uint64_t *bus_host_beat(void *segment, int slot, bool down);

extern const struct bus_kind bus_host;

#endif
