/* schedule_search.h - schedule search: finds the pipeline schedule with the least bubble within a memory limit.
 *
 * Pool sizes follow a line, ceil((n - 1 - q) slope + base) micro-batches on stage q of n; a rule sets the priorities
 * of acts (stage.c). schedule_search_run() simulates some thousand of these on a virtual clock and stores the best that
 * fits in the program. The choice depends on the program and the costs alone. Pure; any thread. */
#ifndef RILLE_PLAN_SCHEDULE_SEARCH_H
#define RILLE_PLAN_SCHEDULE_SEARCH_H

#include "actors/plan/sim/pipeline_sim.h"
#include "actors/plan/sim/schedule_family.h"

struct schedule_search_request {
    const char *name;  /* "zb-v", "v-half", "v-min", "interleaved", "auto", or "memory" (limits below) */
    double memory;     /* up to 16: factor of 1F1B's bytes on its fullest device; above: bytes per device */
    int64_t most;      /* further limit of a device's activations, bytes; 0: none */
    bool least;        /* find the least memory, at any time; ignore `memory` */
    int64_t *base;     /* 1F1B's bytes, scaled by `memory`: used if not 0, else returned here; may be NULL */
    int64_t *possible; /* returns the least bytes of any schedule found, if none fits; may be NULL */
    int64_t *allowed;  /* returns the resulting limit of activations, bytes, 0: none; may be NULL */
    const struct schedule_search_costs *costs; /* NULL: estimated; if named (not "auto"): equal on all stages */
};

struct schedule_search_result {
    double time;         /* time of a step, ns */
    double bubble;       /* idle fraction of the devices' time */
    int64_t bytes, base; /* activations of the fullest device, approximate; of 1F1B */
    int32_t contexts;    /* most micro-batches held by a device, over its stages */
    double again;        /* fraction of forward that backward recomputes */
};

/* Returns true if the search supports the schedule, and users may name it. */
bool schedule_search_knows(const char *name);
/* Returns true if the schedule splits a stage whose results return to its input's devices into two stages. */
bool schedule_search_folds(const char *name);
/* Sets the pools and the rule of a program in micro-batches. E_ARG: the schedule does not support the stages'
 * devices. E_MEMORY: no schedule fits; reports the least memory. Errors name source lines. */
int schedule_search_run(struct program *p, const struct schedule_search_request *wish);
/* Estimates the program's current schedule at these costs. Returns false if it has a single stage or micro-batch. */
bool schedule_search_read(const struct program *p, const struct schedule_search_costs *costs,
                          struct schedule_search_result *out);

#endif
