/* plan-rows.c - threads keep their rows: a thread that may wait as long as it likes does the acts of its row in their
 * order, whatever comes first, in pipelines whose tasks are said to take anything, on as many threads as devices and on
 * fewer; played and run. */
#include "actors/session/compiled.h"
#include "runtime/error.h"
#include "t/net.h"
#include "t/tap.h"

#include <unistd.h>

enum { DEVICES = 4, PIECES = 8, WIDTH = 8, FOR_EVER = 1000000000 };

struct count {
    int64_t acts;
    int played, ran;
};

/* A training step of a stage on each device that is named. */
static struct rille_graph *
pipeline(struct net *n, const char *schedule, const int *dealt, int nstage)
{
    struct rille_graph_options g = {.micro_batches = PIECES, .schedule = schedule};
    struct rille_graph *graph;
    struct rille_tensor *x;
    n->x = net_floats(n, 2 * PIECES, WIDTH, net_layout(n, dealt[0], 1, "B"));
    must(rille_trace_begin(n->s, &g, 1, &n->x, &x), "trace");
    x = rille_tensor_hold(x);
    for (int q = 0; q < nstage; q++) {
        const struct rille_layout *on = net_layout(n, dealt[q], 1, "B");
        if (q) net_move(&x, on);
        net_call(n, "matmul", &x, net_param(n, WIDTH, WIDTH, on));
        net_call(n, "tanh", &x, NULL);
    }
    net_call(n, "sum", &x, NULL);
    net_train(n, x);
    must(rille_trace_end(n->s, 1, &x, &graph), schedule);
    return graph;
}

/* Do the acts that are in rows come as these say? Acts of a thread lie in their order. */
static bool
in_order(const struct plan *p, const struct lane_rows *r, const struct act_time *act, int64_t n)
{
    int64_t done = 0, *next = must_alloc(sizeof *next * (size_t)r->nlane);
    bool good = true;
    for (int32_t k = 0; k < r->nlane; k++) next[k] = r->first[k];
    for (int64_t i = 0; i < n && good; i++) {
        int32_t k = p->task[act[i].task].thread;
        if (r->patience[act[i].task] == 0) continue;
        const struct row_act *want = &r->act[next[k]++];
        good = next[k] <= r->first[k + 1] && want->task == act[i].task && want->piece == act[i].piece;
        done++;
    }
    free(next);
    return good && done == r->first[r->nlane];
}

/* Tasks take anything; threads have rows, also where these are of no use, and wait for ever. */
static void
make_rows(struct rille_graph *g, uint64_t *rng)
{
    const struct plan *p = g->runner->plan;
    struct play_how how = {.share = PLAY_THREADS, .jitter = {0.3, next_random(rng)}};
    int64_t *cost = must_alloc(sizeof *cost * (size_t)p->ntask);
    for (int32_t i = 0; i < p->ntask; i++) cost[i] = 100000 * (1 + (int64_t)(next_random(rng) % 5));
    must(play_rows(p, cost, &how, &g->arena, &g->rows), "rows");
    g->rows.nlane = p->nthread;
    for (int32_t i = 0; i < p->ntask; i++)
        if (g->rows.patience[i]) g->rows.patience[i] = FOR_EVER * (int64_t)FOR_EVER;
    free(cost);
}

static void
try_rows(struct net *n, struct rille_graph *g, uint64_t *rng, struct count *c)
{
    const struct plan *p = g->runner->plan;
    struct arena a = {0};
    struct rille_tensor *loss;
    struct act_time *act;
    int64_t nact, *cost = ARENA_ARRAY(&a, int64_t, p->ntask);
    struct play_how how = {.share = PLAY_THREADS, .rows = &g->rows};
    for (int32_t i = 0; i < p->ntask; i++) cost[i] = (int64_t)(next_random(rng) % 1000);
    make_rows(g, rng);
    c->acts += g->rows.first[g->rows.nlane];
    c->played += !plan_play(p, cost, &how, &a, &act, &nact) && in_order(p, &g->rows, act, nact);
    must(rille_graph_run(g, 1, &n->x, &loss), "run");
    c->ran += in_order(p, &g->rows, g->act, g->nact);
    rille_tensor_free(&loss);
    arena_fini(&a);
}

static void
test(const char *schedule, const int *dealt, int nstage, int threads, uint64_t *rng)
{
    enum { TRIES = 10 };
    struct count c = {0};
    for (int i = 0; i < TRIES; i++) {
        struct rille_options o = {.devices = "cpu:4", .threads = threads, .bus = "zmq"};
        struct net n = {0};
        must(rille_open(&o, &n.s), "open");
        struct rille_graph *g = pipeline(&n, schedule, dealt, nstage);
        try_rows(&n, g, rng, &c);
        rille_graph_free(&g);
        net_close(&n);
    }
    ok(c.acts > TRIES * nstage * PIECES, "%s, %d threads: %lld acts in rows", schedule, threads, (long long)c.acts);
    is_int(c.played, TRIES, "are played in their order");
    is_int(c.ran, TRIES, "and run in it");
}

int
main(void)
{
    static const int line[] = {0, 1, 2, 3}, zigzag[] = {0, 1, 2, 3, 3, 2, 1, 0};
    uint64_t seed = seed_of(7);
    alarm(300);
    for (int threads = 2; threads <= DEVICES; threads += 2) {
        test("1f1b", line, 4, threads, &seed);
        test("zb-h1", line, 4, threads, &seed);
        test("v-half", zigzag, 8, threads, &seed);
    }
    return done();
}
