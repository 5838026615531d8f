/* Tests of sbp/limit/limited.c on random nets: the bound must be valid for any prices of memory, and its proof
 * must not claim more than the bound. */
#include "sbp/limit/limited.h"
#include "sbp/limit/limit.h"

#include "t/lib/plan/nets.h"

static int made, raised, proven;

/* Bounds the cost of all choices within a memory limit, starting from random prices of memory. Returns true if the
 * bound and its proof are valid. */
static bool
bound_holds(struct arena *a, struct net *n)
{
    int64_t peak, *price = ARENA_ARRAY(a, int64_t, net_times(n) + 1);
    exhaustive(n, -1, 0, &peak);
    if (peak == INT64_MAX) return true;
    n->memory_limit = MAX(1, peak) + draw(10);
    int64_t want = exhaustive(n, -1, 0, &peak), before = 0;
    struct best r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(a, int32_t, n->nnode)};
    struct str text = {0};
    for (int32_t k = 0; k < net_times(n); k++) price[k] = draw(2) ? draw(5) << LIMIT_SHIFT : 0;
    struct net free = *n;
    free.memory_limit = 0;
    before = exhaustive(&free, -1, 0, &peak);
    r.bound = before;
    limited_bound(n, &(struct solve_options){.mode = SOLVE_OPTIMAL}, &r, price);
    bool right = r.bound <= want && r.bound >= before;
    if (r.cost < NET_NEVER)
        right = right && net_cost(n, r.choice) == r.cost && net_peak(n, r.choice) <= n->memory_limit && r.cost >= want;
    int64_t certified = limited_prove(n, price, r.bound, &text);
    made++;
    raised += r.bound > before;
    proven += certified > 0;
    str_free(&text);
    return right && certified <= r.bound;
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 20000 : 2000;
    is_int(net_failures(n, seed, bound_holds), 0, "a bound is at most the cost of the best choice within the limit");
    ok(raised > made / 50, "in %d of %d nets the bound exceeds the optimum without the limit", raised, made);
    ok(proven > made / 2, "%d bounds are proven", proven);
    return done();
}
