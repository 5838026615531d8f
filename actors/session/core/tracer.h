/* tracer.h - a trace in progress, as the functions that add nodes see it.
 *
 * The core adds nodes and changes variables. Who records a step (step/trace.c) gives the session a table of
 * functions, which the core calls at these events. The session owns struct session_trace. Session's thread. */
#ifndef RILLE_SESSION_TRACER_H
#define RILLE_SESSION_TRACER_H

#include "actors/session/core/call_context.h"

struct attr;
struct node;
struct op;
struct rille_tensor;
struct tracer {
    /* Called for each call in a step of several micro-batches: replaces operands in place, so that the call is right
     * for the whole batch. E_PLAN: no such call exists; the error says what to write instead. */
    int (*operands)(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                    const struct attr *attr);
    /* Called for each new node; fails if the node cannot be part of the step. */
    int (*classify)(struct rille_session *s, struct node *n);
    /* Called before a variable or its gradient changes for the first time in the trace. */
    void (*journal)(struct rille_session *s, struct rille_tensor *t);
    /* Returns the whole batch's sum of v, which follows from the arguments, as a value that exists before the step. */
    int (*total)(const struct call_context *ctx, struct val *v, struct val **out);
    /* Returns v summed over the micro-batches. */
    int (*sum)(const struct call_context *ctx, struct val *v, struct val **out);
    /* Returns true if the batch's value is the sum of the values (or of all rows) of its micro-batches, and not their
     * mean. */
    bool (*adds)(const struct val *v);
    /* Called for each loss whose gradients are needed. */
    void (*loss)(struct rille_session *s, const struct val *y);
};

struct trace;
struct session_trace {
    struct trace *now; /* the trace in progress (step/trace.c); NULL: none */
    const struct tracer *tracer;
    int32_t pieces;  /* micro-batches of the step */
    int64_t nrandom; /* random calls so far */
    bool paused;
    bool planned; /* a planner will choose the layouts */
};

/* Returns true if calls are recorded: a trace is in progress and not paused. */
bool tracing(const struct rille_session *s);
/* Returns true if calls are recorded for a planner. */
bool trace_planned(const struct rille_session *s);
/* Returns the number of micro-batches of the trace; 1 without a trace. */
int trace_microbatches(const struct rille_session *s);
/* Returns the number of earlier random calls in this trace, and counts one more. */
int64_t trace_ordinal(struct rille_session *s);
/* In a trace that is not paused: refuses a read; the error names the requested `what`. */
int trace_refuses(struct rille_session *s, const char *what);
/* Returns true if the step computes v once per micro-batch. */
bool trace_per_microbatch(const struct val *v);

/* Ask the tracer, in a step of several micro-batches; see struct tracer. */
int trace_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                   const struct attr *attr);
int trace_sum(const struct call_context *ctx, struct val *v, struct val **out);
bool trace_adds(const struct rille_session *s, const struct val *v);
/* Report an event to the tracer; do nothing without a trace. A loss without batch data on its devices fails the
 * trace at its end. */
int trace_classify(struct rille_session *s, struct node *n);
void trace_journal(struct rille_session *s, struct rille_tensor *t);
void trace_loss(struct rille_session *s, const struct val *y);
int trace_total(const struct call_context *ctx, struct val *v, struct val **out);

#endif
