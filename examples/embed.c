/* embed.c - Rille without Lua: trains a classifier of handwritten digits on two devices from C.
 *
 *   build/release/examples/embed            traces the step once, and then runs it as a compiled graph
 *   build/release/examples/embed --plain    calls every operator again in each step
 *
 * A perceptron 64-256-256-10 is trained for 20 steps. The batch is split over devices 0 and 1, and weights are
 * replicated on both. No other line concerns data parallelism: Rille derives from these layouts that gradients
 * must be summed over the devices. Prints the loss of every step; examples/embed.lua is the same program and
 * prints the same numbers. */
#include "rille.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, PARAMS = 2 * LAYERS, STEPS = 20, BATCH = 64, IMAGES = 1797, PIXELS = 64 };
static const int64_t width[LAYERS + 1] = {PIXELS, 256, 256, 10};

/* A parameter and AdamW's running means of its gradient and of the gradient's square. */
struct param {
    struct rille_tensor *value, *mean, *square;
};

struct training {
    struct rille_session *s;
    const struct rille_layout *whole, *split;
    struct rille_tensor *images, *labels;
    struct param param[PARAMS];               /* weight and bias of each layer */
    struct rille_live *live_rate, *live_step; /* numbers that a compiled step reads before each run */
    double rate;
    int step; /* number of the step, from 1 */
};

/* Ends the program with a message after any failure. */
static void
must(int status)
{
    if (!status) return;
    fprintf(stderr, "embed: %s\n", rille_error());
    exit(1);
}

/* ---- operators ---- */

static struct rille_arg
tensor(struct rille_tensor *t)
{
    return (struct rille_arg){.kind = RILLE_ARG_TENSOR, .tensor = t};
}

static struct rille_arg
number(double f)
{
    return (struct rille_arg){.kind = RILLE_ARG_FLOAT, .f = f};
}

static struct rille_attr
integer(const char *name, int64_t i)
{
    return (struct rille_attr){.name = name, .kind = RILLE_INT, .i = i};
}

/* Returns name(x, y) with attributes. Takes ownership of x, so that calls can be nested. */
static struct rille_tensor *
apply(struct training *t, const char *name, struct rille_tensor *x, const struct rille_arg *y, int nattr,
      const struct rille_attr *attr)
{
    struct rille_tensor *result;
    struct rille_arg arg[2] = {tensor(x)};
    if (y) arg[1] = *y;
    must(rille_call(t->s, rille_op_find(name), y ? 2 : 1, arg, nattr, attr, &result));
    rille_tensor_free(&x);
    return result;
}

static struct rille_tensor *
with_tensor(struct training *t, const char *name, struct rille_tensor *x, struct rille_tensor *y)
{
    struct rille_arg arg = tensor(y);
    return apply(t, name, x, &arg, 0, NULL);
}

static struct rille_tensor *
with_number(struct training *t, const char *name, struct rille_tensor *x, double y)
{
    struct rille_arg arg = number(y);
    return apply(t, name, x, &arg, 0, NULL);
}

/* Returns x in layout l. Takes ownership of x. */
static struct rille_tensor *
moved(struct rille_tensor *x, const struct rille_layout *l)
{
    struct rille_tensor *result;
    must(rille_tensor_to_global(x, l, &result));
    rille_tensor_free(&x);
    return result;
}

/* ---- initial values ---- */

static void
open_devices(struct training *t)
{
    const struct rille_options options = {.size = sizeof options, .devices = "cpu:2", .seed = 3};
    const struct rille_place *both;
    must(rille_open(&options, &t->s));
    must(rille_place(t->s, "cpu", 1, (int32_t[]){2}, (int32_t[]){0, 1}, &both));
    must(rille_layout(t->s, both, 1, (const char *[]){"B"}, NULL, -1, &t->whole));
    must(rille_layout(t->s, both, 1, (const char *[]){"S(0)"}, NULL, -1, &t->split));
}

static void
load_images(struct training *t)
{
    const int64_t flat[] = {IMAGES, PIXELS};
    const struct rille_attr shape = {.name = "shape", .kind = RILLE_INTS, .n = 2, .list = flat};
    const struct rille_attr f32 = {.name = "dtype", .kind = RILLE_DTYPE, .text = "f32"};
    const struct rille_attr i64 = {.name = "dtype", .kind = RILLE_DTYPE, .text = "i64"};
    must(rille_load_npy(t->s, "examples/data/digits_x.npy", t->whole, &t->images));
    must(rille_load_npy(t->s, "examples/data/digits_y.npy", t->whole, &t->labels));
    t->images = apply(t, "reshape", t->images, NULL, 1, &shape);
    t->images = with_number(t, "div", apply(t, "cast", t->images, NULL, 1, &f32), 16);
    t->labels = apply(t, "cast", t->labels, NULL, 1, &i64);
}

/* Returns a leaf with t's value, replicated on both devices. */
static struct rille_tensor *
leaf(struct training *t, struct rille_tensor *x)
{
    struct rille_tensor *result;
    x = moved(x, t->whole);
    must(rille_tensor_detach(x, &result));
    rille_tensor_free(&x);
    return result;
}

/* Returns uniform values in [-bound, bound), bound = 1 / sqrt(inputs), as in nn.Linear. */
static void
start_param(struct training *t, struct param *p, int ndim, const int64_t *shape, int64_t inputs)
{
    double bound = 1 / sqrt((double)inputs);
    const struct rille_op *zeros = rille_op_find("zeros");
    struct rille_tensor *random;
    must(rille_create(t->s, rille_op_find("rand"), 0, NULL, ndim, shape, NULL, NULL, &random));
    p->value = leaf(t, with_number(t, "sub", with_number(t, "mul", random, 2 * bound), bound));
    must(rille_tensor_set_requires_grad(p->value, true));
    must(rille_create(t->s, zeros, 0, NULL, ndim, shape, NULL, t->whole, &p->mean));
    must(rille_create(t->s, zeros, 0, NULL, ndim, shape, NULL, t->whole, &p->square));
}

static int
tell_rate(void *arg, double *out)
{
    *out = ((struct training *)arg)->rate;
    return 0;
}

static int
tell_step(void *arg, double *out)
{
    *out = ((struct training *)arg)->step;
    return 0;
}

static void
start(struct training *t)
{
    open_devices(t);
    load_images(t);
    for (int i = 0; i < LAYERS; i++) {
        start_param(t, &t->param[2 * i], 2, (int64_t[]){width[i + 1], width[i]}, width[i]);
        start_param(t, &t->param[2 * i + 1], 1, (int64_t[]){width[i + 1]}, width[i]);
    }
    must(rille_live_new(t->s, tell_rate, NULL, t, &t->live_rate));
    must(rille_live_new(t->s, tell_step, NULL, t, &t->live_step));
}

static void
finish(struct training *t)
{
    rille_live_free(&t->live_rate);
    rille_live_free(&t->live_step);
    for (int i = 0; i < PARAMS; i++) {
        rille_tensor_free(&t->param[i].value);
        rille_tensor_free(&t->param[i].mean);
        rille_tensor_free(&t->param[i].square);
    }
    rille_tensor_free(&t->images);
    rille_tensor_free(&t->labels);
    rille_close(&t->s);
}

/* ---- one step ---- */

/* Returns x w^T + b. Takes ownership of x. */
static struct rille_tensor *
linear(struct training *t, struct rille_tensor *x, const struct param *weight, const struct param *bias)
{
    const struct rille_attr axes[] = {integer("axis0", 0), integer("axis1", 1)};
    struct rille_tensor *turned = apply(t, "transpose", rille_tensor_hold(weight->value), NULL, 2, axes);
    x = with_tensor(t, "matmul", x, turned);
    rille_tensor_free(&turned);
    return with_tensor(t, "add", x, bias->value);
}

static struct rille_tensor *
loss_of(struct training *t, struct rille_tensor *x, struct rille_tensor *y)
{
    struct rille_tensor *h = rille_tensor_hold(x);
    for (int i = 0; i < LAYERS; i++) {
        if (i > 0) h = apply(t, "gelu", h, NULL, 0, NULL);
        h = linear(t, h, &t->param[2 * i], &t->param[2 * i + 1]);
    }
    return with_tensor(t, "cross_entropy", h, y);
}

/* Updates a parameter. In a trace, the learning rate and the step count are live numbers: the compiled step reads
 * their present values before each run. Outside a trace both are constants. */
static void
update(struct training *t, struct param *p)
{
    const struct rille_attr decay = {.name = "weight_decay", .kind = RILLE_FLOAT, .f = 0.01};
    bool traced = rille_tracing(t->s);
    struct rille_tensor *gradient = rille_tensor_grad(p->value);
    struct rille_arg arg[] = {tensor(p->value), tensor(p->mean), tensor(p->square),
                              tensor(gradient), number(t->rate), {.kind = RILLE_ARG_INT, .i = t->step}};
    if (traced) arg[4] = (struct rille_arg){.kind = RILLE_ARG_LIVE, .live = t->live_rate};
    if (traced) arg[5] = (struct rille_arg){.kind = RILLE_ARG_LIVE, .live = t->live_step};
    must(rille_update(t->s, rille_op_find("adamw"), 6, arg, 1, &decay));
    must(rille_tensor_set_grad(p->value, NULL));
    rille_tensor_free(&gradient);
}

/* Runs forward, backward and updates. Outside a trace rille_step() computes everything; within a trace all calls are
 * only recorded. */
static struct rille_tensor *
train(struct training *t, struct rille_tensor *x, struct rille_tensor *y)
{
    struct rille_tensor *loss = loss_of(t, x, y);
    must(rille_tensor_backward(loss));
    for (int i = 0; i < PARAMS; i++) update(t, &t->param[i]);
    must(rille_step(t->s));
    return loss;
}

static struct rille_graph *
trace(struct training *t, struct rille_tensor *const batch[2])
{
    struct rille_tensor *piece[2], *loss;
    struct rille_graph *g;
    must(rille_trace_begin(t->s, &(struct rille_graph_options){0}, 2, batch, piece));
    loss = train(t, piece[0], piece[1]);
    must(rille_trace_end(t->s, 1, &loss, &g));
    rille_tensor_free(&piece[0]);
    rille_tensor_free(&piece[1]);
    rille_tensor_free(&loss);
    return g;
}

/* Returns the rows of the i-th batch, split over the devices. */
static struct rille_tensor *
batch_of(struct training *t, struct rille_tensor *all, int i)
{
    const struct rille_attr rows[] = {integer("axis", 0), integer("start", i * BATCH),
                                      integer("stop", (i + 1) * BATCH)};
    return moved(apply(t, "slice", rille_tensor_hold(all), NULL, 3, rows), t->split);
}

int
main(int argc, char **argv)
{
    bool plain = argc > 1 && !strcmp(argv[1], "--plain");
    struct training t = {0};
    struct rille_graph *g = NULL;
    start(&t);
    for (int i = 0; i < STEPS; i++) {
        struct rille_tensor *batch[2] = {batch_of(&t, t.images, i), batch_of(&t, t.labels, i)}, *loss;
        float value;
        t.rate = 1e-2 * (STEPS - i) / STEPS;
        t.step = i + 1;
        if (!plain && !g) g = trace(&t, batch);
        if (plain)
            loss = train(&t, batch[0], batch[1]);
        else
            must(rille_graph_run(g, 2, batch, &loss));
        must(rille_tensor_read(loss, &value));
        printf("%.9g\n", (double)value);
        rille_tensor_free(&batch[0]);
        rille_tensor_free(&batch[1]);
        rille_tensor_free(&loss);
    }
    rille_graph_free(&g);
    finish(&t);
    return 0;
}
