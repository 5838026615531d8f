/* compiled.h - a compiled step: what trace.c records, compiled.c calls and measure.c tells about. Nothing else looks
 * into it.
 *
 * Each leaf of the program knows where its bytes come from at every call: an argument, a variable's present version, a
 * gradient, or a value that the trace captured. Each root knows what it becomes. A graph belongs to its session and the
 * session's thread; it holds the tensors and values that it names. */
#ifndef RILLE_SESSION_COMPILED_H
#define RILLE_SESSION_COMPILED_H

#include "actors/plan/dial.h"
#include "actors/session/segments.h"
#include "actors/session/session.h"

/* Where the bytes of leaf i of the program come from at a call. */
struct origin {
    enum origin_kind { FROM_INPUT, FROM_VARIABLE, FROM_GRADIENT, FROM_VALUE } kind;
    int32_t input;          /* argument */
    struct rille_tensor *t; /* held: the variable, or whose gradient; until it is placed: an argument that is "auto" */
    bool free;              /* of a variable, an argument: where it lies was the planner's to choose at the trace */
    bool requires_grad;     /* of a variable, when it was traced; at a call it must be so */
    struct val *val;        /* held: FROM_VALUE, as the trace captured it */
};
/* What root `root` becomes after a call: a result of the step, the new version of a variable, or its gradient. Several
 * outcomes may share a root: a step may return one value twice, or return and assign it. */
struct outcome {
    enum outcome_kind { TO_RESULT, TO_VARIABLE, TO_GRADIENT } kind;
    int32_t root;
    struct rille_tensor *t; /* held: the variable; NULL for a result */
};
/* Whether a variable has a gradient: a call needs it as it was before the trace, and leaves it as it was after. */
struct gradient_state {
    struct rille_tensor *t; /* held */
    bool before, after;
};

/* Of the plans that whatif has met on one mesh, the one that takes least: what it told is found again. */
struct least_met {
    int naxis;
    int32_t mesh[MAX_AXIS];
    int64_t bytes;   /* a device, scratch memory with it */
    int64_t counted; /* as a search counts them: all stages' devices as one, without scratch */
    int32_t *choice, nchoice;
};
struct rille_graph {
    struct rille_session *s;
    struct rille_graph *next, *back; /* in its list */
    struct runner *runner;
    bool meta; /* on devices that are not there: calls give tensors without values */
    uint64_t generation;
    int64_t nrandom; /* ordinals that a call takes */
    int32_t nin, nout, nleaf, noutcome, nnumber, nlive, ngradient;
    struct type *in_type;
    const struct layout **in_layout;
    bool *in_placed;          /* by argument: a planner chose that; one that is "auto" is laid so at a call */
    struct origin *origin;    /* by leaf */
    struct outcome *outcome;  /* noutcome: results in order, then gradients, then variables */
    struct segments segments; /* of the arguments' rows */
    struct store **sorted;    /* by leaf: an argument's rows in order of pieces, for one run; NULL: they lie so */
    struct number *number;
    struct rille_live **live; /* nlive, held: each is asked once a call */
    struct gradient_state *gradient;
    bool sliced;               /* its updates are (zero) */
    struct assigned *assigned; /* of a planned step (planned.c), or NULL */
    int64_t search_ns;         /* its time limit */
    bool searched;             /* so is its schedule, after the layouts */
    struct least_met met;
    struct program *traced;    /* its program before the planner; NULL: there was none */
    bool asking;               /* its live numbers */
    bool watched;              /* somebody asked for a time line: every call times its acts */
    int64_t ncall, timed_call; /* calls, and the last that was timed */
    struct rille_stats stats;
    struct act_time *act; /* of the last timed run */
    int32_t *act_thread;
    int64_t nact, act_capacity, act_thread_capacity, begin_ns;
    struct lane_rows rows; /* what all threads are expected to do, by the first calls; or none */
    char *trace_path;
    struct arena arena;
};

enum { WARM_CALLS = 2 }; /* by the times of so many first calls rows are made; one with rows is timed, too */

/* chart.c: gives costs as a dial has them. E_ARG. */
int dial_costs_of(const struct rille_chart_costs *k, struct dial_costs *out);
/* measure.c: returns what a device holds at most during a step: leaves, registers, scratch, and results that lie over
 * nothing. Gives which device of the plan that is, unless NULL. */
int64_t measure_held(const struct plan *p, int32_t *device);
/* measure.c: does no device hold more than that? E_MEMORY: names the largest tenants of the registers. */
int measure_fits(const struct plan *p, int64_t limit);
/* measure.c: keeps the times of the run that just ended. */
void measure_keep(struct rille_graph *g);
/* rows.c: from now on threads, of all processes, wait for what the times that were kept last say is next. */
void rows_make(struct rille_graph *g);
struct whole;
/* rows.c: tells workers their parts of rows of the whole plan, with their next run; without lanes: none. */
void rows_give(struct rille_graph *g, const struct lane_rows *rows, const struct whole *w);

#endif
