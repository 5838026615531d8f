/* schedule_family.h - the table of named schedules that a search can find: their requirements on the placement of
 * stages, the micro-batches that a device holds, and the assumed costs.
 *
 * Static data; any thread. */
#ifndef RILLE_PLAN_SCHEDULE_FAMILY_H
#define RILLE_PLAN_SCHEDULE_FAMILY_H

#include "runtime/base/base.h"

/* Nanoseconds per micro-batch of a stage. move: latency between the devices of two stages. */
struct schedule_search_costs {
    double forward, backward, weight, move;
    bool kept; /* costs are of a step without recomputation; recomputation is added */
};

/* Placements of the stages on p devices: any; 0 1 0 1 (round-robin); 0 1 1 0 (there and back). */
enum stage_dealing { DEALT_ANYHOW, DEALT_ROUND_ROBIN, DEALT_THERE_AND_BACK };

struct schedule_family {
    const char *name;
    enum stage_dealing dealing;
    bool hidden; /* not a name that users may give */
    bool rounds; /* one schedule, in groups of as many micro-batches as devices; false: searched among lines of pools */
    /* Returns the micro-batches that device `lane` of p holds at once, summed over its v stages. NULL: no formula. */
    int32_t (*contexts)(int32_t p, int32_t v, int32_t lane);
    const struct schedule_search_costs *costs; /* assumed if none are given, alike on all stages; NULL: estimated */
};

/* Returns the family of that name; NULL: none. */
const struct schedule_family *schedule_family(const char *name);
/* Returns family i, from 0, of those that users may name; NULL: no more. */
const struct schedule_family *schedule_family_at(int i);
/* Returns the micro-batches that device `lane` of p holds at once, summed over its v stages; 0: the name has no
 * formula. */
int32_t schedule_contexts(const char *name, int32_t p, int32_t v, int32_t lane);

#endif
