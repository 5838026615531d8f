/* Tests of sbp/limit/squeeze.c. A found choice keeps the memory limit and has the stated cost; if a choice exists,
 * the search finds one in most cases; the search ends when it is stopped. */
#include "sbp/limit/squeeze.h"
#include "sbp/solve/solve.h"

#include "t/lib/plan/nets.h"

static bool
count(void *asked)
{
    ++*(int *)asked;
    return true;
}

static int made, nfound, nbest, questions;

/* Starts a search with a memory limit from the optimum without a limit. The limit is drawn between the peak of
 * this optimum and the lowest peak of all choices. Returns true if the found choice is right. */
static bool
choice_is_right(struct arena *a, struct net *n)
{
    int asked = 0;
    struct solve_options o = {.mode = SOLVE_OPTIMAL, .stop = count, .arg = &asked};
    struct solved s;
    int64_t low, *price = ARENA_ARRAY(a, int64_t, net_times(n) + 1);
    struct lowest least_seen = {INT64_MAX, ARENA_ARRAY(a, int32_t, n->nnode)};
    struct best r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(a, int32_t, n->nnode)};
    if (net_solve(a, n, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &s)) return true;
    exhaustive(n, -1, 0, &low);
    if (s.peak <= MAX(1, low)) return true;
    n->memory_limit = MAX(1, low) + draw(s.peak - MAX(1, low));
    int64_t least = exhaustive(n, -1, 0, &low);
    squeeze(n, &o, s.choice, &r, price, &least_seen);
    bool found = r.cost < NET_NEVER, fits = found && net_peak(n, r.choice) <= n->memory_limit;
    made++;
    nfound += found;
    nbest += r.cost == least;
    questions += asked;
    bool seen = net_peak(n, least_seen.choice) == least_seen.peak && net_cost(n, least_seen.choice) < NET_NEVER;
    if (!found) return seen && least_seen.peak > n->memory_limit;
    return seen && fits && net_cost(n, r.choice) == r.cost && r.cost >= least;
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 20000 : 2000;
    is_int(net_failures(n, seed, choice_is_right), 0, "a found choice keeps the limit and has the stated cost");
    ok(made > n / 5, "in some nets the best choice exceeds the limit, and another choice keeps it: %d", made);
    ok(nfound >= made * 9 / 10, "a choice is found in %d of these nets", nfound);
    ok(nbest >= made / 2, "the optimum is found in %d of these nets", nbest);
    ok(questions <= 2 * made, "after the first choice each search stops when the callback says so: %d questions",
       questions);
    return done();
}
