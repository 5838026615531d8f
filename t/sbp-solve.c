/* Tests of sbp/solve.c: on random nets it finds what an exhaustive search finds, and its bounds and regrets hold. */
#include "sbp/solve.h"

#include "runtime/error.h"
#include "runtime/rng.h"
#include "t/tap.h"

enum { NODES = 7, CANDS = 4, FORMS = 4, READERS = 4 };

static uint64_t state;

static int64_t
draw(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static int64_t
draw_cost(int64_t most, int never)
{
    return never && draw(never) == 0 ? NET_NEVER : draw(3) == 0 ? 0 : draw(most);
}

static uint16_t *
draw_forms(struct arena *a, int32_t n, int32_t nform)
{
    uint16_t *f = ARENA_ARRAY(a, uint16_t, n);
    for (int32_t i = 0; i < n; i++) f[i] = (uint16_t)draw(nform);
    return f;
}

static void
draw_tensor(struct arena *a, const struct net *n, struct net_tensor *t, int32_t maker)
{
    *t = (struct net_tensor){.maker = maker, .nfrom = (int32_t)(1 + draw(FORMS)), .nto = (int32_t)(1 + draw(FORMS))};
    t->form = draw_forms(a, n->node[maker].ncand, t->nfrom);
    t->nuse = (int32_t)draw(READERS);
    struct net_use *use = ARENA_ARRAY(a, struct net_use, READERS);
    for (int32_t k = 0; k < t->nuse; k++) {
        use[k].node = (int32_t)draw(n->nnode);
        use[k].form = draw_forms(a, n->node[use[k].node].ncand, t->nto);
    }
    t->use = use;
    int64_t *price = ARENA_ARRAY(a, int64_t, t->nfrom * t->nto), *bytes = ARENA_ARRAY(a, int64_t, t->nfrom);
    for (int32_t k = 0; k < t->nfrom * t->nto; k++) price[k] = draw_cost(40, 12);
    for (int32_t k = 0; k < t->nfrom; k++) bytes[k] = draw(20);
    t->price = price;
    t->bytes = bytes;
    t->born = maker;
    t->dies = (int32_t)(maker + 1 + draw(4));
}

static struct net
draw_net(struct arena *a)
{
    struct net n = {.nnode = (int32_t)(1 + draw(NODES)), .nlevel = 1};
    n.node = ARENA_ARRAY(a, struct net_node, n.nnode);
    for (int32_t i = 0; i < n.nnode; i++) {
        n.node[i] = (struct net_node){.ncand = (int32_t)(1 + draw(CANDS)), .time = i};
        int64_t *cost = ARENA_ARRAY(a, int64_t, CANDS), *memory = ARENA_ARRAY(a, int64_t, CANDS);
        uint8_t *part = ARENA_ARRAY(a, uint8_t, CANDS);
        for (int k = 0; k < CANDS; k++) {
            cost[k] = draw_cost(50, 20);
            memory[k] = draw(10);
            part[k] = (uint8_t)draw(2);
        }
        n.node[i].cost = cost;
        n.node[i].memory = memory;
        n.node[i].part = part;
    }
    n.ntensor = (int32_t)draw(2 * n.nnode + 1);
    n.tensor = ARENA_ARRAY(a, struct net_tensor, n.ntensor + 1);
    for (int32_t i = 0; i < n.ntensor; i++) draw_tensor(a, &n, &n.tensor[i], (int32_t)draw(n.nnode));
    return n;
}

/* The least cost of all choices that meet the limit, with node `node` at candidate k (-1: any); the least peak. */
static int64_t
exhaustive(const struct net *n, int32_t node, int32_t k, int64_t *least_peak)
{
    int32_t choice[NODES] = {0}, i = 0;
    int64_t best = NET_NEVER;
    *least_peak = INT64_MAX;
    while (i < n->nnode) {
        int64_t cost = node >= 0 && choice[node] != k ? NET_NEVER : net_cost(n, choice);
        if (cost < NET_NEVER) {
            int64_t peak = net_peak(n, choice);
            *least_peak = MIN(*least_peak, peak);
            if (!n->memory_limit || peak <= n->memory_limit) best = MIN(best, cost);
        }
        for (i = 0; i < n->nnode && ++choice[i] == n->node[i].ncand; i++) choice[i] = 0;
    }
    return best;
}

static bool
same_as_exhaustive(struct arena *a, const struct net *n)
{
    struct solved s;
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    struct solve_options o = {.mode = SOLVE_OPTIMAL};
    int status = net_solve(a, n, &o, &s);
    if (want >= NET_NEVER) return status == E_PLAN && (err_clear(), true);
    bool fine = !status && s.cost == want && s.bound == want && net_cost(n, s.choice) == want;
    if (fine && n->memory_limit) fine = s.peak <= n->memory_limit && s.peak == net_peak(n, s.choice);
    if (!fine)
        diag("want %lld, status %d, cost %lld, bound %lld %s", (long long)want, status, (long long)s.cost,
             (long long)s.bound, status ? err_text() : "");
    return fine;
}

static bool
modes_are_bounded(struct arena *a, const struct net *n)
{
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    struct solved best;
    if (want >= NET_NEVER || net_solve(a, n, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &best)) return true;
    for (int mode = 0; mode < SOLVE_OPTIMAL; mode++) {
        struct solved s;
        int status = net_solve(a, n, &(struct solve_options){.mode = (enum solve_mode)mode, .start = best.choice}, &s);
        if (status) continue; /* a rule may end where nothing is possible */
        if (s.bound > want || s.cost < want || s.bound > s.cost || net_cost(n, s.choice) != s.cost) return false;
    }
    return true;
}

static bool
regrets_are_exact(struct arena *a, const struct net *n)
{
    struct solved s;
    int64_t *low[NODES], *high[NODES], peak;
    if (net_solve(a, n, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &s)) return true;
    for (int32_t i = 0; i < n->nnode; i++) {
        low[i] = ARENA_ARRAY(a, int64_t, CANDS);
        high[i] = ARENA_ARRAY(a, int64_t, CANDS);
    }
    if (net_regret(n, &s, NULL, NULL, low, high)) return false;
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 0; k < n->node[i].ncand; k++) {
            int64_t want = exhaustive(n, i, k, &peak);
            want = want >= NET_NEVER ? NET_NEVER : want - s.cost;
            if (low[i][k] == want && high[i][k] == want) continue;
            diag("node %d candidate %d: want %lld, got %lld to %lld", (int)i, (int)k, (long long)want,
                 (long long)low[i][k], (long long)high[i][k]);
            return false;
        }
    return true;
}

/* Each of n random nets passes; the seed of one that does not is printed. */
static void
all(const char *name, int n, uint64_t seed, bool limited, bool (*test)(struct arena *a, const struct net *n))
{
    int failed = 0;
    for (int k = 0; k < n && failed < 3; k++) {
        struct arena a = {0};
        state = seed + (uint64_t)k;
        for (int i = 0; i < 4; i++) draw(2);
        struct net net = draw_net(&a);
        int64_t peak;
        exhaustive(&net, -1, 0, &peak);
        if (limited && peak < INT64_MAX) net.memory_limit = MAX(1, peak + draw(12) - 1);
        if (!test(&a, &net)) {
            failed++;
            diag("SEED=%llu", (unsigned long long)(seed + (uint64_t)k));
        }
        arena_fini(&a);
    }
    ok(failed == 0, "%s", name);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 20000 : 1500;
    all("the optimum is that of an exhaustive search", n, seed, false, same_as_exhaustive);
    all("so it is under a memory limit", n / 3, seed + 100000, true, same_as_exhaustive);
    all("every mode's bound is below the optimum and its cost is not", n / 3, seed + 200000, false, modes_are_bounded);
    all("regrets are those of forced solutions", n / 5, seed + 300000, false, regrets_are_exact);
    return done();
}
