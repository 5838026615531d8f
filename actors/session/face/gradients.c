/* gradients.c - public functions: backward, gradients of values and of variables. */
#include "actors/session/build/build.h"
#include "actors/session/build/grad.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/session.h"
#include "actors/session/core/tracer.h"

#include "kernels/op/base/table.h"

#include <stdlib.h>

static void
watch(struct rille_session *s, struct rille_tensor *t)
{
    for (int32_t i = 0; i < s->updates.nwatch; i++)
        if (s->updates.watch[i] == t) return;
    GROW(s->updates.watch, s->updates.nwatch + 1, s->updates.watch_capacity);
    s->updates.watch[s->updates.nwatch++] = t;
}

static int
backward_from(struct rille_tensor *t, bool retain)
{
    struct rille_session *s = t->s;
    if (rille_tensor_numel(t) != 1) {
        struct str text = {0};
        type_print(&t->val->type, &text);
        int status = fail(E_SHAPE, "backward: expected a tensor of one element, found %s; take its sum or mean",
                          str_text(&text));
        str_free(&text);
        return status;
    }
    TRY(trace_scan_refuses(s, "backward cannot be called"));
    trace_loss(s, t->val);
    int status = grad_deposit(&s->context, t->val, retain);
    if (status)
        err_note("backward");
    else if (!tracing(s))
        watch(s, t);
    return build_settle(s, status);
}

int
rille_tensor_backward(struct rille_tensor *t)
{
    TRY(face_tensor(t, __func__));
    return backward_from(t, false);
}

int
rille_tensor_backward_retained(struct rille_tensor *t)
{
    TRY(face_tensor(t, __func__));
    return backward_from(t, true);
}

static int
zeros_like(struct rille_session *s, const struct val *x, struct val **out)
{
    struct val *res[OP_OUT];
    struct build_source source = {.type = &x->type};
    TRY(layout_summed(s->atlas, x->layout, &source.layout));
    TRY(build_call(&s->context, op_find("zeros"), 0, NULL, NULL, &source, res));
    *out = res[0];
    return 0;
}

int
rille_tensor_grad_of(struct rille_tensor *y, int n, struct rille_tensor *const *x, struct rille_tensor **out)
{
    TRY(face_tensor(y, __func__));
    TRY(face_tensors(y->s, n, x, __func__));
    TRY(face_given(out, "out", __func__));
    struct rille_session *s = y->s;
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * n + 1)), **dx = v + n;
    for (int i = 0; i < n; i++) v[i] = x[i]->val;
    int status = grad_values(&s->context, y->val, n, v, dx);
    if (status) err_note("grad");
    for (int i = 0; !status && i < n; i++)
        if (!dx[i]) status = zeros_like(s, v[i], &dx[i]);
    for (int i = 0; !status && i < n; i++) out[i] = tensor_new(s, dx[i], false);
    free(v);
    return build_settle(s, status);
}

int
rille_tensor_set_grad_layout(struct rille_tensor *t, const struct rille_layout *layout)
{
    TRY(face_tensor(t, __func__));
    TRY((layout ? face_layout(t->s, layout, __func__) : 0));
    const struct layout *l = (const struct layout *)layout;
    if (!t->leaf) return fail(E_STATE, "gradient: expected a variable, found the result of an operator");
    if (l && l->place != t->val->layout->place)
        return fail(E_PLACE, "gradient: a gradient must be on the placement of its tensor; move it with to_global");
    if (l) TRY(layout_settle(t->s->atlas, &t->val->type, &l));
    if (l && layout_partial(l))
        return fail(E_SBP, "gradient: the layout must not be partial, found %s", rille_layout_text(t->s, layout));
    t->grad_layout = l;
    t->s->generation++;
    return 0;
}

int
rille_tensor_set_reshard(struct rille_tensor *t, bool on)
{
    TRY(face_tensor(t, __func__));
    if (!t->leaf) return fail(E_STATE, "reshard: expected a variable, found the result of an operator");
    if (t->keeps_gathered == on) t->s->generation++;
    t->keeps_gathered = !on;
    return 0;
}

struct rille_tensor *
rille_tensor_grad(struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return NULL;
    return t->grad ? rille_tensor_hold(t->grad) : NULL;
}

int
rille_tensor_set_grad(struct rille_tensor *t, struct rille_tensor *g)
{
    TRY(face_tensor(t, __func__));
    TRY((g ? face_tensors(t->s, 1, &g, __func__) : 0));
    struct rille_session *s = t->s;
    trace_journal(s, t);
    if (g && !shape_equal(&g->val->type, &t->val->type)) {
        struct str has = {0}, wants = {0};
        type_print(&g->val->type, &has);
        type_print(&t->val->type, &wants);
        int status = fail(E_SHAPE, "grad: a gradient must have the shape of its tensor, %s, found %s", str_text(&wants),
                          str_text(&has));
        str_free(&has);
        str_free(&wants);
        return status;
    }
    struct rille_tensor *fresh = NULL;
    if (g) {
        struct val *v = g->val;
        if (v->owner || !v->node) TRY(build_to_global(&s->context, v, v->layout, &v));
        fresh = tensor_new(s, v, true);
    }
    rille_tensor_free(&t->grad);
    t->grad = fresh;
    return build_settle(s, 0);
}
