/* face.c - checks of arguments of public functions. */
#include "actors/session/core/face.h"

#include "kernels/cpu/base/team.h"

#include <pthread.h>

const void *
face_thread(void)
{
    static _Thread_local char mark;
    return &mark;
}

static int nfork; /* calls of fork() that lead from the process that loaded the library to this process */

static void
count_fork(void)
{
    nfork++;
}

static void
count_forks(void)
{
    pthread_atfork(team_release, NULL, count_fork);
}

int
face_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_forks);
    return nfork;
}

int
face_given(const void *p, const char *what, const char *who)
{
    return p ? 0 : fail(E_ARG, "%s: %s is NULL", who, what);
}

int
face_own(const struct rille_session *s, const char *who)
{
    if (!s) return fail(E_ARG, "%s: the session is NULL", who);
    if (s->process == nfork) return 0;
    return fail(E_STATE,
                "%s: this process was forked from the one that opened the session; open a session after fork(), or use "
                "exec",
                who);
}

int
face_session(const struct rille_session *s, const char *who)
{
    TRY(face_own(s, who));
    if (s->owner != face_thread())
        return fail(E_STATE, "%s: a session must be used only by the thread that opened it", who);
    err_at(s->context.at.file, s->context.at.line);
    return 0;
}

int
face_tensor(const struct rille_tensor *t, const char *who)
{
    return t ? face_session(t->s, who) : fail(E_ARG, "%s: the tensor is NULL", who);
}

static int
foreign_handle(const char *who, const char *what, int i)
{
    return fail(E_ARG, "%s: %s %d belongs to another session", who, what, i);
}

int
face_tensors(const struct rille_session *s, int n, struct rille_tensor *const *t, const char *who)
{
    TRY(face_session(s, who));
    if (n < 0) return fail(E_ARG, "%s: the number of tensors must not be negative, found %d", who, n);
    if (n && !t) return fail(E_ARG, "%s: the list of tensors is NULL", who);
    for (int i = 0; i < n; i++) {
        if (!t[i]) return fail(E_ARG, "%s: tensor %d is NULL", who, i);
        if (t[i]->s != s) return foreign_handle(who, "tensor", i);
    }
    return 0;
}

int
face_args(const struct rille_session *s, int n, const struct rille_arg *args, const char *who)
{
    if (n < 0) return fail(E_ARG, "%s: the number of operands must not be negative, found %d", who, n);
    if (n && !args) return fail(E_ARG, "%s: the list of operands is NULL", who);
    for (int i = 0; i < n; i++) {
        bool tensor = args[i].kind == RILLE_ARG_TENSOR, live = args[i].kind == RILLE_ARG_LIVE;
        if (args[i].kind > RILLE_ARG_LIVE) return fail(E_ARG, "%s: operand %d has an unknown kind", who, i);
        if ((tensor && !args[i].tensor) || (live && !args[i].live))
            return fail(E_ARG, "%s: operand %d is NULL", who, i);
        if ((tensor && args[i].tensor->s != s) || (live && args[i].live->s != s))
            return foreign_handle(who, "operand", i);
    }
    return 0;
}

int
face_attrs(int n, const struct rille_attr *attrs, const char *who)
{
    if (n < 0) return fail(E_ARG, "%s: the number of attributes must not be negative, found %d", who, n);
    if (n && !attrs) return fail(E_ARG, "%s: the list of attributes is NULL", who);
    for (int i = 0; i < n; i++) {
        const struct rille_attr *a = &attrs[i];
        bool text = a->kind == RILLE_TEXT || a->kind == RILLE_DTYPE;
        if (a->kind < RILLE_INT || a->kind > RILLE_DTYPE)
            return fail(E_ARG, "%s: attribute %d has an unknown kind", who, i);
        if (!a->name) return fail(E_ARG, "%s: the name of attribute %d is NULL", who, i);
        if ((text && !a->text) || (a->kind == RILLE_INTS && a->n > 0 && !a->list))
            return fail(E_ARG, "%s: the value of attribute %s is NULL", who, a->name);
    }
    return 0;
}

int
face_layout(const struct rille_session *s, const struct rille_layout *l, const char *who)
{
    if (!l) return fail(E_ARG, "%s: the layout is NULL", who);
    if (atlas_has_layout(s->atlas, (const struct layout *)l)) return 0;
    return fail(E_ARG, "%s: the layout belongs to another session", who);
}

int
face_place(const struct rille_session *s, const struct rille_place *p, const char *who)
{
    if (!p) return fail(E_ARG, "%s: the placement is NULL", who);
    if (atlas_has_place(s->atlas, (const struct place *)p)) return 0;
    return fail(E_ARG, "%s: the placement belongs to another session", who);
}

int
face_shape(int ndim, const int64_t *shape, const char *who)
{
    return ndim > 0 && !shape ? fail(E_ARG, "%s: the shape is NULL", who) : 0;
}

int
face_type(const char *dtype, int ndim, const int64_t *shape, const char *who, struct type *out)
{
    TRY(face_given(dtype, "the dtype", who));
    TRY(face_shape(ndim, shape, who));
    enum dtype d = dtype_parse(dtype);
    if (d == DT_NONE) return err_last();
    if (ndim < 0 || ndim > MAX_DIM)
        return fail(E_SHAPE, "%s: a tensor must have at most %d dimensions, found %d", who, MAX_DIM, ndim);
    *out = type_of(d, ndim, shape);
    return type_check(out);
}

int
face_move(const struct rille_session *s, const struct type *t, const struct rille_layout *from,
          const struct rille_layout *to, const char *who)
{
    TRY(face_layout(s, from, who));
    TRY(face_layout(s, to, who));
    TRY(layout_fits((const struct layout *)from, t));
    return layout_fits((const struct layout *)to, t);
}
