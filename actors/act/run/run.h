/* run.h - the inputs of one run of a plan. Owner: the session, or the worker process; read-only during the run. */
#ifndef RILLE_ACT_RUN_H
#define RILLE_ACT_RUN_H

#include "actors/plan/sim/plan_sim.h"
#include "actors/plan/model/transport.h"

/* A plan, and the addresses of the plan's data outside registers. */
struct run {
    const struct plan *plan;
    void **leaf; /* address of each leaf shard of the plan */
    void **root; /* address of each root (output) shard of the plan */
    /* live numbers: scalars of the user's program, evaluated before each run; each a double or an int64_t */
    uint64_t *number;
    void **arena;                      /* address of the arena of each plan device */
    struct line *line;                 /* line of each program node in the user's program, for this run */
    struct actors *actors;             /* state of the actors of the plan, kept between runs */
    const struct channel_far *far;     /* by channel: task and bus address at the other end, on another host */
    const struct transport *transport; /* functions that carry the bytes of channels; NULL: the plan has no channels */
    const struct lane_rows *rows;      /* schedule rows of lanes; NULL: lanes never wait for a task */
    bool timed;                        /* true: record begin and end times of acts */
    bool stays_open;                   /* true: the run ends as soon as its work is on streams (open_run.h) */
    /* Set by the engine. nth: run number, from 1. begin_ns: start time (CLOCK_MONOTONIC, like act times), or the end
     * of the previous run if that is later. elapsed_ns: duration of the run, ns. For a run that stays open,
     * elapsed_ns is first the time until engine_run() returned; it is set again when the run's work is done. */
    uint64_t nth;
    int64_t begin_ns, elapsed_ns;
    bool poison; /* true: fill free registers with NaN (poison.h) */
    uint32_t id; /* run number that the cluster assigns; 0: the engine numbers the run */
    /* For tests: function called with `hook` before an act begins its work; an error fails the act. NULL: none. Set
     * by engine_run. */
    int (*before_act)(void *hook, const struct act *a);
    void *hook;
};

#endif
