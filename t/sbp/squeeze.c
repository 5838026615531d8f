/* Tests of sbp/limit/squeeze.c: a found choice keeps the memory limit and has the stated cost, the search finds a
 * choice in most cases if one exists, and it ends when told to. */
#include "sbp/limit/squeeze.h"
#include "sbp/solve/solve.h"

#include "t/lib/nets.h"
#include "t/lib/tap.h"

static bool
count(void *asked)
{
    ++*(int *)asked;
    return true;
}

struct tally {
    int made, right, found, best, asked;
};

/* Searches from the optimum without a limit, with a limit between that choice's peak and the lowest peak of all
 * choices. */
static void
try_net(struct arena *a, struct net *n, struct tally *t)
{
    int asked = 0;
    struct solve_options o = {.mode = SOLVE_OPTIMAL, .stop = count, .arg = &asked};
    struct solved s;
    int64_t low, *price = ARENA_ARRAY(a, int64_t, net_times(n) + 1);
    struct lowest least_seen = {INT64_MAX, ARENA_ARRAY(a, int32_t, n->nnode)};
    struct best r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(a, int32_t, n->nnode)};
    if (net_solve(a, n, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &s)) return;
    exhaustive(n, -1, 0, &low);
    if (s.peak <= MAX(1, low)) return;
    n->memory_limit = MAX(1, low) + draw(s.peak - MAX(1, low));
    int64_t least = exhaustive(n, -1, 0, &low);
    squeeze(n, &o, s.choice, &r, price, &least_seen);
    bool found = r.cost < NET_NEVER, fits = found && net_peak(n, r.choice) <= n->memory_limit;
    t->made++;
    t->right += found ? fits && net_cost(n, r.choice) == r.cost && r.cost >= least : least_seen.peak > n->memory_limit;
    t->right -= net_peak(n, least_seen.choice) != least_seen.peak || net_cost(n, least_seen.choice) >= NET_NEVER;
    t->found += found;
    t->best += r.cost == least;
    t->asked += asked;
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 20000 : 2000;
    struct tally t = {0};
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        struct net net = draw_net(&a, seed + (uint64_t)k);
        try_net(&a, &net, &t);
        arena_fini(&a);
    }
    ok(t.made > n / 5, "in some nets the best choice exceeds the limit, and another choice keeps it: %d", t.made);
    is_int(t.right, t.made, "a found choice keeps the limit and has the stated cost");
    ok(t.found >= t.made * 9 / 10, "a choice is found in %d of these nets", t.found);
    ok(t.best >= t.made / 2, "the optimum is found in %d of these nets", t.best);
    ok(t.asked <= 2 * t.made, "after the first choice each search stops when the callback says so: %d questions",
       t.asked);
    return done();
}
