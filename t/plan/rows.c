/* rows.c - tests lanes that may wait without limit: a lane must run the acts of its schedule row in order, even if
 * other acts become ready first.
 *
 * Pipelines with random task costs are simulated and run, on devices with and without streams, with as many threads
 * as devices and with fewer. A row that no lane can follow must only delay acts. */
#include "actors/session/step/compiled.h"
#include "runtime/base/error.h"
#include "t/lib/plan/acts.h"
#include "t/lib/plan/net.h"

enum { DEVICES = 4, PIECES = 8, WIDTH = 8, TRIES = 5, RUNS = 3 };

static const int64_t FOR_EVER = 1000000000000000000;

/* A pipeline. kind: device kind; bus: message bus; schedule: its name; dealt: device of each stage. */
struct stages_on {
    const char *kind, *bus, *schedule;
    const int *dealt;
    int nstage, threads;
};
struct count {
    int64_t acts;
    int played, ran, after, live;
};

static struct rille_graph *
begin(struct net *n, const struct stages_on *x)
{
    struct str devices = {0};
    str_addf(&devices, "%s:%d", x->kind, DEVICES);
    struct rille_options o = {.devices = str_text(&devices), .threads = x->threads, .bus = x->bus};
    *n = (struct net){.kind = x->kind};
    must(rille_open(&o, &n->s), "open");
    str_free(&devices);
    return net_stages(n, x->schedule, x->nstage, x->dealt, PIECES, WIDTH);
}

/* Returns true if acts occur in the order of their rows. The list has the acts of each lane in order. */
static bool
in_order(const struct lane_rows *r, const struct act_time *act, int64_t n)
{
    int64_t done = 0, *next = must_alloc(sizeof *next * (size_t)r->nlane);
    bool good = true;
    for (int32_t k = 0; k < r->nlane; k++) next[k] = r->first[k];
    for (int64_t i = 0; i < n && good; i++) {
        int32_t k = r->lane_of[act[i].task];
        if (r->patience[act[i].task] == 0) continue;
        const struct row_act *want = &r->act[next[k]++];
        good = next[k] <= r->first[k + 1] && want->task == act[i].task && want->piece == act[i].piece;
        done++;
    }
    free(next);
    return good && done == r->first[r->nlane];
}

/* Computes rows of all lanes from random costs. Every lane gets a row, even if it changes no order, and may wait
 * for the next act of its row without a time limit. */
static void
make_rows(struct rille_graph *g, uint64_t *rng)
{
    const struct plan *p = g->runner->plan;
    struct plan_sim_options how = {.share = PLAN_SIM_THREADS, .jitter = {0.3, next_random(rng)}};
    int64_t *cost = must_alloc(sizeof *cost * (size_t)p->ntask);
    for (int32_t i = 0; i < p->ntask; i++) cost[i] = 100000 * (1 + (int64_t)(next_random(rng) % 5));
    must(plan_sim_rows(p, cost, &how, &g->arena, &g->times.rows), "rows");
    g->times.rows.nlane = g->times.rows.first_lane[p->nthread];
    for (int32_t i = 0; i < p->ntask; i++)
        if (g->times.rows.patience[i]) g->times.rows.patience[i] = FOR_EVER;
    free(cost);
}

/* Shuffles the schedule row (the planned order of acts) of each lane, so that no lane can start its acts in that order.
 * Limits the time for which a lane waits for the next act of its row to a random short time. */
static void
break_rows(struct rille_graph *g, uint64_t *rng)
{
    enum { SHORT_NS = 300000 };
    struct lane_rows *r = &g->times.rows;
    for (int32_t k = 0; k < r->nlane; k++)
        for (int64_t i = r->first[k + 1] - 1; i > r->first[k]; i--) {
            int64_t other = r->first[k] + (int64_t)(next_random(rng) % (uint64_t)(i - r->first[k] + 1));
            struct row_act act = r->act[i];
            r->act[i] = r->act[other];
            r->act[other] = act;
        }
    for (int32_t i = 0; i < g->runner->plan->ntask; i++)
        if (r->patience[i]) r->patience[i] = (int64_t)(next_random(rng) % SHORT_NS);
}

static bool
plays(const struct rille_graph *g, uint64_t *rng)
{
    const struct plan *p = g->runner->plan;
    struct plan_sim_options how = {.share = PLAN_SIM_THREADS, .rows = &g->times.rows};
    struct arena a = {0};
    struct act_time *act;
    int64_t nact, *cost = ARENA_ARRAY(&a, int64_t, p->ntask);
    for (int32_t i = 0; i < p->ntask; i++) cost[i] = (int64_t)(next_random(rng) % 1000);
    bool good = !plan_sim_run(p, cost, &how, &a, &act, &nact) && in_order(&g->times.rows, act, nact);
    arena_fini(&a);
    return good;
}

/* Runs the step with rows. loss: expected losses, measured by the same number of runs without rows. */
static void
try_rows(const struct stages_on *x, const double *loss, uint64_t *rng, struct count *c)
{
    struct net n;
    struct rille_graph *g = begin(&n, x);
    make_rows(g, rng);
    c->acts += g->times.rows.first[g->times.rows.nlane];
    c->played += plays(g, rng);
    bool same = net_loss(&n, g) == loss[0];
    c->ran += same && in_order(&g->times.rows, g->times.act, g->times.nact);
    c->after += comes_once(g->runner->plan, g->times.act, g->times.nact) &&
                has_inputs(g->runner->plan, g->times.act, g->times.nact);
    for (int i = 1; i < RUNS; i++) {
        make_rows(g, rng);
        break_rows(g, rng);
        same = net_loss(&n, g) == loss[i] && same;
    }
    c->live += same;
    rille_graph_free(&g);
    net_close(&n);
}

/* Returns the number of edges between stages on different devices. Sets *done to false if one of the edges
 * notifies its reader before the work is done. */
static int
crossings(const struct plan *p, bool *done)
{
    int n = 0;
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nin; k++) {
            const struct in_port *in = &p->task[i].in[k];
            const struct task *from = &p->task[in->task], *to = &p->task[i];
            bool crosses = from->stage != to->stage && from->device != to->device;
            n += crosses;
            *done = *done && (!crosses || in->token == SYNC_HOST);
        }
    return n;
}

static void
test(struct stages_on x, uint64_t *rng)
{
    struct count c = {0};
    struct net n;
    double loss[RUNS];
    struct rille_graph *g = begin(&n, &x);
    bool done = true;
    int crossing = crossings(g->runner->plan, &done);
    ok(covered(crossing > 0) && done, "%d edges between stages notify their readers when the work is done", crossing);
    for (int i = 0; i < RUNS; i++) loss[i] = net_loss(&n, g);
    rille_graph_free(&g);
    net_close(&n);
    for (int i = 0; i < TRIES; i++) try_rows(&x, loss, rng, &c);
    ok(c.acts > TRIES * x.nstage * PIECES, "%s, %s, %d threads: rows have %lld acts", x.kind, x.schedule, x.threads,
       (long long)c.acts);
    is_int(c.played, TRIES, "simulated acts follow the rows");
    is_int(c.ran, TRIES, "acts that run follow the rows");
    is_int(c.after, TRIES, "acts that run begin after their inputs");
    is_int(c.live, TRIES, "runs with shuffled rows end with the same losses");
}

/* Checks runs on the simulator, which may choose any ready act. Lanes must follow their rows there, too. */
static void
simulate(struct stages_on x, uint64_t *rng)
{
    enum { SEEDS = 20 };
    int same = 0;
    double loss = 0;
    char bus[32];
    x.bus = bus;
    for (int i = 0; i <= SEEDS; i++) {
        struct net n;
        snprintf(bus, sizeof bus, "sim:%d", (int)(next_random(rng) % 1000000));
        struct rille_graph *g = begin(&n, &x);
        if (i) make_rows(g, rng);
        double got = net_loss(&n, g);
        if (i == 0) loss = got;
        same += got == loss;
        rille_graph_free(&g);
        net_close(&n);
    }
    ok(same == SEEDS + 1, "%s, simulated bus, %d threads: any order of events gives the same loss", x.kind, x.threads);
}

int
main(void)
{
    static const int line[] = {0, 1, 2, 3}, zigzag[] = {0, 1, 2, 3, 3, 2, 1, 0};
    static const char *kind[] = {"cpu", "async"};
    uint64_t seed = seed_of(7);
    alarm(HANG);
    for (int k = 0; k < 2; k++)
        for (int threads = k ? 1 : 2; threads <= DEVICES; threads *= 2) {
            if (share_next()) test((struct stages_on){kind[k], "zmq", "1f1b", line, 4, threads}, &seed);
            if (share_next()) test((struct stages_on){kind[k], "zmq", "zb-h1", line, 4, threads}, &seed);
            if (share_next()) test((struct stages_on){kind[k], "zmq", "v-half", zigzag, 8, threads}, &seed);
            if (threads > 1 && share_next())
                simulate((struct stages_on){kind[k], NULL, "v-half", zigzag, 8, threads}, &seed);
        }
    return done();
}
