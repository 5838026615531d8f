/* schedule_search.h - schedule search: finds the pipeline schedule with the least bubble within a memory limit.
 *
 * A schedule is given by pool sizes and a priority rule. Pool sizes follow a line: stage q of n may hold ceil((n - 1
 * - q) slope + base) micro-batches. The rule sets the priorities of acts (stage.c). schedule_search_run() simulates
 * some thousand schedules and stores the best one that fits in the program. The choice depends on the program and
 * the costs alone. Pure; any thread. */
#ifndef RILLE_PLAN_SCHEDULE_SEARCH_H
#define RILLE_PLAN_SCHEDULE_SEARCH_H

#include "actors/plan/sim/pipeline_sim.h"
#include "actors/plan/sim/schedule_family.h"

struct schedule_search_request {
    const char *name; /* "zb-v", "v-half", "v-min", "interleaved", "auto", or "memory" (only the limits below) */
    /* memory limit. A value up to 16 is a factor of 1F1B's bytes on its fullest device; a larger value is in bytes
     * per device */
    double memory;
    int64_t most; /* additional limit of a device's activations, bytes; 0: none */
    bool least;   /* find the least memory, whatever the time; `memory` is ignored */
    /* bytes of 1F1B, to which the factor `memory` applies. If 0, the computed bytes are returned here; may be NULL */
    int64_t *base;
    int64_t *possible; /* if no schedule fits: returns the least bytes of any schedule found; may be NULL */
    int64_t *allowed;  /* returns the limit of activations used by the search, bytes; 0: none; may be NULL */
    /* costs of the stages; NULL: estimated; for a named schedule (not "auto"): equal for all stages */
    const struct schedule_search_costs *costs;
};

struct schedule_search_result {
    double time;         /* predicted time of a step, ns */
    double bubble;       /* fraction of the devices' time in which they are idle, 0 to 1 */
    int64_t bytes, base; /* approximate bytes of activations on the fullest device: of this schedule; of 1F1B */
    int32_t contexts;    /* most micro-batches that a device holds at once, summed over its stages */
    double again;        /* fraction of forward that backward recomputes, 0 to 1 */
};

/* Returns true if users may give this schedule name, and the search supports it. */
bool schedule_search_knows(const char *name);
/* Returns true if the schedule folds stages: a stage whose results return to the devices of its input becomes two. */
bool schedule_search_folds(const char *name);
/* Chooses the pool sizes and the priority rule of a program with micro-batches. E_ARG: the schedule does not support
 * the stages' devices. E_MEMORY: no schedule fits; the error gives the least memory. Errors name the source lines at
 * which stages begin. */
int schedule_search_run(struct program *p, const struct schedule_search_request *wish);
/* Estimates time and memory of the program's current schedule from the stages' costs. Returns false if the program
 * has a single stage or a single micro-batch. */
bool schedule_search_read(const struct program *p, const struct schedule_search_costs *costs,
                          struct schedule_search_result *out);

#endif
