/* handle.c - tensor handles: the value that a handle refers to, and the lifetime of the handle's struct. */
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

#include <stdlib.h>
#include <string.h>

static void
own(struct rille_tensor *t, struct val *v)
{
    if (v->owner == t) return;
    if (v->owner) tensor_orphan(v->owner);
    v->owner = t;
    tensor_refer(t);
}

struct rille_tensor *
tensor_new(struct rille_session *s, struct val *v, bool leaf)
{
    struct rille_tensor *t = s->handles.spare;
    if (t) s->handles.spare = t->next;
    t = t ? memset(t, 0, sizeof *t) : must_alloc(sizeof *t);
    t->s = s;
    t->nref = 1;
    t->journal = -1;
    t->val = v;
    val_hold(v);
    if (leaf) own(t, v);
    t->leaf = leaf && !v->recorded;
    s->handles.ntensor++;
    LIST_PUSH(s->handles.tensors, t);
    return t;
}

struct rille_tensor *
tensor_refer(struct rille_tensor *t)
{
    t->nref_weak++;
    return t;
}

void
tensor_orphan(struct rille_tensor *t)
{
    if (--t->nref_weak > 0 || t->nref > 0) return;
    t->next = t->s->handles.spare;
    t->s->handles.spare = t;
}

void
handles_free(struct session_handles *h)
{
    for (struct rille_tensor *t = h->spare, *next; t; t = next) {
        next = t->next;
        free(t);
    }
}

bool
tensor_is_present(const struct rille_tensor *t, const struct val *v)
{
    return t->nref > 0 && t->val == v;
}

bool
tensor_is_variable(const struct rille_tensor *t)
{
    return t->leaf || t->val->owner == t;
}

void
tensor_rebind(struct rille_tensor *t, struct val *v)
{
    struct val *old = t->val;
    val_hold(v);
    if (tensor_is_variable(t)) {
        own(t, v);
        t->leaf = !v->recorded;
        if (t->leaf) v->needs_grad = t->requires_grad;
    }
    t->val = v;
    val_drop(t->s->graph, &old);
}

void
tensor_rebind_grad(struct rille_tensor *t, struct val *g)
{
    if (t->grad && t->grad->nref == 1) {
        tensor_rebind(t->grad, g);
        return;
    }
    struct rille_tensor *fresh = tensor_new(t->s, g, true);
    rille_tensor_free(&t->grad);
    t->grad = fresh;
}

struct rille_tensor *
rille_tensor_hold(struct rille_tensor *t)
{
    if (face_tensor(t, __func__)) return NULL;
    t->nref++;
    return t;
}

void
hook_end(struct hook *h)
{
    if (h->fn && h->user.drop) h->user.drop(h->user.arg);
    if (h->retains) tensor_orphan(h->retains);
    h->fn = NULL;
    h->retains = NULL;
}

void
hook_free(struct rille_session *s, struct hook *h)
{
    hook_end(h);
    if (s->handles.nhooking == 0) {
        free(h);
        return;
    }
    h->freed = s->handles.freed;
    s->handles.freed = h;
}

void
hooks_free(struct rille_session *s, struct hook **hooks)
{
    for (struct hook *h = *hooks, *next; h; h = next) {
        next = h->next;
        hook_free(s, h);
    }
    *hooks = NULL;
}

static void
unwatch(struct rille_session *s, struct rille_tensor *t)
{
    struct session_updates *u = &s->updates;
    for (int32_t i = 0; i < u->nwatch; i++)
        if (u->watch[i] == t) u->watch[i--] = u->watch[--u->nwatch];
    for (int32_t i = 0; i < u->nupdate; i++)
        if (u->update[i].t == t) {
            val_drop(s->graph, &u->update[i].before);
            u->update[i--] = u->update[--u->nupdate];
        }
}

void
rille_tensor_free(struct rille_tensor **tp)
{
    if (face_given(tp, "the pointer to the tensor", __func__) || (*tp ? face_tensor(*tp, __func__) : 0)) return;
    struct rille_tensor *t = *tp;
    *tp = NULL;
    if (!t || --t->nref > 0) return;
    struct rille_session *s = t->s;
    LIST_TAKE(s->handles.tensors, t);
    tensor_refer(t); /* a weak reference keeps the struct alive during the call */
    unwatch(s, t);
    hooks_free(s, &t->hooks);
    rille_tensor_free(&t->grad);
    val_drop(s->graph, &t->val);
    free(t->name);
    t->name = NULL;
    s->handles.ntensor--;
    tensor_orphan(t);
}
