/* own-gradient.c - tests gradient functions and hooks in C: values, errors, and that each `arg` is dropped once. */
#include "t/lib/must.h"
#include "t/lib/tap.h"

/* State of a gradient function or hook of this test. fails: true: the function fails; factor: factor of the
 * gradient; ncall, ndrop: number of its calls, and of calls of drop(). */
struct calls {
    struct rille_session *s;
    int ncall, ndrop, fails;
    double factor;
};

static void
drop(void *arg)
{
    ((struct calls *)arg)->ndrop++;
}

static struct rille_tensor *
full(struct rille_session *s, double value, bool gradient)
{
    struct rille_tensor *t;
    struct rille_arg arg = {.kind = RILLE_ARG_FLOAT, .f = value};
    int64_t shape[] = {2};
    must(rille_create(s, rille_op_find("full"), 1, &arg, 1, shape, NULL, NULL, &t), "full");
    must(rille_tensor_set_requires_grad(t, gradient), "requires_grad");
    return t;
}

static struct rille_tensor *
scaled(struct rille_session *s, struct rille_tensor *t, double by)
{
    struct rille_tensor *out;
    struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = t}, {.kind = RILLE_ARG_FLOAT, .f = by}};
    must(rille_call(s, rille_op_find("mul"), 2, arg, 0, NULL, &out), "mul");
    return out;
}

static struct rille_tensor *
sum(struct rille_session *s, struct rille_tensor *t)
{
    struct rille_tensor *out;
    struct rille_arg arg = {.kind = RILLE_ARG_TENSOR, .tensor = t};
    must(rille_call(s, rille_op_find("sum"), 1, &arg, 0, NULL, &out), "sum");
    return out;
}

/* Returns the first element of the gradient of t; -1: t has no gradient. */
static double
first_gradient(struct rille_tensor *t)
{
    float value[2];
    struct rille_tensor *g = rille_tensor_grad(t);
    if (!g) return -1;
    must(rille_tensor_read(g, value), "read");
    rille_tensor_free(&g);
    return (double)value[0];
}

static int
backward(void *arg, struct rille_tensor *const *dresult, struct rille_tensor *const *saved, struct rille_tensor **din)
{
    struct calls *c = arg;
    c->ncall++;
    if (c->fails) return c->fails;
    (void)saved;
    din[0] = scaled(c->s, dresult[0], c->factor);
    return 0;
}

/* Returns 2 t, computed by an operator with the gradient function of c. */
static struct rille_tensor *
doubled(struct calls *c, struct rille_tensor *t)
{
    const struct rille_backward user = {"doubled", backward, drop, c};
    bool mode = rille_grad_mode(c->s, false);
    struct rille_tensor *raw = scaled(c->s, t, 2), *out;
    rille_grad_mode(c->s, mode);
    must(rille_own_gradient(c->s, &user, 1, &t, 1, &t, 1, &raw, &out), "own gradient");
    rille_tensor_free(&raw);
    return out;
}

static void
functions(struct rille_session *s)
{
    struct calls c = {.s = s, .factor = 5};
    struct rille_tensor *x = full(s, 3, true), *y = doubled(&c, x), *loss = sum(s, y);
    must(rille_tensor_backward_retained(loss), "backward");
    ok(first_gradient(x) == 5 && c.ncall == 1 && c.ndrop == 0, "the function makes the gradient");
    must(rille_tensor_backward(loss), "backward");
    ok(first_gradient(x) == 10 && c.ncall == 2 && c.ndrop == 1, "the last backward drops its argument");
    ok(rille_tensor_backward(loss) != 0 && strstr(rille_error(), "retain_graph"), "a third backward is an error");
    rille_tensor_free(&y);
    rille_tensor_free(&loss);

    c = (struct calls){.s = s, .factor = 5, .fails = 1};
    y = doubled(&c, x);
    loss = sum(s, y);
    ok(rille_tensor_backward(loss) != 0 && c.ndrop == 0, "a failing function fails the backward pass");
    c.fails = 0;
    ok(rille_tensor_backward(loss) == 0 && first_gradient(x) == 15, "which may be called again");
    rille_tensor_free(&y);
    rille_tensor_free(&loss);

    c = (struct calls){.s = s};
    y = doubled(&c, x);
    rille_tensor_free(&y);
    ok(c.ncall == 0 && c.ndrop == 1, "a result that nobody uses drops the argument");
    bool mode = rille_grad_mode(s, false);
    y = doubled(&c, x);
    rille_grad_mode(s, mode);
    ok(!rille_tensor_requires_grad(y) && c.ndrop == 2, "without grad mode the argument is dropped at once");
    rille_tensor_free(&y);
    rille_tensor_free(&x);
}

static int
hook(void *arg, struct rille_tensor *gradient, struct rille_tensor **out)
{
    struct calls *c = arg;
    c->ncall++;
    if (c->fails) return c->fails;
    if (c->factor != 0) *out = scaled(c->s, gradient, c->factor);
    return 0;
}

static void
hooks(struct rille_session *s)
{
    struct calls leaf = {.s = s, .factor = 10}, inner = {.s = s, .factor = 3}, seen = {.s = s};
    const struct rille_hook_user of_leaf = {drop, &leaf}, of_inner = {drop, &inner}, of_seen = {drop, &seen};
    struct rille_tensor *x = full(s, 3, true), *y = scaled(s, x, 2), *loss = sum(s, y), *plain = full(s, 1, false);
    int64_t id, other;
    must(rille_tensor_hook(x, hook, &of_leaf, &id), "hook");
    must(rille_tensor_hook(y, hook, &of_inner, &other), "hook");
    must(rille_tensor_hook(y, hook, &of_seen, NULL), "hook");
    must(rille_tensor_retain_grad(y), "retain");
    must(rille_tensor_backward_retained(loss), "backward");
    ok(first_gradient(x) == 60 && first_gradient(y) == 3 && seen.ncall == 1, "hooks replace gradients");
    must(rille_tensor_unhook(x, id), "unhook");
    must(rille_tensor_unhook(y, other), "unhook");
    must(rille_tensor_unhook(y, 12345), "unhook");
    ok(leaf.ndrop == 1 && inner.ndrop == 1 && seen.ndrop == 0, "a removed hook drops its argument once");
    must(rille_tensor_backward(loss), "backward");
    ok(first_gradient(x) == 62 && seen.ncall == 2 && seen.ndrop == 1, "hooks of results end with the last backward");
    ok(rille_tensor_hook(y, hook, &of_seen, NULL) != 0 && strstr(rille_error(), "already called"),
       "later hooks are errors");
    ok(rille_tensor_hook(plain, hook, &of_seen, NULL) != 0 && strstr(rille_error(), "require a gradient"),
       "a tensor without a gradient has no hooks");
    leaf = (struct calls){.s = s};
    must(rille_tensor_hook(x, hook, &of_leaf, NULL), "hook");
    rille_tensor_free(&x);
    rille_tensor_free(&y);
    rille_tensor_free(&loss);
    rille_tensor_free(&plain);
    ok(leaf.ndrop == 1, "a variable that is freed drops the arguments of its hooks");
}

int
main(void)
{
    struct rille_session *s;
    must(rille_open(&(struct rille_options){.devices = "cpu:2"}, &s), "open");
    functions(s);
    hooks(s);
    ok(rille_close(&s) == 0, "no handle is left");
    return done();
}
