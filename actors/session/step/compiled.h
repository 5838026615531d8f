/* compiled.h - a compiled step: recorded by trace.c, called by compiled.c, measured by measure.c. Private to the
 * session.
 *
 * Each leaf of the program has a source for its bytes at every call: an argument, a variable's present version, a
 * gradient, or a value that the trace captured. Each root has an outcome. A graph belongs to its session and is used
 * on the session's thread. It holds the tensors and values that it names. */
#ifndef RILLE_SESSION_COMPILED_H
#define RILLE_SESSION_COMPILED_H

#include "actors/plan/sim/schedule_search.h"
#include "actors/session/step/measure.h"
#include "actors/session/step/segments.h"
#include "actors/session/core/session.h"

/* Source of the bytes of leaf i of the program at a call. */
struct origin {
    enum origin_kind { FROM_INPUT, FROM_VARIABLE, FROM_GRADIENT, FROM_VALUE } kind;
    int32_t input;          /* index of the argument */
    struct rille_tensor *t; /* held: the variable, or the owner of the gradient; an unplaced "auto" argument */
    bool free;       /* of a variable or an argument: the planner could choose the layout when the step was traced */
    struct val *val; /* held: FROM_VALUE, the value that the trace captured */
};
/* A variable that the traced calls read, whether the step needs it or not. A call requires the same requires_grad. */
struct read_variable {
    struct rille_tensor *t; /* held */
    bool requires_grad;
};
/* Use of root `root` after a call: a result of the step, the new version of a variable, or its gradient. Several
 * outcomes may share a root, because a step may return one value twice, or return and assign it. */
struct outcome {
    enum outcome_kind { TO_RESULT, TO_VARIABLE, TO_GRADIENT } kind;
    int32_t root;
    struct rille_tensor *t; /* held: the variable; NULL for a result */
};
/* Whether a variable has a gradient. A call requires the state before the trace and leaves the state after it. */
struct gradient_state {
    struct rille_tensor *t; /* held */
    bool before, after;
};

/* The plan of least memory that whatif found on one mesh; kept so that a later search finds the reported minimum
 * again. */
struct least_found {
    int naxis;
    int32_t mesh[MAX_AXIS];
    int64_t bytes;   /* per device, with scratch memory */
    int64_t counted; /* as a search counts bytes: devices of all stages as one, without scratch */
    int32_t *choice, nchoice;
};
/* The arguments of a step. */
struct step_inputs {
    int32_t n;
    struct type *type;
    const struct layout **layout;
    bool *placed;             /* by argument: a planner chose the layout; a call converts an "auto" argument to it */
    struct segments segments; /* segments of the arguments' rows */
    struct store **sorted; /* by leaf: argument with rows sorted by micro-batch, for one run; NULL: already in order */
};
/* The numbers that a step binds at each call. */
struct step_numbers {
    int32_t nnumber, nlive;
    struct number *number;
    struct rille_live **live; /* held: each is asked once per call */
    int64_t nrandom;          /* ordinals of random operators per call */
    bool asking;              /* a call is asking live numbers */
};
/* What a call requires of variables. */
struct step_variables {
    int32_t ngradient, nvariable;
    struct gradient_state *gradient;
    struct read_variable *variable;
};
/* How the step was planned. */
struct step_planning {
    struct assigned *assigned; /* the planner's result (planner/planned.c); NULL: not planned */
    struct program *traced;    /* the program before planning, for whatif; NULL: none */
    int64_t search_ns;         /* time limit of the search */
    bool searched;             /* the schedule is searched, after the layouts */
    bool sliced;               /* updates are sliced (ZeRO) or offloaded */
    struct least_found least;
};
struct rille_graph {
    struct rille_session *s;
    struct rille_graph *next, *back; /* links of the session's list */
    struct runner *runner;
    struct rille_graph *totals; /* owned: runs before each call, writes totals of the batch into variables; or NULL */
    bool meta;                  /* runs on meta devices: calls return tensors without values */
    uint64_t generation;        /* the session's when the step was made; stale if they differ */
    int32_t nout, nleaf, noutcome;
    struct origin *origin;   /* by leaf */
    struct outcome *outcome; /* noutcome: results in order, then gradients, then variables */
    struct step_inputs inputs;
    struct step_numbers numbers;
    struct step_variables variables;
    struct step_planning planning;
    struct step_times times;
    char *trace_path; /* file that write_trace writes after the next call; NULL: none */
    int (*write_trace)(struct rille_graph *g, const char *path);
    struct arena arena;
};

/* compiled.c: does the checks of core/face.h for a compiled step. */
int face_graph(const struct rille_graph *g, const char *who);

/* Returns the program of the step's plan. */
const struct program *graph_program(const struct rille_graph *g);

#endif
