/* comm_ranks.h - ranks of library collectives in this plan partition and in others, and the point-to-point links
 * on which a library sends bytes between devices of two hosts.
 *
 * A collective has a task at each mesh position, in the partition of the position's host. The plan has no channel
 * or message for a collective. For point-to-point transfers by the library, the plan has direct channels
 * (channel.h). The proof of each partition assumes that all positions take part in the same collective. So each
 * partition writes a list of its collectives, and the lists of all partitions are compared before a run. The
 * functions are pure and may run on any thread. */
#ifndef RILLE_PLAN_COMM_RANKS_H
#define RILLE_PLAN_COMM_RANKS_H

#include "actors/plan/model/plan.h"

/* Returns true if plans may use the collective library of this device kind. A kind with streams must also have
 * compiled packing kernels: host code that packs would have to wait for the stream. */
bool comm_ranks_library(int kind);

/* Returns the task at rank `comm_rank` of the collective in which `task` takes part; -1: that task is in another
 * partition. */
int32_t comm_ranks_partner(const struct plan *p, int32_t task, int32_t comm_rank);
/* Returns true if the task's collective has ranks in other partitions. */
bool comm_ranks_abroad(const struct plan *p, int32_t task);

/* Lists the communicators (groups and point-to-point links) of the plan without duplicates, in the order in which
 * all partitions create them. Returns the number of communicators. */
int32_t comm_ranks_communicators(const struct plan *p, struct arena *a, struct communicator ***out);

/* Appends this partition's list of collectives: 64-bit numbers, least significant byte first. */
void comm_ranks_write(const struct plan *p, struct str *s);
/* A partition's list of collectives, as comm_ranks_write() wrote it. The bytes may come from an untrusted source. */
struct comm_ranks_list {
    int memory;
    const void *bytes;
    size_t n;
};
/* Compares the lists of n partitions. E_PLAN: the error text names the first hop whose rows differ, or in which a
 * mesh position is missing. */
int comm_ranks_match(int n, const struct comm_ranks_list *list);

#endif
