/* compiled.h - a compiled step: what trace.c records, compiled.c calls and measure.c tells about. Nothing else looks
 * into it.
 *
 * Each leaf of the program knows where its bytes come from at every call: an
 * argument, a variable's present version, a gradient, or a value that was
 * captured as it was. Each root knows what it becomes. */
#ifndef RILLE_SESSION_COMPILED_H
#define RILLE_SESSION_COMPILED_H

#include "actors/session/segments.h"
#include "actors/session/session.h"

enum place_kind { FROM_INPUT, FROM_VARIABLE, FROM_GRADIENT, FROM_VALUE };
struct origin {
    enum place_kind kind;
    int32_t input;
    struct rille_tensor *t; /* held: the variable, or whose gradient */
    struct val *val;        /* held: FROM_VALUE */
};
struct outcome {
    enum place_kind kind; /* FROM_INPUT: a result, number `input` */
    int32_t input;
    struct rille_tensor *t; /* held */
};
struct presence {
    struct rille_tensor *t; /* held */
    bool had, has;          /* a gradient before and after */
};

struct rille_graph {
    struct rille_session *s;
    struct rille_graph *next, *back; /* in its list */
    struct runner *runner;
    bool meta; /* on devices that are not there: calls give tensors without values */
    uint64_t epoch;
    int64_t nrandom; /* ordinals that a call takes */
    int32_t nin, nout, nleaf, nroot, nnumber, npresence;
    struct type *in_type;
    const struct layout **in_layout;
    struct origin *origin;    /* by leaf */
    struct outcome *outcome;  /* by root */
    struct segments segments; /* of the arguments' rows */
    struct store **sorted;    /* by leaf: an argument's rows in order of pieces, for one run; NULL: they lie so */
    struct number *number;
    struct presence *presence;
    bool sliced;               /* its updates are (zero) */
    struct assigned *assigned; /* of a planned step (planned.c), or NULL */
    struct program traced;     /* its program before it was planned: nodes, leaves, roots; in the plan's arena */
    bool asking;               /* its live numbers */
    bool watched;              /* a time line was asked for: acts of every call are timed */
    int64_t ncall;
    struct rille_stats stats;
    struct act_time *act; /* of the last run that was timed */
    int32_t *act_thread;
    int64_t nact, act_capacity, act_thread_capacity, begin_ns;
    char *trace_path;
    struct arena arena;
};

enum { WARM_CALLS = 2 }; /* the first calls are timed, whether asked or not */

/* measure.c: keeps the times of the run that just ended. */
void measure_keep(struct rille_graph *g);

#endif
