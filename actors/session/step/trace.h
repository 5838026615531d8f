/* trace.h - records a step: from the first call of the traced function to the compiled step.
 *
 * Whoever drives the trace (planner/plan_step.c) begins it, lets the function add nodes, compiles what was recorded,
 * and ends the trace. Session's thread; the session owns the trace. */
#ifndef RILLE_SESSION_TRACE_H
#define RILLE_SESSION_TRACE_H

#include "actors/session/step/compiled.h"

/* Begins a trace; piece receives the tensors that stand for the arguments. Fails without a trace. */
int trace_begin(struct rille_session *s, const struct rille_graph_options *o, int nin, struct rille_tensor *const *in,
                struct rille_tensor **piece);
const struct rille_graph_options *trace_options(const struct rille_session *s);

/* Makes the plan of a new step; y: the outcomes of the trace, for trace_program(). */
struct trace_made;
typedef int trace_plan_fn(struct rille_graph *g, const struct trace_made *y, struct plan **out);
/* Makes the compiled step of the trace. The results of the traced function are `out`. */
int trace_compile(struct rille_session *s, int nout, struct rille_tensor *const *out, trace_plan_fn *plan,
                  struct rille_graph **gp);
/* Returns a new copy of the traced program. */
struct program *trace_program(struct rille_graph *g, const struct trace_made *y);
/* Ends the trace: variables and gradients are what they were before it. */
void trace_end(struct rille_session *s);

#endif
