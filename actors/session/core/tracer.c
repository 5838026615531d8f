/* tracer.c - forwards events from the functions that add nodes to the trace in progress. */
#include "actors/session/core/tracer.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

bool
tracing(const struct rille_session *s)
{
    return s->trace.now && !s->trace.paused;
}

bool
rille_tracing(const struct rille_session *s)
{
    if (face_session(s, __func__)) return false;
    return tracing(s);
}

bool
rille_trace_pause(struct rille_session *s, bool pause)
{
    if (face_session(s, __func__)) return false;
    bool was = s->trace.paused;
    s->trace.paused = pause;
    return was;
}

bool
rille_micro_batch_alone(struct rille_session *s, bool alone)
{
    if (face_session(s, __func__)) return false;
    bool was = s->trace.alone;
    s->trace.alone = alone;
    return was;
}

bool
trace_planned(const struct rille_session *s)
{
    return tracing(s) && s->trace.planned;
}

int
trace_microbatches(const struct rille_session *s)
{
    return tracing(s) ? s->trace.pieces : 1;
}

int64_t
trace_ordinal(struct rille_session *s)
{
    return s->trace.nrandom++;
}

int
trace_refuses(struct rille_session *s, const char *what)
{
    if (!tracing(s)) return 0;
    return fail(
        E_STATE,
        "%s inside a graph: a traced tensor has values only when the compiled step runs; return the tensor instead",
        what);
}

int
trace_scan_refuses(const struct rille_session *s, const char *what)
{
    if (!s->calls.nscan) return 0;
    return fail(E_STATE, "%s inside the function of rille.scan; return the value as a part of the state", what);
}

bool
trace_per_microbatch(const struct val *v)
{
    return v->input >= 0 || (v->node && v->node->per_piece && !v->node->accumulate);
}

int
trace_classify(struct rille_session *s, struct node *n)
{
    return tracing(s) ? s->trace.tracer->classify(s, n) : 0;
}

void
trace_journal(struct rille_session *s, struct rille_tensor *t)
{
    if (tracing(s) && t->journal < 0) s->trace.tracer->journal(s, t);
}

bool
trace_made(const struct rille_tensor *t)
{
    return tracing(t->s) && t->s->trace.tracer->made(t);
}

void
trace_number(struct rille_session *s, const struct op *op, struct rille_arg *a)
{
    if (tracing(s)) s->trace.tracer->number(s, op, a);
}

void
trace_user_call(struct rille_session *s, const struct op *op, int nin, struct val *const *in, struct attr *attr)
{
    if (tracing(s)) s->trace.tracer->call(s, op, nin, in, attr);
}

int
trace_user_results(const struct call_context *ctx, const struct op *op, int nin, struct val *const *in, int nout,
                   struct val *const *out)
{
    return tracing(ctx->s) ? ctx->s->trace.tracer->results(ctx, op, nin, in, nout, out) : 0;
}

int
trace_data(struct rille_session *s, const struct type *t, const void **data)
{
    return tracing(s) ? s->trace.tracer->data(s, t, data) : 0;
}

void
trace_loss(struct rille_session *s, const struct val *y)
{
    if (tracing(s)) s->trace.tracer->loss(s, y);
}

int
trace_total(const struct call_context *ctx, struct val *v, struct val **out)
{
    return ctx->s->trace.tracer->total(ctx, v, out);
}

int
trace_operands(const struct call_context *ctx, const struct op *op, int nin, struct val **in, const struct attr *attr)
{
    return ctx->s->trace.tracer->operands(ctx, op, nin, in, attr);
}

int
trace_sum(const struct call_context *ctx, struct val *v, struct val **out)
{
    return ctx->s->trace.tracer->sum(ctx, v, out);
}

int
trace_batch(const struct call_context *ctx, struct val *v, struct val **out)
{
    return ctx->s->trace.tracer->batch(ctx, v, out);
}

int
trace_rows(const struct call_context *ctx, const struct val *v, struct val **g)
{
    return ctx->s->trace.tracer->rows(ctx, v, g);
}

bool
trace_adds(const struct rille_session *s, const struct val *v)
{
    return s->trace.tracer->adds(v);
}

const char *
trace_ungraded(const struct rille_session *s, const struct node *n)
{
    return s->trace.tracer->ungraded(n);
}
