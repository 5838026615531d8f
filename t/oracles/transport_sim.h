/* transport_sim.h - a transport between plan partitions on one simulator: copies bytes between heaps.
 *
 * A seed decides when the bytes of a put() are copied: at once, or later. A transport belongs to its creator; only
 * one thread may use it. */
#ifndef RILLE_ORACLES_TRANSPORT_SIM_H
#define RILLE_ORACLES_TRANSPORT_SIM_H

#include "actors/plan/model/plan.h"
#include "actors/plan/model/transport.h"

struct sim_wire; /* Transport that connects the channels of several partitions. */
/* Makes the transport of n partitions. part[i]: plan partition of host i; far[i]: for each of its channels, the
 * channel at the other end (channels_match). Partitions and `far` must outlive the transport. */
struct sim_wire *sim_wire_new(const struct plan *const *part, const struct channel_far *const *far, int n,
                              uint64_t seed);
const struct transport *sim_wire_end(const struct sim_wire *w, int part);
/* Drops bytes in flight. Call this before a run, and after a run that ended early. */
void sim_wire_reset(struct sim_wire *w);
void sim_wire_free(struct sim_wire **w);

#endif
