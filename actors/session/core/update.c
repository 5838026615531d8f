/* update.c - updates of variables by optimisers: pending until rille_step() computes them. */
#include "actors/session/core/build.h"
#include "actors/session/core/call.h"
#include "actors/session/core/face.h"
#include "actors/session/core/run.h"
#include "actors/session/core/tracer.h"

#include <stdlib.h>

static void
remember_update(struct rille_session *s, struct rille_tensor *t)
{
    for (int32_t i = 0; i < s->nupdate; i++)
        if (s->update[i].t == t) return;
    GROW(s->update, s->nupdate + 1, s->update_capacity);
    struct val *before = t->val;
    val_hold(before);
    s->update[s->nupdate++] = (struct pending_update){.t = t, .before = before};
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
            remember_update(s, t);
        tensor_rebind(t, res[k]);
    }
    return build_settle(s, status);
}

/* Restores the versions before the updates after a failed step. */
static void
undo_updates(struct rille_session *s)
{
    for (int32_t i = 0; i < s->nupdate; i++) tensor_rebind(s->update[i].t, s->update[i].before);
}

static void
forget_updates(struct rille_session *s)
{
    for (int32_t i = 0; i < s->nupdate; i++) val_drop(s->graph, &s->update[i].before);
    s->nupdate = s->nwatch = 0;
}

/* Lets the updates of a step overwrite the versions before them. A version that no update reads any more keeps its
 * bytes. */
static void
lend_updates(struct rille_session *s)
{
    for (int32_t i = 0; i < s->nupdate; i++) {
        struct pending_update *u = &s->update[i];
        u->lent = u->before->keep > 1;
        if (u->lent) val_unkeep(s->graph, u->before);
    }
}

static void
take_back_updates(struct rille_session *s)
{
    for (int32_t i = 0; i < s->nupdate; i++)
        if (s->update[i].lent) val_keep(s->update[i].before);
}

/* Drops gradients that invalid data (a label out of range) made impossible. Otherwise every reader would fail, and
 * so would the sum with the next batch's gradient. */
static void
drop_failed_grads(struct rille_session *s)
{
    for (int32_t i = 0; i < s->nupdate; i++) {
        struct rille_tensor *t = s->update[i].t;
        if (t->grad && !t->grad->val->store) rille_tensor_free(&t->grad);
    }
}

void
rille_step_undo(struct rille_session *s)
{
    if (face_session(s, __func__) || tracing(s)) return;
    undo_updates(s);
    forget_updates(s);
}

int
rille_step(struct rille_session *s)
{
    TRY(face_session(s, __func__));
    if (tracing(s)) return 0;
    int n = 0;
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * s->nupdate + s->nwatch + 1));
    for (int32_t i = 0; i < s->nwatch; i++) v[n++] = s->watch[i]->val;
    for (int32_t i = 0; i < s->nupdate; i++)
        if (s->update[i].t->grad) v[n++] = s->update[i].t->grad->val;
    for (int32_t i = 0; i < s->nupdate; i++) v[n++] = s->update[i].t->val;
    lend_updates(s);
    int status = session_eval(s, n, v);
    take_back_updates(s);
    if (status) undo_updates(s);
    if (status == E_VALUE) drop_failed_grads(s);
    for (int32_t i = 0; i < s->nupdate; i++) v[i] = s->update[i].before;
    if (!status) status = session_release(s, s->nupdate, v);
    free(v);
    forget_updates(s);
    return status;
}
