/* transport_sim.h - a transport between parts that run on one simulator: it copies bytes from one heap to another.
 *
 * A seed says when bytes leave the place where put() found them: at once, or later. Belongs to whoever made it; one
 * thread. */
#ifndef RILLE_ACT_TRANSPORT_SIM_H
#define RILLE_ACT_TRANSPORT_SIM_H

#include "actors/plan/plan.h"
#include "actors/plan/transport.h"

struct sim_wire; /* all channels of connected parts */
/* part[i] is that of memory i; far[i] its channels' other ends (channels_match). Both outlive the wire. */
struct sim_wire *sim_wire_new(const struct plan *const *part, const struct channel_far *const *far, int n,
                              uint64_t seed);
const struct transport *sim_wire_end(const struct sim_wire *w, int part);
/* Drops what is under way: before a run, after one that ended early. */
void sim_wire_reset(struct sim_wire *w);
void sim_wire_free(struct sim_wire **w);

#endif
