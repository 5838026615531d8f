/* schedule_family.h - the table of named schedules that a search can find.
 *
 * Each entry has the required placement of stages, the number of micro-batches that a device may hold, and the
 * assumed costs. The data are static and may be read on any thread. */
#ifndef RILLE_PLAN_SCHEDULE_FAMILY_H
#define RILLE_PLAN_SCHEDULE_FAMILY_H

#include "runtime/base/base.h"

/* Times per micro-batch of a stage, ns. move: latency between the devices of two stages. */
struct schedule_search_costs {
    double forward, backward, weight, move;
    bool kept; /* true: the times exclude recomputation, whose time the search adds; false: they include it */
};

/* Ways to place stages on p devices. Devices of stages 0, 1, 2, 3 for p = 2: DEALT_ANYHOW: any devices;
 * DEALT_ROUND_ROBIN: 0 1 0 1; DEALT_THERE_AND_BACK: 0 1 1 0. */
enum stage_dealing { DEALT_ANYHOW, DEALT_ROUND_ROBIN, DEALT_THERE_AND_BACK };

struct schedule_family {
    const char *name;
    enum stage_dealing dealing;
    bool hidden; /* users may not give this name */
    /* true: the schedule is fixed and runs groups of p micro-batches on p devices; false: the search tries pool
     * sizes */
    bool rounds;
    /* Returns the number of contexts of device `lane` of p devices, summed over its v stages: micro-batches that it
     * holds at once. NULL: the schedule has no formula. */
    int32_t (*contexts)(int32_t p, int32_t v, int32_t lane);
    /* costs to assume if the user gives none, equal for all stages; NULL: costs are estimated */
    const struct schedule_search_costs *costs;
};

/* Returns the schedule family with that name; NULL: none. */
const struct schedule_family *schedule_family(const char *name);
/* Returns the i-th schedule family, from 0, that users may name; NULL: there are no more. */
const struct schedule_family *schedule_family_at(int i);
/* Returns the number of micro-batches that device `lane` of p devices holds at once with the named schedule,
 * summed over its v stages; 0: the schedule has no formula. */
int32_t schedule_contexts(const char *name, int32_t p, int32_t v, int32_t lane);

#endif
