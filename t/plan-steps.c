/* plan-steps.c - training steps in parts of memories that do not reach each other give the bits of one memory: data,
 * tensor and pipeline parallel, in pieces, with updates in place and data that is checked. */
#include "actors/session/compiled.h"
#include "t/net.h"
#include "t/parts.h"

#include <unistd.h>

enum { WIDE = 8, LAYERS = 4 };

/* ---- nets ---- */

static void
data_before(struct net *b)
{
    b->x = net_floats(b, 32, WIDE, net_layout(b, 0, NDEV, "S(0)"));
    net_labels(b, 32, net_layout(b, 0, NDEV, "S(0)"));
    for (int i = 0; i < LAYERS; i++) net_param(b, WIDE, WIDE, net_layout(b, 0, NDEV, "B"));
}

static void
data_layer(struct net *b, struct rille_tensor **x, int i)
{
    net_call(b, "matmul", x, b->param[i]);
    net_call(b, "relu", x, NULL);
}

static void
tensor_before(struct net *b)
{
    b->x = net_floats(b, 32, WIDE, net_layout(b, 0, NDEV, "B"));
    net_labels(b, 32, net_layout(b, 0, NDEV, "B"));
    for (int i = 0; i < LAYERS; i++) {
        net_param(b, WIDE, 10, net_layout(b, 0, NDEV, "S(1)"));
        net_param(b, 10, WIDE, net_layout(b, 0, NDEV, "S(0)"));
    }
}

static void
tensor_layer(struct net *b, struct rille_tensor **x, int i)
{
    net_call(b, "matmul", x, b->param[2 * i]);
    net_call(b, "gelu", x, NULL);
    net_call(b, "matmul", x, b->param[2 * i + 1]);
    net_move(x, net_layout(b, 0, NDEV, "B"));
}

static void
stages_before(struct net *b)
{
    b->x = net_floats(b, 32, WIDE, net_layout(b, 0, 1, "B"));
    net_labels(b, 32, net_layout(b, NDEV - 1, 1, "B"));
    for (int i = 0; i < LAYERS; i++) net_param(b, WIDE, WIDE, net_layout(b, i * NDEV / LAYERS, 1, "B"));
}

static void
stages_layer(struct net *b, struct rille_tensor **x, int i)
{
    if (i) net_move(x, net_layout(b, i * NDEV / LAYERS, 1, "B"));
    net_call(b, "matmul", x, b->param[i]);
    net_call(b, "relu", x, NULL);
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
    net_call(b, "cross_entropy", &x, piece[1]);
    net_train(b, x);
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
    net_close(&b);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    alarm(300);
    for (size_t i = 0; i < countof(step); i++) try_step(&step[i], seed);
    return done();
}
