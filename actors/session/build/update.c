/* update.c - updates of variables by optimisers: pending until rille_step() computes them. */
#include "actors/session/build/update.h"
#include "actors/session/build/build.h"
#include "actors/session/build/call.h"
#include "actors/session/core/face.h"
#include "actors/session/core/tracer.h"
#include "actors/session/run/run.h"

#include <stdlib.h>

static void
remember_update(struct session_updates *u, struct rille_tensor *t)
{
    for (int32_t i = 0; i < u->nupdate; i++)
        if (u->update[i].t == t) return;
    GROW(u->update, u->nupdate + 1, u->update_capacity);
    struct val *before = t->val;
    val_hold(before);
    u->update[u->nupdate++] = (struct pending_update){.t = t, .before = before};
}

int
rille_update(struct rille_session *s, const struct rille_op *rop, int nargs, const struct rille_arg *args, int nattrs,
             const struct rille_attr *attrs)
{
    TRY(face_session(s, __func__));
    TRY(face_given(rop, "the operator", __func__));
    TRY(face_args(s, nargs, args, __func__));
    TRY(face_attrs(nattrs, attrs, __func__));
    const struct op *op = (const struct op *)rop;
    struct val *in[CALL_OPERANDS], *res[OP_OUT];
    int nin;
    struct call_context ctx = call_context_of(s);
    TRY(trace_scan_refuses(s, "a variable cannot be updated"));
    for (int k = 0; k < op->ninplace && k < nargs; k++)
        if (args[k].kind == RILLE_ARG_TENSOR && !args[k].tensor->leaf)
            return fail(E_STATE, "%s: %s must be a variable", op->name, op->in[k].name);
    ctx.grad = false;
    ctx.phase = PHASE_BATCH;
    int status = call_operator(&ctx, op, nargs, args, nattrs, attrs, in, &nin, res);
    for (int k = 0; !status && k < op->ninplace && k < nargs; k++) {
        struct rille_tensor *t = args[k].tensor;
        if (args[k].kind != RILLE_ARG_TENSOR) continue;
        if (res[k]->layout != t->val->layout) status = build_to_global(&s->context, res[k], t->val->layout, &res[k]);
        if (status) break;
        if (tracing(s))
            trace_journal(s, t);
        else
            remember_update(&s->updates, t);
        tensor_rebind(t, res[k]);
    }
    return build_settle(s, status);
}

int
rille_update_to(struct rille_tensor *t, struct rille_tensor *value)
{
    TRY(face_tensor(t, __func__));
    TRY(face_tensors(t->s, 1, &value, __func__));
    if (!t->leaf) return fail(E_STATE, "update: expected a variable, found the result of an operator");
    if (!tracing(t->s)) remember_update(&t->s->updates, t);
    return rille_tensor_assign(t, value);
}

/* Restores the versions that the variables had before the updates, after a failed step. */
static void
undo_updates(struct session_updates *u)
{
    for (int32_t i = 0; i < u->nupdate; i++) tensor_rebind(u->update[i].t, u->update[i].before);
}

void
updates_forget(struct rille_session *s)
{
    struct session_updates *u = &s->updates;
    for (int32_t i = 0; i < u->nupdate; i++) val_drop(s->graph, &u->update[i].before);
    u->nupdate = u->nwatch = 0;
}

/* Ends the hold of each pending update on the old version of its variable, so that the update may overwrite the
 * old bytes. If nothing else needs an old version, its hold stays, so that the bytes are not freed. */
static void
lend_updates(struct session_updates *u, struct graph *g)
{
    for (int32_t i = 0; i < u->nupdate; i++) {
        struct pending_update *update = &u->update[i];
        update->lent = update->before->keep > 1;
        if (update->lent) val_unkeep(g, update->before);
    }
}

static void
take_back_updates(struct session_updates *u)
{
    for (int32_t i = 0; i < u->nupdate; i++)
        if (u->update[i].lent) val_keep(u->update[i].before);
}

/* Drops gradients that cannot be computed because data are invalid (a label out of range). If such a gradient
 * stayed, every reader would fail, and also the sum with the next batch's gradient. */
static void
drop_failed_grads(struct session_updates *u)
{
    for (int32_t i = 0; i < u->nupdate; i++) {
        struct rille_tensor *t = u->update[i].t;
        if (t->grad && !t->grad->val->store) rille_tensor_free(&t->grad);
    }
}

void
rille_step_undo(struct rille_session *s)
{
    if (face_session(s, __func__) || tracing(s)) return;
    undo_updates(&s->updates);
    updates_forget(s);
}

int
rille_step(struct rille_session *s)
{
    TRY(face_session(s, __func__));
    if (tracing(s)) return 0;
    struct session_updates *u = &s->updates;
    int n = 0;
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * u->nupdate + u->nwatch + 1));
    for (int32_t i = 0; i < u->nwatch; i++) v[n++] = u->watch[i]->val;
    for (int32_t i = 0; i < u->nupdate; i++)
        if (u->update[i].t->grad) v[n++] = u->update[i].t->grad->val;
    for (int32_t i = 0; i < u->nupdate; i++) v[n++] = u->update[i].t->val;
    lend_updates(u, s->graph);
    int status = session_eval(s, n, v);
    take_back_updates(u);
    if (status) undo_updates(u);
    if (status == E_VALUE) drop_failed_grads(u);
    for (int32_t i = 0; i < u->nupdate; i++) v[i] = u->update[i].before;
    if (!status) status = session_release(s, u->nupdate, v);
    free(v);
    updates_forget(s);
    return status;
}
