/* steps.c - tests that training steps in plan partitions give the bits of one host.
 *
 * Tries data, tensor and pipeline parallel steps, also with micro-batches, in-place updates and checked data. Hosts
 * cannot access each other's memory. Each step runs first on cpu devices, then on as many asynchronous test devices
 * per host. A stream of the sender copies a value from an asynchronous device to host memory; a stream of the
 * receiver copies the value from there to its device (actors/plan/lower/send.c). A third pass without ONE_SPACE
 * simulates GPUs without peer access. Finally, injected mistakes between streams, host code and the transport must
 * be found. */
#include "actors/session/step/compiled.h"
#include "t/lib/plan/faults.h"
#include "t/lib/plan/net.h"
#include "t/lib/plan/parts.h"

#include <sys/wait.h>

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
    {"data parallel, 4 micro-batches", data_before, data_layer, {.micro_batches = 4}},
    {"tensor parallel", tensor_before, tensor_layer, {0}},
    {"tensor parallel, 2 micro-batches", tensor_before, tensor_layer, {.micro_batches = 2}},
    {"pipeline", stages_before, stages_layer, {0}},
    {"pipeline, 1f1b, 8 micro-batches", stages_before, stages_layer, {.micro_batches = 8, .schedule = "1f1b"}},
    {"pipeline, gpipe, 8 micro-batches", stages_before, stages_layer, {.micro_batches = 8, .schedule = "gpipe"}},
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

/* ---- plan partitions ---- */

static const struct cut cut[] = {{2, {2, 2}}, {2, {1, 3}}, {4, {1, 1, 1, 1}}};

/* A training step on devices of one kind, with its one-host plan and the results of that plan. */
struct stepped {
    struct net net;
    struct bench whole;
    struct str bytes; /* serialized program of the step */
    struct rille_graph *g;
    struct engine *e;
};

static void
step_open(struct stepped *t, const struct step *of, const char *kind, uint64_t seed)
{
    struct rille_options o = {.devices = "cpu:4,async:4", .threads = 2, .bus = "zmq"};
    *t = (struct stepped){.net = {.kind = kind}};
    other_kind = device_kind_parse(kind);
    must(rille_open(&o, &t->net.s), "open");
    t->g = trace(&t->net, of);
    program_write(t->g->runner->plan->program, &t->bytes);
    t->e = simulator(seed);
    bench_open(&t->whole, t->g->runner->plan);
    must(engine_run(t->e, &t->whole.run), "run");
}

static void
step_close(struct stepped *t)
{
    bench_close(&t->whole);
    engine_free(&t->e);
    str_free(&t->bytes);
    rille_graph_free(&t->g);
    net_close(&t->net);
}

/* Checks that the partition has channels and results. It must have transfers if and only if host code cannot read
 * the memory of its devices. */
static bool
is_whole(const struct plan *p)
{
    int ntransfer = 0;
    for (int32_t i = 0; i < p->ntask; i++) ntransfer += p->task[i].kind == &kind_transfer;
    return p->nchannel > 0 && p->nroot_part > 0 && (other_kind == DEV_CPU) == (ntransfer == 0);
}

static bool
agrees(const struct stepped *t, uint64_t seed)
{
    struct parts x = {0};
    parts_map(&x, &cut[seed % countof(cut)]);
    bool good = !parts_compile(&x, &t->bytes, t->net.s->atlas) && !parts_connect(&x) && !parts_open(&x, seed);
    good = good && parts_run(&x) == 0;
    for (int m = 0; good && m < x.n; m++) good = is_whole(x.plan[m]);
    good = good && parts_agree(&x, &t->whole);
    if (!good && fault == NO_FAULT) diag("seed %llu: %s", (unsigned long long)seed, err_text());
    parts_close(&x);
    return good;
}

static void
try_step(const struct step *of, const char *kind, const char *more, uint64_t first)
{
    struct stepped t;
    int good = 0;
    step_open(&t, of, kind, first);
    int n = getenv("RILLE_LONG") ? 300 : other_kind == DEV_CPU ? 15 : 6;
    for (int i = 0; i < n; i++) good += agrees(&t, first + (uint64_t)i);
    ok(good == n, "%s on %s%s: partitions give the bits of one host, in %d orders of events", of->name, kind, more, n);
    step_close(&t);
}

/* ---- planted mistakes ---- */

/* Runs the step in a child process, because the mistake may end the process. */
static bool
is_caught(const struct stepped *t, uint64_t seed)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        alarm(fault ? 20 : HANG);
        _exit(!agrees(t, seed));
    }
    assert(child > 0 && waitpid(child, &status, 0) == child);
    return status != 0;
}

/* Runs the steps with the mistake until a run fails. Without a mistake, runs this run's share of the steps. */
static void
try_mistake(enum fault mistake, const char *name, uint64_t first)
{
    enum { SEEDS = 3 };
    int caught = 0, tried = 0;
    for (size_t i = 0; i < countof(step) && (!mistake || !caught); i++) {
        struct stepped t;
        if (!mistake && !share_next()) continue;
        fault = NO_FAULT;
        step_open(&t, &step[i], "async", first);
        fault = mistake;
        for (uint64_t seed = first; seed < first + SEEDS; seed++, tried++) caught += is_caught(&t, seed);
        fault = NO_FAULT;
        step_close(&t);
    }
    ok(mistake == NO_FAULT ? caught == 0 : caught > 0, "%s is caught", name);
    diag("caught in %d of %d runs", caught, tried);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    alarm(HANG);
    for (size_t i = 0; i < countof(step); i++) {
        if (share_next()) try_step(&step[i], "cpu", "", seed);
        if (share_next()) try_step(&step[i], "async", "", seed);
        device_late.flags &= ~(unsigned)ONE_SPACE;
        if (share_next()) try_step(&step[i], "async", " that cannot access each other", seed);
        device_late.flags |= ONE_SPACE;
    }
    try_mistake(NO_FAULT, "nothing, without a mistake,", seed);
    if (share_next()) try_mistake(EARLY_READ, "a SEND that is notified before its bytes are in host memory", seed);
    if (share_next())
        try_mistake(EARLY_BACK, "a register that is given back before the stream has read the received value", seed);
    if (share_next())
        try_mistake(NO_EVENT, "a stream that does not wait for the stream that copies the received value", seed);
    if (share_next()) try_mistake(NEXT_ADDRESS, "a stream that copies from or to the place of the next act", seed);
    return done();
}
