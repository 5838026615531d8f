/* plan_step.c - public functions that trace a step and plan it. */
#include "actors/session/build/build_node.h"
#include "actors/session/core/face.h"
#include "actors/session/core/tracer.h"
#include "actors/session/planner/fit.h"
#include "actors/session/planner/planned.h"
#include "actors/session/step/schedules.h"
#include "actors/session/step/trace.h"

#include <string.h>

static int
copy_options(const struct rille_graph_options *from, struct rille_graph_options *to, const char *who)
{
    return face_options(from, UP_TO(rille_graph_options, time_limit), sizeof *to, to, who);
}

static int
check_options(const struct rille_graph_options *o)
{
    enum solve_mode mode;
    if (o->zero < 0 || o->zero > 3) return fail(E_ARG, "graph: zero must be from 0 to 3, found %d", o->zero);
    if (o->prefetch < 0) return fail(E_ARG, "graph: prefetch must be at least 1, found %d", o->prefetch);
    if (o->micro_batches < 0) return fail(E_ARG, "graph: micro_batches must be at least 1, found %d", o->micro_batches);
    if (!(o->memory >= 0 && o->memory < 1e18)) return fail(E_ARG, "graph: memory must be above 0, found %g", o->memory);
    if (o->memory > 0 && (o->schedule || o->lag || o->split_backward))
        return fail(E_ARG,
                    "graph: memory = %g requests a schedule search, but %s already sets the schedule; use one of them",
                    o->memory, o->schedule ? o->schedule : "lag and split_backward");
    if (o->memory > 0 && o->micro_batches <= 1)
        return fail(E_ARG,
                    "graph: memory = %g limits in-flight micro-batches, but micro_batches = %d; use memory_limit for a "
                    "step of one micro-batch",
                    o->memory, MAX(1, o->micro_batches));
    if (o->memory_limit < 0)
        return fail(E_ARG, "graph: memory_limit must be at least 1 byte, found %lld", (long long)o->memory_limit);
    if (o->auto_parallel) TRY(planned_mode(o->auto_parallel, &mode));
    if (o->auto_parallel && o->recompute_auto)
        return fail(E_ARG, "graph: recompute = \"auto\" and auto_parallel both choose what is recomputed under the "
                           "memory limit; use one");
    if (o->auto_parallel && o->offload)
        return fail(E_ARG, "graph: offload and auto_parallel both choose where values are stored; use one");
    if (o->auto_parallel && o->zero)
        return fail(E_ARG, "graph: zero and auto_parallel both choose the layout of updates; use one");
    return schedules_check(o);
}

int
rille_graph_check(const struct rille_graph_options *options)
{
    struct rille_graph_options o;
    TRY(copy_options(options, &o, __func__));
    return check_options(&o);
}

int
rille_trace_begin(struct rille_session *s, const struct rille_graph_options *options, int nin,
                  struct rille_tensor *const *in, struct rille_tensor **piece)
{
    struct rille_graph_options copy, *o = &copy;
    TRY(face_tensors(s, nin, in, __func__));
    TRY(copy_options(options, o, __func__));
    TRY(face_given(piece, "piece", __func__));
    if (s->trace.now) return fail(E_STATE, "graph: a graph was called while another one is being traced");
    TRY(check_options(o));
    TRY(trace_begin(s, o, nin, in, piece));
    if (o->auto_parallel) planned_call(s);
    return 0;
}

void
rille_trace_abort(struct rille_session *s)
{
    if (face_session(s, __func__)) return;
    if (!s->trace.now) return;
    trace_end(s);
    build_settle(s, 0);
}

/* Inputs for making the program of a trace. The program may be made several times. */
struct making {
    struct rille_graph *g;
    const struct trace_made *made;
};

/* Makes the program of a trace. If a planner chooses the layouts, also adds the second gathers of sharded variables,
 * because the planner must count their cost. */
static struct program *
make_program(void *arg)
{
    const struct making *m = arg;
    const struct rille_graph_options *o = trace_options(m->g->s);
    struct program *p = trace_program(m->g, m->made);
    if (o->auto_parallel) planned_gather(m->g, p, o);
    return p;
}

static int
plan_graph(struct rille_graph *g, const struct trace_made *y, struct plan **out)
{
    struct making making = {g, y};
    struct fit_source from = {make_program, &making};
    return fit_plan(g, trace_options(g->s), &from, out);
}

int
rille_trace_end(struct rille_session *s, int nout, struct rille_tensor *const *out, struct rille_graph **gp)
{
    TRY(face_tensors(s, nout, out, __func__));
    TRY(face_given(gp, "out", __func__));
    if (!s->trace.now) return fail(E_STATE, "graph: nothing is being traced");
    int status = trace_compile(s, nout, out, plan_graph, gp);
    trace_end(s);
    if (!status) status = planned_settle(*gp);
    if (status) rille_graph_free(gp);
    return build_settle(s, status);
}
