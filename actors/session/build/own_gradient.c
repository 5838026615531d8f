/* own_gradient.c - calls the user's gradient functions and hooks in the middle of a backward pass.
 *
 * The user's functions call public functions of the session. So the state of the calls in progress is saved before a
 * user's function is called, and the context of the backward pass (gradient mode, phase, line) becomes the session's
 * context. */
#include "actors/session/build/own_gradient.h"
#include "actors/session/build/build.h"
#include "actors/session/core/face.h"
#include "actors/session/core/layouts.h"
#include "actors/session/core/session.h"

#include "kernels/op/base/table.h"

#include <stdlib.h>
#include <string.h>

/* ---- state of the calls in progress, saved during a user's function ---- */

struct aside {
    struct call_context context;
    struct val **fresh;
    int32_t nfresh, fresh_capacity;
    struct arena scratch;
    struct strategy *strategy;
};

static void
put_aside(const struct call_context *ctx, const char *name, struct aside *a)
{
    struct rille_session *s = ctx->s;
    struct session_calls *c = &s->calls;
    *a = (struct aside){s->context, c->fresh, c->nfresh, c->fresh_capacity, c->scratch, c->strategy};
    c->fresh = NULL;
    c->nfresh = c->fresh_capacity = 0;
    c->scratch = (struct arena){0};
    c->strategy = NULL;
    s->context = build_plain(ctx);
    s->context.composite = NULL;
    s->context.function = name;
    s->context.user_backward = true;
    s->context.inside = NULL;
}

static void
resume_call(struct rille_session *s, const struct aside *a)
{
    struct session_calls *c = &s->calls;
    build_settle(s, 0);
    free(c->fresh);
    arena_fini(&c->scratch);
    c->fresh = a->fresh;
    c->nfresh = a->nfresh;
    c->fresh_capacity = a->fresh_capacity;
    c->scratch = a->scratch;
    c->strategy = a->strategy;
    s->context = a->context;
}

/* ---- recording calls of the user's functions ---- */

void
own_function_drop(struct graph *g, struct own_function *f)
{
    if (--f->nref > 0) return;
    for (int i = 0; i < f->nin; i++) {
        if (!f->in[i]) continue;
        /* f holds a reference but no keep (a need for the bytes), and val_drop() ends one of each */
        val_keep(f->in[i]);
        val_drop(g, &f->in[i]);
    }
    for (int i = 0; i < f->nsaved; i++) val_drop(g, &f->saved[i]);
    if (f->user.drop) f->user.drop(f->user.arg);
    free(f->in);
    free(f->saved);
    free(f->saved_from);
    free(f->type);
    free(f->layout);
    free(f->dresult);
    free(f);
}

static int
find_val(const struct val *v, int n, struct rille_tensor *const *t)
{
    for (int i = 0; i < n; i++)
        if (t[i] && t[i]->val == v) return i;
    return -1;
}

static struct own_function *
function_new(struct rille_session *s, const struct rille_backward *user, int nin, struct rille_tensor *const *in,
             int nsaved, struct rille_tensor *const *saved, int nresult, struct rille_tensor *const *result)
{
    struct own_function *f = must_alloc(sizeof *f);
    *f = (struct own_function){.s = s, .user = *user, .nref = 1, .nin = nin, .nsaved = nsaved, .nresult = nresult};
    f->user.name = graph_file(s->graph, user->name);
    f->in = must_alloc(sizeof *f->in * (size_t)(nin + 1));
    f->saved = must_alloc(sizeof *f->saved * (size_t)(nsaved + 1));
    f->saved_from = must_alloc(sizeof *f->saved_from * (size_t)(nsaved + 1));
    f->type = must_alloc(sizeof *f->type * (size_t)(nresult + 1));
    f->layout = must_alloc(sizeof *f->layout * (size_t)(nresult + 1));
    f->dresult = must_alloc(sizeof *f->dresult * (size_t)(nresult + 1));
    for (int i = 0; i < nin; i++) {
        if (!in[i] || !in[i]->val->needs_grad) continue;
        f->in[i] = in[i]->val;
        val_hold(f->in[i]);
        val_unkeep(s->graph, f->in[i]);
    }
    for (int i = 0; i < nsaved; i++) {
        f->saved[i] = saved[i]->val;
        val_hold(f->saved[i]);
        f->saved_from[i] = find_val(f->saved[i], nin, in) >= 0 ? SAVED_INPUT : find_val(f->saved[i], nresult, result);
        if (f->saved_from[i] < 0 && find_val(f->saved[i], nin, in) < 0) f->saved_from[i] = SAVED_INNER;
    }
    for (int k = 0; k < nresult; k++) f->type[k] = result[k]->val->type, f->layout[k] = result[k]->val->layout;
    return f;
}

/* Returns the record of user-defined gradients of a node; makes a new record if there is none. */
static struct own_gradient *
own_of(struct rille_session *s, struct node *n)
{
    if (n->own) return n->own;
    n->own = must_alloc(sizeof *n->own);
    n->own->session = s;
    n->own->node = n;
    LIST_PUSH(s->handles.own, n->own);
    return n->own;
}

void
own_gradient_release(struct graph *g, struct own_gradient *own)
{
    struct rille_session *s = own->session;
    LIST_TAKE(s->handles.own, own);
    hooks_free(s, &own->hooks);
    if (own->function) own_function_drop(g, own->function);
    free(own);
}

void
own_function_share(struct node *copy, const struct own_gradient *own)
{
    struct own_gradient *to = own_of(own->session, copy);
    to->function = own->function;
    to->result = own->result;
    to->function->nref++;
}

/* Adds a view of all elements of v as result k of function f. The view's gradient is computed by f. */
static int
function_result(const struct call_context *ctx, struct own_function *f, int k, struct val *v, struct val **out)
{
    const struct op *op = op_find("reshape");
    const struct node_made made = {1, 1, (const struct layout *const *)&v->layout, &v->type,
                                   (const struct layout *const *)&v->layout};
    struct attr attr[OP_ATTR];
    struct val *res[OP_OUT];
    op_attr_defaults(op, attr);
    struct attr *shape = &attr[op_attr_find(op, "shape")];
    shape->set = true;
    shape->n = v->type.ndim;
    memcpy(shape->list, v->type.dim, sizeof v->type.dim[0] * v->type.ndim);
    TRY(build_add(ctx, op, &v, attr, &made, res));
    struct own_gradient *own = own_of(ctx->s, res[0]->node);
    own->function = f;
    own->result = k;
    f->nref++;
    res[0]->needs_grad = 1;
    *out = res[0];
    return 0;
}

static int
function_results(struct rille_session *s, struct own_function *f, int n, struct rille_tensor *const *result,
                 struct rille_tensor **out)
{
    struct call_context ctx = build_plain(&s->context);
    ctx.function = f->user.name;
    for (int k = 0; k < n; k++) {
        struct val *v = result[k]->val;
        if (dtype_is_float(v->type.dtype)) TRY(function_result(&ctx, f, k, v, &v));
        out[k] = tensor_new(s, v, false);
    }
    return 0;
}

const char *
rille_name_calls(struct rille_session *s, const char *name)
{
    if (face_session(s, __func__)) return NULL;
    const char *was = s->context.function;
    s->context.function = name ? graph_file(s->graph, name) : NULL;
    return was;
}

static bool
is_gradient_needed(int n, struct rille_tensor *const *t)
{
    for (int i = 0; i < n; i++)
        if (t[i] && t[i]->val->needs_grad) return true;
    return false;
}

static int
tensors_or_null(const struct rille_session *s, int n, struct rille_tensor *const *t, const char *who)
{
    if (n > 0) TRY(face_given(t, "the list of arguments", who));
    for (int i = 0; i < n; i++)
        if (t[i]) TRY(face_tensors(s, 1, &t[i], who));
    return 0;
}

static int
check_own_gradient(struct rille_session *s, const struct rille_backward *user, int nin, struct rille_tensor *const *in,
                   int nsaved, struct rille_tensor *const *saved, int nresult, struct rille_tensor *const *result,
                   struct rille_tensor **out, const char *who)
{
    TRY(face_session(s, who));
    TRY(face_given(user, "the backward function", who));
    if (!user->fn || !user->name) return fail(E_ARG, "%s: the function and its name must be given", who);
    TRY(face_given(out, "out", who));
    TRY(tensors_or_null(s, nin, in, who));
    TRY(face_tensors(s, nsaved, saved, who));
    TRY(face_tensors(s, nresult, result, who));
    return 0;
}

int
rille_own_gradient(struct rille_session *s, const struct rille_backward *user, int nin, struct rille_tensor *const *in,
                   int nsaved, struct rille_tensor *const *saved, int nresult, struct rille_tensor *const *result,
                   struct rille_tensor **out)
{
    int refused = check_own_gradient(s, user, nin, in, nsaved, saved, nresult, result, out, __func__);
    if (refused) {
        if (user && user->drop) user->drop(user->arg);
        return refused;
    }
    if (!s->context.grad || !is_gradient_needed(nin, in)) {
        for (int k = 0; k < nresult; k++) out[k] = tensor_new(s, result[k]->val, false);
        if (user->drop) user->drop(user->arg);
        return build_settle(s, 0);
    }
    for (int k = 0; k < nresult; k++) out[k] = NULL;
    struct own_function *f = function_new(s, user, nin, in, nsaved, saved, nresult, result);
    int status = function_results(s, f, nresult, result, out);
    for (int k = 0; status && k < nresult; k++) rille_tensor_free(&out[k]);
    own_function_drop(s->graph, f);
    return build_settle(s, status);
}

/* ---- calling the user's backward functions ---- */

static int
zeros_of(const struct call_context *ctx, const struct type *type, const struct layout *layout, struct val **out)
{
    struct build_source source = {.type = type};
    struct val *res[OP_OUT];
    TRY(layout_summed(ctx->s->atlas, layout, &source.layout));
    TRY(build_call(ctx, op_find("zeros"), 0, NULL, NULL, &source, res));
    *out = res[0];
    return 0;
}

/* Returns the value of saved tensor i for backward. If the backward pass is itself differentiated, a saved result is
 * linked to the function again, so that it has a gradient. */
static int
saved_value(const struct call_context *ctx, struct own_function *f, int i, struct val *v, struct val **out)
{
    *out = v;
    if (!ctx->grad || f->saved_from[i] == SAVED_INPUT || !dtype_is_float(v->type.dtype)) return 0;
    if (f->saved_from[i] >= 0) return function_result(ctx, f, f->saved_from[i], v, out);
    return fail(E_STATE,
                "%s: a second derivative needs saved tensors that are arguments or results of forward, and saved "
                "tensor %d is neither; return it from forward, or compute it again in backward",
                f->user.name, i + 1);
}

static int
check_gradient(const char *who, const char *what, int i, const struct type *has, const struct type *wants)
{
    struct str a = {0}, b = {0};
    int status = 0;
    type_print(has, &a);
    type_print(wants, &b);
    if (!shape_equal(has, wants))
        status = fail(E_SHAPE, "%s: a gradient must have the shape of its tensor; %s %d is %s, and its gradient is %s",
                      who, what, i, str_text(&b), str_text(&a));
    else if (!dtype_is_float(has->dtype))
        status = fail(E_DTYPE, "%s: a gradient must have a float dtype; %s %d is %s, and its gradient is %s", who, what,
                      i, str_text(&b), str_text(&a));
    str_free(&a);
    str_free(&b);
    return status;
}

/* Makes the arguments of the backward function: handles for the gradients of the results (zeros for a result without
 * a gradient) and for the saved tensors. */
static int
function_handles(const struct call_context *ctx, struct own_function *f, struct val *const *from,
                 struct rille_tensor **dresult, struct rille_tensor **saved)
{
    for (int k = 0; k < f->nresult; k++) {
        struct val *v = f->dresult[k];
        if (!dtype_is_float(f->type[k].dtype)) continue;
        if (!v) TRY(zeros_of(ctx, &f->type[k], f->layout[k], &v));
        dresult[k] = tensor_new(ctx->s, v, false);
    }
    for (int i = 0; i < f->nsaved; i++) {
        struct val *v;
        TRY(saved_value(ctx, f, i, from[i], &v));
        saved[i] = tensor_new(ctx->s, v, false);
    }
    return 0;
}

/* Reads the gradients of the function's arguments from the handles that the backward function returned. */
static int
take_gradients(struct rille_session *s, const struct own_function *f, struct rille_tensor *const *given,
               struct val **din)
{
    for (int i = 0; i < f->nin; i++) {
        if (!given[i] || !f->in[i]) continue;
        TRY(face_tensors(s, 1, &given[i], f->user.name));
        TRY(check_gradient(f->user.name, "argument", i + 1, &given[i]->val->type, &f->in[i]->type));
        din[i] = build_fresh(s, given[i]->val);
    }
    return 0;
}

int
own_function_call(const struct call_context *ctx, struct own_function *f, struct val *const *from, struct val **din)
{
    struct rille_session *s = ctx->s;
    int n = f->nresult + f->nsaved + f->nin;
    struct rille_tensor **dresult = must_alloc(sizeof(*dresult) * (size_t)(n + 1)), **saved = dresult + f->nresult,
                        **given = saved + f->nsaved;
    struct aside aside;
    int status = function_handles(ctx, f, from, dresult, saved);
    if (!status) {
        put_aside(ctx, f->user.name, &aside);
        status = f->user.fn(f->user.arg, dresult, saved, given);
        resume_call(s, &aside);
    }
    if (!status) status = take_gradients(s, f, given, din);
    for (int i = 0; i < n; i++) rille_tensor_free(&dresult[i]);
    free(dresult);
    return status;
}

/* ---- registering and calling hooks ---- */

/* Passes the gradient to one hook. */
static int
hook_call(const struct call_context *ctx, struct hook *h, struct val **g)
{
    struct rille_session *s = ctx->s;
    struct rille_tensor *given = tensor_new(s, *g, false), *out = NULL;
    struct aside aside;
    put_aside(ctx, NULL, &aside);
    int status = h->fn(h->user.arg, given, &out);
    resume_call(s, &aside);
    if (!status && out) {
        status = face_tensors(s, 1, &out, "hook");
        if (!status) status = check_gradient("hook", "result", 1, &out->val->type, &(*g)->type);
        if (!status && out->val->layout->place != (*g)->layout->place)
            status =
                fail(E_PLACE, "hook: the new gradient must be on the placement of the old one; move it with to_global");
        if (!status) status = build_cast(ctx, build_fresh(s, out->val), (*g)->type.dtype, g);
    }
    rille_tensor_free(&given);
    rille_tensor_free(&out);
    return status;
}

/* Adds g to the gradient of the handle t, for which the user called retain_grad. */
static int
retain(const struct call_context *ctx, struct rille_tensor *t, struct val *g)
{
    struct val *in[2] = {t->grad ? t->grad->val : NULL, g}, *res[OP_OUT] = {g};
    if (t->grad) TRY(build_call(ctx, op_find("add"), 2, in, NULL, NULL, res));
    tensor_rebind_grad(t, res[0]);
    return 0;
}

static int
call_all(const struct call_context *ctx, struct hook *hooks, int out, struct val **g)
{
    for (struct hook *h = hooks; h; h = h->next)
        if (h->fn && h->out == out) TRY(hook_call(ctx, h, g));
    for (struct hook *h = hooks; h; h = h->next)
        if (h->retains && h->out == out && h->retains->nref > 0) TRY(retain(ctx, h->retains, *g));
    return 0;
}

int
own_hooks_call(const struct call_context *ctx, struct hook *hooks, int out, struct val **g)
{
    struct session_handles *all = &ctx->s->handles;
    all->nhooking++;
    int status = call_all(ctx, hooks, out, g);
    if (--all->nhooking > 0) return status;
    while (all->freed) {
        struct hook *h = all->freed;
        all->freed = h->freed;
        free(h);
    }
    return status;
}

/* Returns the list of hooks at t's gradient. E_STATE: no hook can be added now. Reasons: t has no gradient; t is
 * a parameter in a compiled step; backward was already called through t. */
static int
hooks_of(struct rille_tensor *t, const char *who, struct hook ***list)
{
    if (!t->val->needs_grad)
        return fail(E_STATE, "%s: the tensor must require a gradient; call x:requires_grad_(true) first", who);
    if (t->leaf && tracing(t->s) && !(t->val->node && t->val->node->traced))
        return fail(E_STATE, "%s: hooks of parameters must be registered outside a compiled step", who);
    if (t->leaf) return *list = &t->hooks, 0;
    if (val_is_variable(t->val))
        return fail(E_STATE, "%s: the tensor is the value of a variable; call %s on the variable itself", who, who);
    if (t->val->node->spent)
        return fail(E_STATE, "%s: backward was already called through this tensor; call %s before", who, who);
    *list = &own_of(t->s, t->val->node)->hooks;
    return 0;
}

/* Removes the records of hooks that were removed by the user, and adds a new hook at the end of the list. */
static struct hook *
hook_add(struct rille_tensor *t, struct hook **list)
{
    while (*list) {
        struct hook *h = *list;
        if (h->fn || h->retains) {
            list = &h->next;
            continue;
        }
        *list = h->next;
        hook_free(t->s, h);
    }
    *list = must_alloc(sizeof **list);
    **list = (struct hook){.id = ++t->s->handles.nhook, .out = t->leaf ? 0 : t->val->out};
    return *list;
}

int
rille_tensor_hook(struct rille_tensor *t, rille_hook_fn *fn, const struct rille_hook_user *user, int64_t *id)
{
    struct hook **list;
    TRY(face_tensor(t, __func__));
    if (!fn) return fail(E_ARG, "%s: the function is NULL", __func__);
    TRY(face_given(user, "the hook", __func__));
    TRY(hooks_of(t, "register_hook", &list));
    struct hook *h = hook_add(t, list);
    h->fn = fn;
    h->user = *user;
    if (id) *id = h->id;
    if (t->leaf) t->s->generation++;
    return 0;
}

int
rille_tensor_unhook(struct rille_tensor *t, int64_t id)
{
    TRY(face_tensor(t, __func__));
    const struct node *n = t->leaf ? NULL : t->val->node;
    struct hook *h = n ? (n->own ? n->own->hooks : NULL) : t->hooks;
    for (; h; h = h->next)
        if (h->id == id) hook_end(h);
    if (t->leaf) t->s->generation++;
    return 0;
}

int
rille_tensor_retain_grad(struct rille_tensor *t)
{
    struct hook **list;
    TRY(face_tensor(t, __func__));
    if (t->leaf && t->val->needs_grad) return 0;
    TRY(hooks_of(t, "retain_grad", &list));
    for (const struct hook *h = *list; h; h = h->next)
        if (h->retains == t) return 0;
    hook_add(t, list)->retains = tensor_refer(t);
    return 0;
}
