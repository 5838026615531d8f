/* build_node.c - adds one node, whose types and layouts are known, to the graph, and holds the node's results until
 * the call ends. */
#include "actors/session/build/build_node.h"
#include "actors/session/run/collect.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"

#include "sbp/strategy.h"
#include "sbp/infer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint8_t
build_same_as(struct val *const *in, int i)
{
    int k = 0;
    while (in[k] != in[i]) k++;
    return (uint8_t)k;
}

void
build_called(const struct op *op, int nin, struct val *const *in, const struct attr *attr, struct called *c)
{
    for (int i = 0; i < nin; i++) {
        c->type[i] = in[i] ? in[i]->type : (struct type){0};
        c->layout[i] = in[i] ? in[i]->layout : NULL;
        c->same[i] = build_same_as(in, i);
    }
    c->call = (struct call){.op = op,
                            .nin = nin,
                            .nout = op_nresult(op, attr),
                            .in = c->type,
                            .attr = attr,
                            .layout = c->layout,
                            .same = c->same};
}

int
build_refuse(int code, const struct op *op, int nin, struct val *const *in, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    struct called c;
    struct str operands = {0};
    build_called(op, nin, in, NULL, &c);
    call_print_operands(&c.call, &operands);
    int status = fail((enum err_code)code, "%s%s%s", what, operands.len ? "; " : "", str_text(&operands));
    str_free(&operands);
    return status;
}

static bool
any_needs_grad(int nin, struct val *const *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] && in[i]->needs_grad) return true;
    return false;
}

/* Returns the recomputation region of a new node. A region ends at a move to another placement: the moved value is
 * kept, and a new region begins. So the backward pass recomputes stage by stage. */
static int32_t
region_of(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct node_made *d)
{
    if (!ctx->s->calls.region || !(op->flags & OP_MOVE) || in[0]->layout->place == d->layout[0]->place)
        return ctx->s->calls.region;
    ctx->s->calls.region = ++ctx->s->calls.nregion;
    return 0;
}

/* Returns true for a call that the forward of a user's function makes in a trace. The call's node has no gradient,
 * but backward may recompute the tensors that the function saves. */
static bool
is_in_function(const struct call_context *ctx)
{
    return ctx->function && ctx->phase == PHASE_FORWARD && tracing(ctx->s);
}

struct call_context
build_plain(const struct call_context *ctx)
{
    struct call_context plain = *ctx;
    plain.strategy = NULL;
    return plain;
}

int
build_add(const struct call_context *ctx, const struct op *op, struct val *const *in, const struct attr *attr,
          const struct node_made *d, struct val **out)
{
    struct node *n = graph_add(ctx->s->graph, op, d->nin, in, d->want, attr, d->nout, d->type, d->layout, ctx->at);
    n->name = ctx->composite ? ctx->composite : op->name;
    if (ctx->function) n->line.inside = ctx->function;
    n->phase = (uint8_t)ctx->phase;
    n->region = ctx->grad || is_in_function(ctx) ? region_of(ctx, op, in, d) : 0;
    n->strategy = ctx->strategy ? must_copy(ctx->strategy, sizeof *ctx->strategy) : NULL;
    ctx->s->count.nodes++;
    bool unplaced = !(op->flags & OP_MOVE) && placing_unplaced(d->nin, in);
    bool grad = ctx->grad && (op->grad.build || op->flags & OP_MOVE) && any_needs_grad(d->nin, in);
    for (int k = 0; k < d->nout; k++) {
        n->out[k]->needs_grad = grad && dtype_is_float(d->type[k].dtype);
        n->out[k]->unplaced = unplaced;
        out[k] = build_fresh(ctx->s, n->out[k]);
    }
    return trace_classify(ctx->s, n);
}

struct val *
build_fresh(struct rille_session *s, struct val *v)
{
    GROW(s->calls.fresh, s->calls.nfresh + 1, s->calls.fresh_capacity);
    val_hold(v);
    s->calls.fresh[s->calls.nfresh++] = v;
    return v;
}

int
build_share(struct rille_session *s, struct val *v, struct val **out)
{
    TRY(val_readable(v));
    store_hold(v->store);
    *out = build_fresh(s, graph_leaf(s->graph, &v->type, v->layout, v->store));
    return 0;
}

int
build_settle(struct rille_session *s, int status)
{
    while (s->calls.nfresh > 0) val_drop(s->graph, &s->calls.fresh[--s->calls.nfresh]);
    if (s->calls.scratch.used_bytes) arena_reset(&s->calls.scratch);
    free(s->calls.strategy);
    s->calls.strategy = NULL;
    return status;
}
