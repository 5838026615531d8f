/* plan-steps.c - training steps in parts of memories that do not reach each other give the bits of one memory: data,
 * tensor and pipeline parallel, in pieces, with updates in place and data that is checked. */
#include "actors/session/compiled.h"
#include "t/parts.h"

#include <unistd.h>

enum { WIDE = 8, LAYERS = 4, MOST_PARAMS = 2 * LAYERS };

struct net {
    struct rille_session *s;
    struct rille_tensor *x, *y, *param[MOST_PARAMS];
    int nparam;
};

static void
must(int status, const char *what)
{
    if (!status) return;
    diag("%s: %s", what, rille_error());
    exit(1);
}

static const struct rille_layout *
on(struct net *b, int32_t first, int32_t n, const char *sbp)
{
    int32_t rank[NDEV];
    const struct rille_place *p;
    const struct rille_layout *l;
    for (int32_t i = 0; i < n; i++) rank[i] = first + i;
    must(rille_place(b->s, "cpu", 1, &n, rank, &p), "placement");
    must(rille_layout(b->s, p, 1, &sbp, NULL, -1, &l), "layout");
    return l;
}

static struct rille_tensor *
floats(struct net *b, int64_t rows, int64_t columns, const struct rille_layout *l)
{
    int64_t shape[2] = {rows, columns};
    float *v = calloc((size_t)(rows * columns), sizeof *v);
    struct rille_tensor *t;
    must(rille_tensor_from_host(b->s, "f32", 2, shape, v, l, &t), "floats");
    free(v);
    return t;
}

static void
labels(struct net *b, int64_t rows, const struct rille_layout *l)
{
    int64_t v[64] = {0};
    must(rille_tensor_from_host(b->s, "i64", 1, &rows, v, l, &b->y), "labels");
}

static void
param(struct net *b, int64_t rows, int64_t columns, const struct rille_layout *l)
{
    struct rille_tensor *t = b->param[b->nparam++] = floats(b, rows, columns, l);
    must(rille_tensor_set_requires_grad(t, true), "parameter");
}

/* The result takes the place of a. */
static void
call_on(struct net *b, const char *op, struct rille_tensor **a, struct rille_tensor *other)
{
    struct rille_arg arg[2] = {{.kind = RILLE_ARG_TENSOR, .tensor = *a}, {.kind = RILLE_ARG_TENSOR, .tensor = other}};
    struct rille_tensor *out;
    must(rille_call(b->s, rille_op_find(op), other ? 2 : 1, arg, 0, NULL, &out), op);
    rille_tensor_free(a);
    *a = out;
}

static void
move(struct rille_tensor **a, const struct rille_layout *l)
{
    struct rille_tensor *out;
    must(rille_tensor_to_global(*a, l, &out), "to_global");
    rille_tensor_free(a);
    *a = out;
}

static void
train(struct net *b, struct rille_tensor *loss)
{
    must(rille_tensor_backward(loss), "backward");
    for (int i = 0; i < b->nparam; i++) {
        struct rille_tensor *g = rille_tensor_grad(b->param[i]);
        struct rille_arg arg[4] = {{.kind = RILLE_ARG_TENSOR, .tensor = b->param[i]},
                                   {.kind = RILLE_ARG_NONE},
                                   {.kind = RILLE_ARG_TENSOR, .tensor = g},
                                   {.kind = RILLE_ARG_FLOAT, .f = 0.1}};
        must(rille_update(b->s, rille_op_find("sgd"), 4, arg, 0, NULL), "sgd");
        rille_tensor_free(&g);
    }
    must(rille_step(b->s), "step");
    for (int i = 0; i < b->nparam; i++) must(rille_tensor_set_grad(b->param[i], NULL), "zero_grad");
}

/* ---- nets ---- */

static void
data_before(struct net *b)
{
    b->x = floats(b, 32, WIDE, on(b, 0, NDEV, "S(0)"));
    labels(b, 32, on(b, 0, NDEV, "S(0)"));
    for (int i = 0; i < LAYERS; i++) param(b, WIDE, WIDE, on(b, 0, NDEV, "B"));
}

static void
data_layer(struct net *b, struct rille_tensor **x, int i)
{
    call_on(b, "matmul", x, b->param[i]);
    call_on(b, "relu", x, NULL);
}

static void
tensor_before(struct net *b)
{
    b->x = floats(b, 32, WIDE, on(b, 0, NDEV, "B"));
    labels(b, 32, on(b, 0, NDEV, "B"));
    for (int i = 0; i < LAYERS; i++) {
        param(b, WIDE, 10, on(b, 0, NDEV, "S(1)"));
        param(b, 10, WIDE, on(b, 0, NDEV, "S(0)"));
    }
}

static void
tensor_layer(struct net *b, struct rille_tensor **x, int i)
{
    call_on(b, "matmul", x, b->param[2 * i]);
    call_on(b, "gelu", x, NULL);
    call_on(b, "matmul", x, b->param[2 * i + 1]);
    move(x, on(b, 0, NDEV, "B"));
}

static void
stages_before(struct net *b)
{
    b->x = floats(b, 32, WIDE, on(b, 0, 1, "B"));
    labels(b, 32, on(b, NDEV - 1, 1, "B"));
    for (int i = 0; i < LAYERS; i++) param(b, WIDE, WIDE, on(b, i * NDEV / LAYERS, 1, "B"));
}

static void
stages_layer(struct net *b, struct rille_tensor **x, int i)
{
    if (i) move(x, on(b, i * NDEV / LAYERS, 1, "B"));
    call_on(b, "matmul", x, b->param[i]);
    call_on(b, "relu", x, NULL);
}

static const struct step {
    const char *name;
    void (*before)(struct net *b);
    void (*layer)(struct net *b, struct rille_tensor **x, int i);
    struct rille_graph_options options;
} step[] = {
    {"data parallel", data_before, data_layer, {0}},
    {"data parallel, 4 pieces", data_before, data_layer, {.micro_batches = 4}},
    {"tensor parallel", tensor_before, tensor_layer, {0}},
    {"tensor parallel, 2 pieces", tensor_before, tensor_layer, {.micro_batches = 2}},
    {"pipeline", stages_before, stages_layer, {0}},
    {"pipeline, 1f1b, 8 pieces", stages_before, stages_layer, {.micro_batches = 8, .schedule = "1f1b"}},
    {"pipeline, gpipe, 8 pieces", stages_before, stages_layer, {.micro_batches = 8, .schedule = "gpipe"}},
    {"pipeline, split backward", stages_before, stages_layer, {.micro_batches = 8, .split_backward = true}},
};

static struct rille_graph *
trace(struct net *b, const struct step *t)
{
    struct rille_tensor *piece[2], *x;
    struct rille_graph *g;
    t->before(b);
    must(rille_trace_begin(b->s, &t->options, 2, (struct rille_tensor *[]){b->x, b->y}, piece), "trace");
    x = rille_tensor_hold(piece[0]);
    for (int i = 0; i < LAYERS; i++) t->layer(b, &x, i);
    call_on(b, "cross_entropy", &x, piece[1]);
    train(b, x);
    must(rille_trace_end(b->s, 1, &x, &g), t->name);
    rille_tensor_free(&x);
    return g;
}

/* ---- in parts ---- */

static const struct cut cut[] = {{2, {2, 2}}, {2, {1, 3}}, {4, {1, 1, 1, 1}}};

static bool
agrees(struct rille_session *s, const struct bench *whole, const struct str *bytes, uint64_t seed)
{
    struct parts x = {0};
    int got[MOST_PARTS];
    parts_map(&x, &cut[seed % countof(cut)]);
    bool good = !parts_compile(&x, bytes, s->atlas) && !parts_connect(&x) && !parts_open(&x, seed);
    if (good) parts_run(&x, got);
    for (int m = 0; good && m < x.n; m++) good = !got[m] && x.plan[m]->nchannel > 0 && x.plan[m]->nroot_part > 0;
    good = good && parts_agree(&x, whole);
    if (!good) diag("seed %llu: %s", (unsigned long long)seed, err_text());
    parts_close(&x);
    return good;
}

static void
try_step(const struct step *t, uint64_t first)
{
    struct rille_options o = {.devices = "cpu:4", .threads = 2, .bus = "zmq"};
    struct net b = {0};
    struct bench whole;
    struct str bytes = {0};
    int good = 0, n = getenv("RILLE_LONG") ? 300 : 15;
    must(rille_open(&o, &b.s), "open");
    struct rille_graph *g = trace(&b, t);
    program_write(g->runner->plan->program, &bytes);
    struct engine *e = simulator(first);
    bench_open(&whole, g->runner->plan);
    must(engine_run(e, &whole.run), "run");
    for (int i = 0; i < n; i++) good += agrees(b.s, &whole, &bytes, first + (uint64_t)i);
    ok(good == n, "%s: parts give the bits of one memory, in %d orders", t->name, n);
    bench_close(&whole);
    engine_free(&e);
    str_free(&bytes);
    rille_graph_free(&g);
    for (int i = 0; i < b.nparam; i++) rille_tensor_free(&b.param[i]);
    rille_tensor_free(&b.x);
    rille_tensor_free(&b.y);
    rille_close(&b.s);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    alarm(300);
    for (size_t i = 0; i < countof(step); i++) try_step(&step[i], seed);
    return done();
}
