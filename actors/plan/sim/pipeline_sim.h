/* pipeline_sim.h - pipeline simulator: virtual stages alone on a virtual clock; finds the time of a schedule and the
 * micro-batches it holds.
 *
 * Each stage has one act of forward, backward and weight gradients per micro-batch. A lane, the devices of one
 * placement, runs one act at a time. plan_sim.h simulates the tasks of a plan on the same clock; pipeline_sim_run()
 * tries a thousand schedules and abandons a hopeless one early. Pure, any thread. */
#ifndef RILLE_PLAN_PIPELINE_SIM_H
#define RILLE_PLAN_PIPELINE_SIM_H

#include "actors/plan/outline/stage.h"

enum { NACT = 3 }; /* as in enum node_phase: forward, backward, weight gradients */

struct link { /* forward data flows between two stages */
    int32_t from, to;
};
/* Bytes on a device per micro-batch of a stage: kept by forward for backward, by forward for weight gradients, by
 * backward for weight gradients. */
struct stage_bytes {
    int64_t backward, weight, behind;
};
struct pipeline {
    int32_t n, nlane, nlink, pieces;
    int32_t *lane;         /* by stage */
    int64_t (*cost)[NACT]; /* by stage: time of an act, ns */
    int64_t hop;           /* latency between lanes, ns */
    int64_t (*wire)[NACT]; /* by stage: time that an act's results occupy the links to other lanes, ns, one micro-batch
                              after the other; NULL: 0 */
    int64_t *begin;        /* by lane: start time, ns; NULL: all 0 */
    struct link *link;     /* sorted by from */
    bool trained;          /* the pipeline has a backward pass */
    const bool *joint;     /* by stage: backward consists of weight gradients alone */
    struct stage_bytes *bytes; /* by stage */
    double *once, *again;      /* by stage: ns per micro-batch of forward, and of its part that backward recomputes */
};

/* A program's priority rule: turns of each stage's acts, and rounds (stage.h). */
struct pipeline_sim_rule {
    struct stage_turn (*turn)[NACT];
    int32_t group, round;
};

/* Target of a simulation: less time, or equal time and fewer bytes, within the limits. */
struct pipeline_sim_aim {
    int64_t time, bytes;
    int64_t floor;         /* proven lower bound of the time of any schedule */
    int64_t most_bytes;    /* limit of a lane's bytes */
    int32_t most_contexts; /* limit of a lane's contexts */
};

struct pipeline_sim_result {
    int64_t time;           /* ns; 0: deadlocked, or abandoned because the aim is out of reach */
    struct prog_pool *peak; /* by stage: most that was in use of each pool; owned by the caller */
    int64_t bytes;          /* peak bytes of the fullest lane, if pools are as large as `peak` */
    int32_t contexts;       /* peak number of pieces between forward and the end of weight gradients on a lane */
    int64_t *end;           /* by lane: end of its last act; owned by the caller; may be NULL */
    int64_t acts;           /* number of acts simulated */
};
/* State shared by the simulations of a pipeline. In the arena; borrows the pipeline. One thread. */
struct simulator *simulator_open(const struct pipeline *p, struct arena *a);
void pipeline_sim_run(struct simulator *t, const struct pipeline_sim_rule *rule, const struct prog_pool *pool,
                      const struct pipeline_sim_aim *aim, struct pipeline_sim_result *out);

#endif
