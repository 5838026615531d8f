/* Tests of sbp/solve/solve.c on random nets: it finds the same optimum as an exhaustive search, and its bounds and
 * regrets hold. */
#include "sbp/solve/solve.h"

#include "runtime/base/error.h"
#include "t/lib/plan/nets.h"

static bool
same_as_exhaustive(struct arena *a, struct net *n)
{
    struct solved s;
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    struct solve_options o = {.mode = SOLVE_OPTIMAL};
    int status = net_solve(a, n, &o, &s);
    if (want >= NET_NEVER) return status == E_PLAN && (err_clear(), true);
    bool fine = !status && s.cost == want && s.bound == want && net_cost(n, s.choice) == want;
    if (!fine)
        diag("want %lld, status %d, cost %lld, bound %lld %s", (long long)want, status, (long long)s.cost,
             (long long)s.bound, status ? err_text() : "");
    return fine;
}

/* Counts of networks with a memory limit: those for which a choice exists, for which one was found, and for which
 * the optimum was found. */
static struct {
    int possible, found, best;
} within;

/* Checks a solution with a memory limit. A choice must keep the limit and cost at least the optimum, and the bound
 * must be at most the optimum. If the solver finds no choice, it must state the peak, in bytes, of some choice,
 * which is at least the floor. In the mode `quick`, a search with this peak as its limit must succeed. */
static bool
keeps_limit(struct arena *a, struct net *n)
{
    struct solved s;
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    if (peak < INT64_MAX) {
        n->memory_limit = draw_limit(peak);
        want = exhaustive(n, -1, 0, &peak);
    }
    struct net again = *n;
    struct solve_options o = {.mode = SOLVE_OPTIMAL, .quick = draw(3) == 0};
    int status = net_solve(a, n, &o, &s);
    bool fine = true;
    within.possible += want < NET_NEVER;
    within.found += !status;
    within.best += !status && s.cost == want;
    if (!status) fine = s.bound <= want && want <= s.cost && net_cost(n, s.choice) == s.cost;
    if (!status && n->memory_limit) fine = fine && s.peak <= n->memory_limit && s.peak == net_peak(n, s.choice);
    if (status && peak < INT64_MAX) {
        fine = strstr(err_text(), "memory: no plan") && s.floor <= peak && peak <= s.peak && s.peak > n->memory_limit;
        err_clear();
        again.memory_limit = s.peak;
        fine = fine && (!o.quick || (!net_solve(a, &again, &o, &s) && s.peak <= again.memory_limit));
    }
    if (!fine)
        diag("want %lld of peak %lld, status %d, cost %lld, bound %lld, peak %lld %s", (long long)want, (long long)peak,
             status, (long long)s.cost, (long long)s.bound, (long long)s.peak, err_text());
    err_clear();
    return fine;
}

/* Makes costs coarser, so that many choices have equal costs. Gives each conversion a number of bytes that it
 * sends. */
static void
draw_moved(struct arena *a, struct net *n)
{
    for (int32_t i = 0; i < n->nnode; i++) {
        int64_t *cost = arena_dup(a, n->node[i].cost, sizeof *cost * CANDS);
        for (int k = 0; k < CANDS; k++) cost[k] = cost[k] >= NET_NEVER ? NET_NEVER : cost[k] / 25;
        n->node[i].cost = cost;
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        struct net_tensor *t = &n->tensor[i];
        int64_t *price = ARENA_ARRAY(a, int64_t, t->nfrom * t->nto),
                *moved = ARENA_ARRAY(a, int64_t, t->nfrom * t->nto);
        for (int32_t k = 0; k < t->nfrom * t->nto; k++) {
            price[k] = t->price[k] >= NET_NEVER ? NET_NEVER : t->price[k] / 20;
            moved[k] = 24 * draw(9);
        }
        t->price = price;
        t->moved = moved;
    }
}

/* Returns a network in which the cost is the number of bytes sent. */
static struct net
net_of_bytes(struct arena *a, const struct net *n)
{
    struct net sent = *n;
    sent.node = arena_dup(a, n->node, sizeof *n->node * (size_t)n->nnode);
    sent.tensor = arena_dup(a, n->tensor, sizeof *n->tensor * (size_t)(n->ntensor + 1));
    const int64_t *nothing = ARENA_ARRAY(a, int64_t, CANDS);
    for (int32_t i = 0; i < n->nnode; i++) sent.node[i].cost = nothing;
    for (int32_t i = 0; i < n->ntensor; i++) sent.tensor[i].price = n->tensor[i].moved;
    return sent;
}

/* Checks that the solver chooses, of all cheapest choices, one with the fewest bytes sent. */
static bool
ties_go_to_fewer_bytes(struct arena *a, struct net *drawn)
{
    struct net n = *drawn;
    n.node = arena_dup(a, n.node, sizeof *n.node * (size_t)n.nnode);
    n.tensor = arena_dup(a, n.tensor, sizeof *n.tensor * (size_t)(n.ntensor + 1));
    draw_moved(a, &n);
    struct net sent = net_of_bytes(a, &n);
    int32_t choice[NODES] = {0}, i = 0;
    int64_t cost = NET_NEVER, bytes = NET_NEVER;
    while (i < n.nnode) {
        int64_t c = net_cost(&n, choice), b = net_cost(&sent, choice);
        if (c < NET_NEVER && (c < cost || (c == cost && b < bytes))) {
            cost = c;
            bytes = b;
        }
        for (i = 0; i < n.nnode && ++choice[i] == n.node[i].ncand; i++) choice[i] = 0;
    }
    struct solved s;
    int status = net_solve(a, &n, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &s);
    if (cost >= NET_NEVER) return status == E_PLAN && (err_clear(), true);
    int64_t got = status ? -1 : net_cost(&sent, s.choice);
    bool fine = !status && s.cost == cost && net_cost(&n, s.choice) == cost && got == bytes;
    if (!fine)
        diag("want %lld and %lld bytes, got %lld and %lld %s", (long long)cost, (long long)bytes, (long long)s.cost,
             (long long)got, status ? err_text() : "");
    return fine;
}

static bool
modes_are_bounded(struct arena *a, struct net *n)
{
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    struct solved best;
    if (want >= NET_NEVER || net_solve(a, n, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &best)) return true;
    for (int mode = 0; mode < SOLVE_OPTIMAL; mode++) {
        struct solved s;
        int status = net_solve(a, n, &(struct solve_options){.mode = (enum solve_mode)mode, .start = best.choice}, &s);
        if (status || s.bound > want || s.cost < want || s.bound > s.cost || net_cost(n, s.choice) != s.cost)
            return false;
    }
    return true;
}

/* Starts every mode from a random, possibly invalid choice. The mode must find a choice if one exists, and its
 * cost and bound must be valid. */
static bool
any_start_will_do(struct arena *a, struct net *n)
{
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    int32_t start[NODES];
    for (int32_t i = 0; i < n->nnode; i++) start[i] = (int32_t)draw(n->node[i].ncand);
    for (int mode = 0; mode < NSOLVE; mode++) {
        struct solved s;
        int status = net_solve(a, n, &(struct solve_options){.mode = (enum solve_mode)mode, .start = start}, &s);
        bool fine = want >= NET_NEVER ? status == E_PLAN : !status && s.bound <= want && s.cost >= want;
        if (fine && !status) fine = s.bound <= s.cost && net_cost(n, s.choice) == s.cost;
        if (!fine) diag("mode %d, want %lld: %s", mode, (long long)want, status ? err_text() : "another cost");
        if (status) err_clear();
        if (!fine) return false;
    }
    return true;
}

static bool
regrets_are_exact(struct arena *a, struct net *n)
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

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 20000 : 1500;
    is_int(net_failures(n, seed, same_as_exhaustive), 0, "the optimum equals that of an exhaustive search");
    is_int(net_failures(n, seed + 100000, keeps_limit), 0,
           "under a memory limit, choices, bounds and errors are right");
    ok(within.found * 10 >= within.possible * 9, "of %d limits that some choice keeps, the solver keeps %d",
       within.possible, within.found);
    ok(within.best * 2 >= within.possible, "%d of these choices are optimal", within.best);
    is_int(net_failures(n, seed + 500000, ties_go_to_fewer_bytes), 0,
           "of the cheapest choices, the solver takes one that sends the fewest bytes");
    is_int(net_failures(n / 3, seed + 200000, modes_are_bounded), 0,
           "every mode finds a choice; its bound is at most the optimum, and its cost is at least the optimum");
    is_int(net_failures(n / 3, seed + 700000, any_start_will_do), 0, "every mode finds a choice from any start");
    is_int(net_failures(n / 5, seed + 300000, regrets_are_exact), 0, "regrets equal those of forced solutions");
    return done();
}
