/* compiled.h - a compiled step: recorded by trace.c, called by compiled.c, measured by measure.c. Private to the
 * session.
 *
 * Each leaf of the program has an origin that supplies its bytes at every call: an argument, a variable's present
 * version, a gradient, or a value that the trace captured. Each root has one or several outcomes. A graph belongs to
 * its session and is used on the session's thread. A graph holds references to its tensors and values. */
#ifndef RILLE_SESSION_COMPILED_H
#define RILLE_SESSION_COMPILED_H

#include "actors/plan/sim/schedule_search.h"
#include "actors/session/run/runner.h"
#include "actors/session/step/measure.h"
#include "actors/session/batch/segments.h"
#include "actors/session/core/session.h"

/* Source of the bytes of leaf i of the program at a call. */
struct origin {
    enum origin_kind { FROM_INPUT, FROM_VARIABLE, FROM_GRADIENT, FROM_VALUE } kind;
    int32_t input; /* index of the argument */
    /* by reference: the variable, the owner of the gradient, or an "auto" argument without a layout */
    struct rille_tensor *t;
    bool free; /* variables and arguments: the planner could choose the layout when the step was traced */
    /* true: the layout of this variable or argument was still open when the step was traced, so the planner may
     * choose it */
    struct val *val;
};
/* A variable that the traced calls read, even if the step does not need it. A call of the step requires the same
 * requires_grad of the variable as in the trace. */
struct read_variable {
    struct rille_tensor *t; /* the variable, by reference */
    bool requires_grad;
};
/* How root `root` (a result of the program) is used after a call: as a result of the step, as the new version of a
 * variable, or as its gradient. Several outcomes may share a root, because a step may return a value twice, or
 * return and assign it. */
struct outcome {
    enum outcome_kind { TO_RESULT, TO_VARIABLE, TO_GRADIENT } kind;
    int32_t root;
    struct rille_tensor *t; /* the variable, by reference; NULL: the outcome is a result */
    /* operator that reduces the joined values of all micro-batches (one row each) to the result; NULL: none */
    const struct op *reduce;
    bool made;     /* the trace created the variable t */
    bool unplaced; /* flag of the new value */
};
/* Records whether a variable has a gradient before and after the trace. A call requires the state from before the
 * trace, and leaves the state from after the trace. */
struct gradient_state {
    struct rille_tensor *t; /* the variable, by reference */
    bool before, after;
    bool made; /* the trace created the variable */
};

/* The plan of least memory that whatif found on one mesh. A later search with the reported limit starts from this
 * plan, so that it succeeds, too. */
struct least_found {
    int naxis;
    int32_t mesh[MAX_AXIS];
    int64_t bytes; /* memory per device with scratch memory, bytes */
    /* memory in bytes as the planner estimates it: without scratch memory, and as if the devices of all stages
     * were one */
    int64_t counted;
    int32_t *choice, nchoice;
};
/* Types, layouts and row order of a step's arguments. */
struct step_inputs {
    int32_t n;
    struct type *type;
    const struct layout **layout;
    /* by argument: true if a planner chose the layout; a call converts an "auto" argument to that layout */
    bool *placed;
    struct segments segments; /* segments into which shard boundaries cut the arguments' rows */
    /* by leaf: argument with rows sorted by micro-batch, for the run in progress; NULL: the argument needs no
     * sorting */
    struct store **sorted;
};
/* Scalars of a step that are bound at each call: constants, values of user functions (live numbers), and random
 * seeds. */
struct step_numbers {
    int32_t nnumber, nlive;
    struct number *number;
    /* live numbers (values of user functions), by reference; each function runs once per call */
    struct rille_live **live;
    /* number of calls of random operators in the step; each call of the step advances the session's counter by it */
    int64_t nrandom;
    bool asking; /* true while the functions of live numbers are called */
};
/* Variables and gradients whose state a call checks. */
struct step_variables {
    int32_t ngradient, nvariable;
    struct gradient_state *gradient;
    struct read_variable *variable;
};
/* Results and options of the step's planning. */
struct step_planning {
    struct assigned *assigned; /* result of the planner (planner/planned.c); NULL: no planner was used */
    struct program *traced;    /* copy of the traced program without the planner's layouts, for whatif; NULL: none */
    int64_t search_ns;         /* time limit of the search, ns */
    bool searched;             /* a schedule search follows the choice of layouts */
    bool sliced;               /* ZeRO splits the updates over replicas, or values are offloaded until backward */
    struct least_found least;
};
struct rille_graph {
    struct rille_session *s;
    struct rille_graph *next, *back; /* neighbours in the session's list */
    struct runner *runner;
    /* owned: step that runs before each call and writes sums over the whole batch into variables; NULL: none */
    struct rille_graph *totals;
    bool meta; /* true: the step is on meta devices, so its calls return tensors without values */
    /* session's generation when the step was made; if the session's present generation differs, the step is stale */
    uint64_t generation;
    int32_t nout, nleaf, noutcome;
    struct origin *origin;   /* by leaf: source of the leaf's bytes */
    struct outcome *outcome; /* noutcome entries: results in order, then gradients, then variables */
    struct step_inputs inputs;
    struct step_numbers numbers;
    struct step_variables variables;
    struct step_planning planning;
    struct step_times times;
    char *trace_path; /* file to which write_trace writes the next call's trace; NULL: none */
    int (*write_trace)(struct rille_graph *g, const char *path);
    struct arena arena;
};

/* Checks argument g of the public function `who`, as core/face.h does for other handles. (compiled.c) */
int face_graph(const struct rille_graph *g, const char *who);

/* Returns the program of the step's plan. */
const struct program *graph_program(const struct rille_graph *g);

#endif
