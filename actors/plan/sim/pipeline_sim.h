/* pipeline_sim.h - pipeline simulator: simulates virtual stages, without their tasks; finds the time of a schedule
 * and the micro-batches that it holds.
 *
 * Each stage has one act of forward, backward and weight gradients per micro-batch. A lane stands for the devices of
 * one placement and runs one act at a time. plan_sim.h simulates the tasks of a plan instead. pipeline_sim_run() is
 * used to try a thousand schedules, and abandons a hopeless schedule early. Pure, any thread. */
#ifndef RILLE_PLAN_PIPELINE_SIM_H
#define RILLE_PLAN_PIPELINE_SIM_H

#include "actors/plan/outline/stage.h"

enum { NACT = 3 }; /* acts of a stage as in enum node_phase: forward, backward, weight gradients */

struct link { /* a flow of forward data from one stage to another */
    int32_t from, to;
};
/* Bytes per micro-batch that a stage holds on a device: from forward to backward, from forward to weight gradients,
 * from backward to weight gradients. */
struct stage_bytes {
    int64_t backward, weight, behind;
};
struct pipeline {
    int32_t n, nlane, nlink, pieces;
    int32_t *lane;         /* by stage: its lane */
    int64_t (*cost)[NACT]; /* by stage: time of each act, ns */
    int64_t hop;           /* latency of data between lanes, ns */
    /* by stage: time for which an act's results occupy the links to other lanes, ns; micro-batches use a link in
     * turn. NULL: 0 */
    int64_t (*wire)[NACT];
    int64_t *begin;            /* by lane: start time, ns; NULL: all 0 */
    struct link *link;         /* links, sorted by `from` */
    bool trained;              /* the pipeline has a backward pass */
    const bool *joint;         /* by stage: backward consists of weight gradients alone */
    struct stage_bytes *bytes; /* by stage: bytes per micro-batch */
    /* by stage: time of forward per micro-batch, ns; time of the part of forward that backward recomputes */
    double *once, *again;
};

/* A program's priority rule: the turns of each stage's acts, and the rounds (stage.h). */
struct pipeline_sim_rule {
    struct stage_turn (*turn)[NACT];
    int32_t group, round;
};

/* Aim of a simulation: less time than `time`, or equal time and fewer bytes than `bytes`, within the limits. */
struct pipeline_sim_aim {
    int64_t time, bytes;
    int64_t floor;      /* proven lower bound of the time of any schedule, ns */
    int64_t most_bytes; /* limit of the bytes on a lane */
    /* limit of the contexts on a lane: micro-batches between forward and the end of weight gradients */
    int32_t most_contexts;
};

struct pipeline_sim_result {
    /* simulated time, ns; 0: the schedule deadlocks, or was abandoned because it cannot reach the aim */
    int64_t time;
    struct prog_pool *peak; /* by stage: most micro-batches in each pool at once; owned by the caller */
    int64_t bytes;          /* bytes on the fullest lane if each pool has the size in `peak` */
    int32_t contexts;       /* most micro-batches between forward and the end of weight gradients on a lane at once */
    int64_t *end;           /* by lane: end of its last act, ns; owned by the caller; may be NULL */
    int64_t acts;           /* number of acts simulated */
};
/* Makes the state shared by all simulations of a pipeline. The state is allocated in the arena and refers to the
 * pipeline. One thread. */
struct simulator *simulator_open(const struct pipeline *p, struct arena *a);
void pipeline_sim_run(struct simulator *t, const struct pipeline_sim_rule *rule, const struct prog_pool *pool,
                      const struct pipeline_sim_aim *aim, struct pipeline_sim_result *out);

#endif
