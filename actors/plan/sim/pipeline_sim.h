/* pipeline_sim.h - pipeline simulator: simulates virtual stages instead of tasks, and finds how long a schedule
 * takes and how many micro-batches it holds.
 *
 * Each stage has one act of forward, of backward and of weight gradients per micro-batch. A lane stands for the
 * devices of one placement and runs one act at a time. A schedule search tries a thousand schedules with
 * pipeline_sim_run(), which abandons a hopeless schedule early. (plan_sim.h simulates the tasks of a plan.) Pure,
 * any thread. */
#ifndef RILLE_PLAN_PIPELINE_SIM_H
#define RILLE_PLAN_PIPELINE_SIM_H

#include "actors/plan/outline/stage.h"

enum { NACT = 3 }; /* kinds of acts of a stage, as in enum node_phase: forward, backward, weight gradients */

struct link { /* A flow of forward data from one stage to another. */
    int32_t from, to;
};
/* Bytes per micro-batch that a stage holds on a device. backward: from forward to backward; weight: from forward
 * to weight gradients; behind: from backward to weight gradients. */
struct stage_bytes {
    int64_t backward, weight, behind;
};
struct pipeline {
    int32_t n, nlane, nlink, pieces;
    int32_t *lane;         /* by stage: its lane */
    int64_t (*cost)[NACT]; /* by stage and kind of act: duration of the act, ns */
    int64_t hop;           /* latency between two lanes, ns */
    /* by stage and kind of act: time for which the result occupies the link to another lane, ns. A link transfers
     * one result at a time. NULL: no time */
    int64_t (*wire)[NACT];
    int64_t *begin;            /* by lane: start time, ns; NULL: all 0 */
    struct link *link;         /* links, sorted by `from` */
    bool trained;              /* the pipeline has a backward pass */
    const bool *joint;         /* by stage: backward consists of weight gradients alone */
    struct stage_bytes *bytes; /* by stage: bytes per micro-batch */
    /* by stage, ns per micro-batch. once: time of forward; again: time of those forward nodes that backward
     * recomputes */
    double *once, *again;
};

/* A program's priority rule: the turns of each stage's acts, and the size of rounds (stage.h). */
struct pipeline_sim_rule {
    struct stage_turn (*turn)[NACT];
    int32_t group, round;
};

/* Aim of a simulation: a schedule that takes less than `time`, or takes `time` with fewer bytes than `bytes`. It
 * must respect the limits below. */
struct pipeline_sim_aim {
    int64_t time, bytes;
    int64_t floor;      /* proven lower bound of the time of any schedule, ns */
    int64_t most_bytes; /* limit of bytes on any lane */
    /* limit of contexts on any lane; a context is a micro-batch between forward and the end of weight gradients */
    int32_t most_contexts;
};

struct pipeline_sim_result {
    /* simulated time, ns; 0: the schedule deadlocks, or the simulation was abandoned because the schedule cannot
     * reach the aim */
    int64_t time;
    struct prog_pool *peak; /* by stage: largest number of micro-batches in each pool; owned by the caller */
    int64_t bytes;          /* bytes on the fullest lane if all pools are as full as in `peak` */
    int32_t contexts;       /* largest number of contexts on any lane */
    int64_t *end;           /* by lane: end of its last act, ns; owned by the caller; may be NULL */
    int64_t acts;           /* number of acts simulated */
};
/* Makes the state that all simulations of a pipeline share. The state is allocated in the arena and refers to the
 * pipeline. One thread. */
struct simulator *simulator_open(const struct pipeline *p, struct arena *a);
void pipeline_sim_run(struct simulator *t, const struct pipeline_sim_rule *rule, const struct prog_pool *pool,
                      const struct pipeline_sim_aim *aim, struct pipeline_sim_result *out);

#endif
