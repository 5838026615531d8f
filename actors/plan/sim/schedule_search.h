/* schedule_search.h - schedule search: finds the pipeline schedule with the least bubble within a memory limit.
 *
 * A schedule is given by pool sizes and a priority rule. Pool sizes usually follow a line: stage q of n stages
 * may hold ceil((n - 1 - q) slope + base) micro-batches. The rule sets the priorities of acts (stage.c).
 * schedule_search_run() simulates some thousand schedules and stores in the program the best one that fits. The
 * choice depends on the program and the costs alone. The functions are pure and may run on any thread. */
#ifndef RILLE_PLAN_SCHEDULE_SEARCH_H
#define RILLE_PLAN_SCHEDULE_SEARCH_H

#include "actors/plan/sim/pipeline_sim.h"
#include "actors/plan/sim/schedule_family.h"

struct schedule_search_request {
    /* "zb-v", "v-half", "v-min", "interleaved", "auto", or "memory" (no named schedule, only memory limits) */
    const char *name;
    /* memory limit per device. Values up to 16 are factors of the bytes that 1F1B holds on its fullest device;
     * larger values are bytes */
    double memory;
    int64_t most; /* additional limit of the activations on a device, bytes; 0: none */
    bool least;   /* true: find the schedule with the least memory, whatever its time; `memory` is then ignored */
    /* bytes that 1F1B holds on its fullest device, to which a factor in `memory` applies. If *base is 0, the search
     * computes them and stores them there. May be NULL */
    int64_t *base;
    int64_t *possible; /* out: least bytes of any schedule found, set if no schedule fits; may be NULL */
    int64_t *allowed;  /* out: the limit of activations that the search used, bytes; 0: none; may be NULL */
    /* costs of the stages; NULL: costs are estimated. For a named schedule (not "auto"), the costs must be equal
     * for all stages */
    const struct schedule_search_costs *costs;
};

struct schedule_search_result {
    double time;         /* predicted time of a step, ns */
    double bubble;       /* share of the devices' time in which they are idle, 0 to 1 */
    int64_t bytes, base; /* approximate bytes of activations on the fullest device: with this schedule; with 1F1B */
    int32_t contexts;    /* largest number of micro-batches that a device holds at once, summed over its stages */
    double again;        /* recomputed forward work, as a fraction of all forward work, 0 to 1 */
};

/* Returns true if the search supports this schedule name and users may give it. */
bool schedule_search_knows(const char *name);
/* Returns true if the schedule folds stages: divides a stage into two stages if the stage's results return to the
 * devices of its input. */
bool schedule_search_folds(const char *name);
/* Chooses the pool sizes and the priority rule of a program with micro-batches. E_ARG: the placement of the stages
 * is not the one that the schedule requires. E_MEMORY: no schedule fits; the error reports the least memory with
 * which one fits. Errors name the source lines at which stages begin. */
int schedule_search_run(struct program *p, const struct schedule_search_request *wish);
/* Estimates time and memory of the program's current schedule from the costs of the stages. Returns false if the
 * program has a single stage or a single micro-batch. */
bool schedule_search_read(const struct program *p, const struct schedule_search_costs *costs,
                          struct schedule_search_result *out);

#endif
