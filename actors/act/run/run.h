/* run.h - the inputs of a run of a plan. Owner: the session, or the worker process; read-only during the run. */
#ifndef RILLE_ACT_RUN_H
#define RILLE_ACT_RUN_H

#include "actors/plan/sim/plan_sim.h"
#include "actors/plan/model/transport.h"

/* The plan, and the addresses of everything that is not a register. */
struct run {
    const struct plan *plan;
    void **leaf;                       /* by leaf part */
    void **root;                       /* by root part */
    uint64_t *number;                  /* double or int64_t, by number */
    void **arena;                      /* by plan device */
    struct line *line;                 /* by program node: line in the user's program, of this run */
    struct actors *actors;             /* the state of the plan's actors, kept between runs */
    const struct channel_far *far;     /* by channel: its other end */
    const struct transport *transport; /* carries the bytes of channels; NULL: no channels */
    const struct lane_rows *rows;      /* schedule rows of lanes; NULL: lanes never wait */
    bool timed;                        /* record when each act began and ended */
    bool stays_open;                   /* the run ends when its work is on streams (open_run.h) */
    /* Set by the engine. nth: run number, from 1. begin_ns: start time (CLOCK_MONOTONIC, like act times), or the end
     * of the previous run if later. elapsed_ns: duration; of an open run, until engine_run returned, and in the end
     * until its work was done. */
    uint64_t nth;
    int64_t begin_ns, elapsed_ns;
    bool poison; /* fill free registers with NaN (poison.h) */
    uint32_t id; /* run number given by the cluster; 0: the engine numbers the run */
    /* Tests: called with `hook` before an act begins work; an error fails the act. NULL: none. Set by engine_run. */
    int (*before_act)(void *hook, const struct act *a);
    void *hook;
};

#endif
