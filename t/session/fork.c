/* fork.c - tests what a child made by fork() can do. The child ends without a hang. Its calls with the parent's
 * session fail, and the error says that the session is the parent's. A session that the child opens computes.
 * t/repl/face tests each function. */
#include "rille.h"
#include "t/lib/tap.h"

#include <sys/wait.h>

static struct rille_session *
open_session(const struct rille_options *o)
{
    struct rille_session *s;
    return rille_open(o, &s) ? NULL : s;
}

static struct rille_tensor *
ones(struct rille_session *s)
{
    struct rille_tensor *t = NULL;
    rille_create(s, rille_op_find("ones"), 0, NULL, 2, (int64_t[]){256, 256}, NULL, NULL, &t);
    return t;
}

/* Returns true if the session multiplies two matrices of ones. */
static bool
multiplies(struct rille_session *s)
{
    struct rille_tensor *t = ones(s), *y = NULL;
    const struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = t}, {.kind = RILLE_ARG_TENSOR, .tensor = t}};
    float value[256 * 256] = {0};
    bool right = !rille_call(s, rille_op_find("matmul"), 2, arg, 0, NULL, &y) && !rille_tensor_read(y, value);
    for (int i = 0; i < 256 * 256; i++) right = right && value[i] == 256;
    rille_tensor_free(&t);
    rille_tensor_free(&y);
    return right;
}

typedef bool child_fn(struct rille_session *s, const struct rille_options *o);

/* Returns true if the function returns true in a child, which then ends by exit(). */
static bool
in_child(child_fn *f, struct rille_session *s, const struct rille_options *o)
{
    int status;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        exit(f(s, o) ? 0 : 1);
    }
    waitpid(child, &status, 0);
    return status == 0;
}

static bool
child_idles(struct rille_session *s, const struct rille_options *o)
{
    return s && o;
}

static bool
child_opens(struct rille_session *s, const struct rille_options *o)
{
    struct rille_session *own = open_session(o);
    return s && own && multiplies(own) && rille_close(&own) == 0;
}

static bool
child_is_refused(struct rille_session *s, const struct rille_options *o)
{
    struct rille_tensor *t = NULL;
    (void)o;
    return rille_create(s, rille_op_find("ones"), 0, NULL, 0, NULL, NULL, NULL, &t) != 0 && !t &&
           !strcmp(rille_error(),
                   "rille: this process was forked from the one that opened the session; open a session after "
                   "fork(), or use exec");
}

static bool
child_closes(struct rille_session *s, const struct rille_options *o)
{
    return rille_close(&s) != 0 && s && child_opens(s, o);
}

/* Forks a grandchild that uses the child's session. */
static bool
grandchild_is_refused(struct rille_session *s, const struct rille_options *o)
{
    struct rille_session *own = open_session(o);
    bool right = s && multiplies(own) && in_child(child_is_refused, own, o) && multiplies(own);
    return rille_close(&own) == 0 && right;
}

static void
test_children(const struct rille_options *o)
{
    static const struct {
        const char *name;
        child_fn *f;
    } list[] = {{"that never uses a session ends", child_idles},
                {"opens a session of its own and computes", child_opens},
                {"is refused by name when it uses the parent's session", child_is_refused},
                {"cannot close the parent's session, and still opens its own", child_closes},
                {"has children that are refused by name", grandchild_is_refused}};
    struct rille_session *s = open_session(o);
    multiplies(s);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        ok(in_child(list[i].f, s, o) && multiplies(s), "%s on %s, %d threads: a child %s", o->devices, o->bus,
           o->threads, list[i].name);
    ok(rille_close(&s) == 0, "the parent's session closes");
}

int
main(void)
{
    alarm(HANG);
    static const char *const bus[] = {"zmq", "sim:1"};
    for (int b = 0; b < 2; b++)
        for (int threads = 1; threads <= 2; threads++)
            test_children(&(struct rille_options){.devices = "cpu:2,async:1", .threads = threads, .bus = bus[b]});
    return done();
}
