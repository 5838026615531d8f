/* coordinator_epoch.h - forms an epoch, and gathers the next one after a loss. Any thread that holds the cluster's
 * lock. */
#ifndef RILLE_ACTORS_CLUSTER_COORDINATOR_COORDINATOR_EPOCH_H
#define RILLE_ACTORS_CLUSTER_COORDINATOR_COORDINATOR_EPOCH_H

#include "actors/cluster/coordinator/coordinator.h"

/* Begins an epoch, after NOTICE_FULL. The data to which *f points must stay valid until NOTICE_FORMED. */
struct form {
    uint32_t threads, abilities;
    const char *segment, *bus; /* paths of the shared memory and of the bus on the coordinator's own host */
    uint32_t table; /* version of the tables of ranges and slots; if it changes, programs are compiled again */
    int nrange, nslot;
    const struct range *range;
    const struct slot *slot;
    const uint64_t *bytes; /* size of each memory in bytes */
};
void coordinator_form(struct coordinator *c, const struct form *f);
/* Returns the instruction sets that all processes of the job have in common. These sets are determined when the
 * first epoch is formed. */
uint32_t coordinator_isa(const struct coordinator *c);

/* Begins to gather the next epoch with `workers` members. May be called only in phase BROKEN, or, in an elastic job,
 * in phase IDLE without requests about files in progress. Opens ranks that were lost, or had not joined, for new
 * workers: first the lowest rank of each memory without a member, then the lowest other ranks. The remaining ranks are
 * retired, for good unless the job is elastic. E_ARG: `workers` is less than the number of living members plus memories
 * without a member, less than the smallest number of an elastic job, or more than the number of ranks that are not
 * retired for good. */
int coordinator_recover(struct coordinator *c, int workers);

/* Appends the ranks that have not joined, as in "1, 4-7". Returns the number of ranges in the text. */
int coordinator_absent(const struct coordinator *c, struct str *out);
/* Returns true if a member is on the memory's host. */
bool coordinator_inhabited(const struct coordinator *c, int memory);
/* coordinate_speaks returns true if one worker of each host, the speaker, relays heartbeats now.
 * coordinate_is_spoken returns true if a speaker relays the heartbeats of this rank. */
bool coordinate_speaks(const struct coordinator *c);
bool coordinate_is_spoken(const struct coordinator *c, int rank);
int coordinate_keeper(const struct coordinator *c, int memory);
/* Returns the lowest rank that must be restarted to get a member for this memory (host). -1: there is no such rank,
 * the memory has a living member, or the job can do without the memory. */
int coordinate_first_gone(const struct coordinator *c, int memory);
void coordinate_made(struct coordinator *c, int rank, const struct packet *p);
void coordinate_ready(struct coordinator *c, int rank, const struct packet *p);
void coordinate_meet(struct coordinator *c, int rank, const struct packet *p);

/* Returns true if `memory` is the memory of the coordinator's host, and `machine` is that host. machine NULL: returns
 * false. */
bool coordinate_joins_own(const struct coordinator *c, int memory, const char *machine);

#endif
