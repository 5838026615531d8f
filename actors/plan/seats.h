/* seats.h - who takes part in a collective of a library: in this part, and in those of other memories; the edges by
 * which it brings bytes from a device to one of another memory.
 *
 * A move that is such a collective has a task at each of its positions, in whichever part that lies. Nothing that the
 * plan knows of goes between parts then: no channel, no message. What a library brings from device to device has a
 * channel, which is direct (channel.h). That all take part, and in the same, is the contract
 * on which the proofs of the parts rest: each writes a list of its collectives, and whoever has the lists of all parts
 * compares them before they run. Pure; any thread. */
#ifndef RILLE_PLAN_SEATS_H
#define RILLE_PLAN_SEATS_H

#include "actors/plan/plan.h"

/* May plans leave moves among devices of this kind to a library? What is launched needs kernels that pack: host code
 * would have to wait in between. */
bool seats_library(int kind);

/* The task that has a seat of the collective in which `task` has another; -1: it is in another part. */
int32_t seats_partner(const struct plan *p, int32_t task, int32_t seat);
/* Has the collective of a task seats in other parts? */
bool seats_abroad(const struct plan *p, int32_t task);

/* The communicators in which the plan has seats, groups and edges, each once, in the order in which all parts make
 * theirs. */
int32_t seats_communicators(const struct plan *p, struct arena *a, struct communicator ***out);

/* Appends what the part says of its collectives, as numbers of 64 bits, least byte first. */
void seats_write(const struct plan *p, struct str *s);
/* The lists of the parts of n memories, from anybody. E_PLAN: names the first hop that they do not agree about, or in
 * which not every position takes part. */
struct seats_list {
    int memory;
    const void *bytes;
    size_t n;
};
int seats_match(int n, const struct seats_list *list);

#endif
