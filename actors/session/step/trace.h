/* trace.h - records the calls of a function as a compiled step.
 *
 * planner/plan_step.c begins a trace and calls the function, whose operators add nodes. Then plan_step.c compiles
 * the recorded nodes and ends the trace. The session owns the trace. Used only on the session's thread. */
#ifndef RILLE_SESSION_TRACE_H
#define RILLE_SESSION_TRACE_H

#include "actors/session/step/compiled.h"

/* Begins a trace. piece: receives the tensors that represent the arguments, each with the rows of one micro-batch.
 * After an error, no trace is in progress. */
int trace_begin(struct rille_session *s, const struct rille_graph_options *o, int nin, struct rille_tensor *const *in,
                struct rille_tensor **piece);
const struct rille_graph_options *trace_options(const struct rille_session *s);

/* Makes the plan of a new step. y: outcomes of the trace, for trace_program(). */
struct trace_made;
typedef int trace_plan_fn(struct rille_graph *g, const struct trace_made *y, struct plan **out);
/* Makes the compiled step of the trace. out: results of the traced function. */
int trace_compile(struct rille_session *s, int nout, struct rille_tensor *const *out, trace_plan_fn *plan,
                  struct rille_graph **gp);
/* Returns a new copy of the traced program. */
struct program *trace_program(struct rille_graph *g, const struct trace_made *y);
/* Ends the trace, and restores the variables and gradients to their state before the trace. */
void trace_end(struct rille_session *s);

#endif
