/* price.h - cost model of the planner: the compute time of nodes, and the time of moves. Pure; any thread. */
#ifndef RILLE_ACTORS_PLAN_ASSIGN_PRICE_H
#define RILLE_ACTORS_PLAN_ASSIGN_PRICE_H

#include "actors/plan/assign/candidate.h"

/* Returns the time of moving a tensor of type t, in whole nanoseconds; NET_NEVER: the move is not allowed. asked:
 * true for an explicit move of the user, which may make a value partial. *bytes: bytes sent, summed over the
 * ranks. */
int64_t assign_price(const struct assign_prices *p, const struct type *t, const struct layout *from,
                     const struct layout *to, bool asked, int64_t *bytes);
/* Does the same as assign_price(), in less time. part: assign_part(t, to), which the caller already knows. */
int64_t assign_price_part(const struct assign_prices *p, const struct type *t, const struct layout *from,
                          const struct layout *to, int64_t part, bool asked, int64_t *bytes);
/* Return two terms of assign_price(), ns: assign_latency() the latency, assign_sending() the transfer time.
 * bytes: bytes that all ranks together receive. */
double assign_latency(const struct assign_prices *p, const struct layout *from, const struct layout *to);
double assign_sending(const struct assign_prices *p, const struct layout *from, const struct layout *to, int64_t bytes);
/* Return sizes in bytes. assign_part(): the largest shard of the tensor. assign_aligned(): `part` rounded up to the
 * alignment of registers. assign_register(): a register that holds the largest shard. */
int64_t assign_part(const struct type *t, const struct layout *l);
int64_t assign_aligned(int64_t part);
int64_t assign_register(const struct type *t, const struct layout *l);
/* Returns the mesh axis with the slowest links among the axes over which the move sends data; of equally slow axes,
 * the first; -1: the move sends over no axis. A move from another placement counts as using all axes, including
 * axes of size 1. */
int assign_axis(const struct layout *from, const struct layout *to, const struct assign_links *links);
/* Fills cost[], by candidate of the node: compute time of the busiest rank, summed over all acts, in whole ns.
 * NET_NEVER: the node's strategy excludes the candidate. */
void candidates_work(const struct program *p, const struct prog_node *n, const struct candidate_list *l,
                     const struct compute_rates *r, int64_t times, int64_t *cost);

#endif
