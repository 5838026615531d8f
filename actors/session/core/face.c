/* face.c - checks of arguments of public functions. */
#include "actors/session/core/face.h"

#include <pthread.h>
#include <string.h>

const void *
face_thread(void)
{
    static _Thread_local char mark;
    return &mark;
}

static int nfork; /* number of fork() calls between the process that loaded the library and this process */

static void
count_fork(void)
{
    nfork++;
}

/* Installs the fork handlers. In the child, a handler counts the call in nfork. Before fork(), a handler ends the
 * kernel threads that belong to the calling thread, because a session of the child would wait for these threads
 * for ever. */
static void
count_forks(void)
{
    pthread_atfork(kernel_end_threads, NULL, count_fork);
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
                "rille: this process was forked from the one that opened the session; open a session after fork(), "
                "or use exec");
}

int
face_session(const struct rille_session *s, const char *who)
{
    TRY(face_own(s, who));
    if (s->owner != face_thread())
        return fail(E_STATE,
                    "%s: a session must be used only by the thread that opened it, or that called rille_adopt()", who);
    err_at(s->context.at.file, s->context.at.line);
    return 0;
}

/* Checks the size of an option struct. Fields that are newer than this library must be zero. */
static int
check_size(const char *from, size_t size, size_t first, size_t known, const char *who)
{
    enum { MOST = 1 << 16 };
    if (size && (size < first || size > MOST))
        return fail(E_ARG, "%s: the size of the options must be 0 or sizeof the struct, at least %zu bytes, found %zu",
                    who, first, size);
    for (size_t i = known; i < size; i++)
        if (from[i])
            return fail(E_ARG, "%s: Rille %s does not know an option that is set; set it to 0, or use a later librille",
                        who, RILLE_VERSION);
    return 0;
}

int
face_options(const void *from, size_t first, size_t known, void *to, const char *who)
{
    size_t size;
    TRY(face_given(from, "the options", who));
    memcpy(&size, from, sizeof size);
    TRY(check_size(from, size, first, known, who));
    memset(to, 0, known);
    memcpy(to, from, MIN(size ? size : first, known));
    memcpy(to, &known, sizeof known);
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
