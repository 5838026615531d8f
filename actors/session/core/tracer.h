/* tracer.h - the interface between the functions that add nodes and a trace in progress.
 *
 * The core adds nodes and changes variables. The recorder of steps (step/trace.c) gives the session a table of
 * functions. The core calls these functions at its events. The session owns struct session_trace. Used only on
 * the session's thread. */
#ifndef RILLE_SESSION_TRACER_H
#define RILLE_SESSION_TRACER_H

#include "actors/session/core/call_context.h"

struct attr;
struct node;
struct op;
struct rille_arg;
struct rille_tensor;
struct type;
struct tracer {
    /* Called for each operator call in a step of several micro-batches. Replaces operands in place so that the
     * call's result is right for the whole batch. E_PLAN: no operands make the call right; the error says how to
     * write the call instead. */
    int (*operands)(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                    const struct attr *attr);
    /* Called for each new node; fails if the node cannot be part of the step. */
    int (*classify)(struct rille_session *s, struct node *n);
    /* Called before a variable or its gradient changes for the first time in the trace. */
    void (*journal)(struct rille_session *s, struct rille_tensor *t);
    /* Returns true if the variable was made in the trace. */
    bool (*made)(const struct rille_tensor *t);
    /* Returns the sum of v over the whole batch, as a value that is computed before the step. v must depend on
     * nothing but the step's arguments. */
    int (*total)(const struct call_context *ctx, struct val *v, struct val **out);
    /* Returns v summed over the micro-batches. */
    int (*sum)(const struct call_context *ctx, struct val *v, struct val **out);
    /* Returns true if the batch's value is the sum of the micro-batches' values, or has the rows of all
     * micro-batches; false if the batch's value is their mean. */
    bool (*adds)(const struct val *v);
    /* Returns the batch's value of v if v is a sum or a mean over rows; the value is known after the last
     * micro-batch. Returns v otherwise. */
    int (*batch)(const struct call_context *ctx, struct val *v, struct val **out);
    /* Makes *g, the gradient of v, a value with rows if v has rows, and an addend if v is the same for all
     * micro-batches. */
    int (*rows)(const struct call_context *ctx, const struct val *v, struct val **g);
    /* Returns the reason why the node has no gradient in a micro-batch, for an error that begins with the node's
     * name. NULL: the node has a gradient. */
    const char *(*ungraded)(const struct node *n);
    /* Called for each number that the user passes to an operator. Replaces the number by its value for the whole
     * batch. */
    void (*number)(struct rille_session *s, const struct op *op, struct rille_arg *a);
    /* Called with operands and attributes of each call of the user, before its nodes are added. */
    void (*call)(struct rille_session *s, const struct op *op, int nin, struct val *const *in, const struct attr *attr);
    /* Called when the user creates a tensor from values. May replace *data, the values. */
    int (*data)(struct rille_session *s, const struct type *t, const void **data);
    /* Called for each value from which the user calls backward. */
    void (*loss)(struct rille_session *s, const struct val *y);
};

struct trace;
struct session_trace {
    struct trace *now; /* trace in progress (step/trace.c); NULL: none */
    const struct tracer *tracer;
    int32_t pieces; /* number of micro-batches of the step */
    /* number of segments into which shard boundaries cut the arguments' rows (batch/segments.h); 0: lengths differ */
    int32_t segments;
    int64_t rows;    /* number of rows of the arguments in one micro-batch; 0: the step has no arguments */
    int64_t nrandom; /* number of random calls in the trace so far */
    /* numbers that the function computed from the whole batch (batch/batch_numbers.h); NULL: none */
    struct batch_numbers *numbers;
    bool paused;
    bool alone;    /* calls may combine the rows of one micro-batch (rille_micro_batch_alone) */
    bool whole;    /* true: this trace records the numbers that the function computes from the whole batch */
    bool differs;  /* the last trace failed: the calls for a micro-batch were not those for the whole batch */
    bool planned;  /* a planner will choose the layouts */
    bool find_nan; /* the step finds values that are not finite */
};

/* Returns true if calls are recorded: a trace is in progress and not paused. */
bool tracing(const struct rille_session *s);
/* Returns true if calls are recorded, and a planner will choose their layouts. */
bool trace_planned(const struct rille_session *s);
/* Returns the number of micro-batches of the trace; 1 without a trace. */
int trace_microbatches(const struct rille_session *s);
/* Returns the number of random calls in this trace so far, and increments it. */
int64_t trace_ordinal(struct rille_session *s);
/* Fails in a trace that is not paused, because values cannot be read in a trace. what: name of the requested
 * operation, for the error. */
int trace_refuses(struct rille_session *s, const char *what);
/* Fails if a function of rille.scan is being recorded (build/scan.c), because it must not change anything outside.
 * what: name of the requested operation, for the error. */
int trace_scan_refuses(const struct rille_session *s, const char *what);
/* Returns true if the step computes v once per micro-batch. */
bool trace_per_microbatch(const struct val *v);

/* Call the function of the same name in struct tracer, in a step of several micro-batches. */
int trace_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in,
                   const struct attr *attr);
int trace_sum(const struct call_context *ctx, struct val *v, struct val **out);
int trace_batch(const struct call_context *ctx, struct val *v, struct val **out);
int trace_rows(const struct call_context *ctx, const struct val *v, struct val **g);
bool trace_adds(const struct rille_session *s, const struct val *v);
const char *trace_ungraded(const struct rille_session *s, const struct node *n);
/* Report an event to the tracer; without a trace, do nothing. trace_loss: if no batch data reaches the devices of
 * the loss, the trace fails at its end. */
int trace_classify(struct rille_session *s, struct node *n);
void trace_journal(struct rille_session *s, struct rille_tensor *t);
bool trace_made(const struct rille_tensor *t);
void trace_loss(struct rille_session *s, const struct val *y);
void trace_number(struct rille_session *s, const struct op *op, struct rille_arg *a);
void trace_user_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in,
                     const struct attr *attr);
int trace_data(struct rille_session *s, const struct type *t, const void **data);
int trace_total(const struct call_context *ctx, struct val *v, struct val **out);

#endif
