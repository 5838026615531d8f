/* Tests of sbp/limit/merge.c and sbp/limit/parts.c: all choices of a merged net are the whole's, and the whole's are
 * its own, and bounds of parts hold whenever the search ends. */
#include "sbp/limit/merge.h"

#include "sbp/limit/copies.h"
#include "sbp/limit/limit.h"
#include "sbp/solve/solve.h"
#include "t/lib/nets.h"
#include "t/lib/tap.h"

#include <string.h>

/* The next choice of n; false: that was the last. */
static bool
next_choice(const struct net *n, int32_t *choice)
{
    for (int32_t i = 0; i < n->nnode; i++) {
        if (++choice[i] < n->node[i].ncand) return true;
        choice[i] = 0;
    }
    return false;
}

enum { MANY = 100000 }; /* choices */

/* Each possible choice of the whole is found in the merged net, at no more than it costs. */
static bool
finds_choices(struct merged *m, const struct net *whole)
{
    int32_t *choice = ARENA_ARRAY(&m->arena, int32_t, m->net.nnode + 1);
    int32_t *of = ARENA_ARRAY(&m->arena, int32_t, whole->nnode + 1);
    int32_t *back = ARENA_ARRAY(&m->arena, int32_t, whole->nnode + 1);
    do {
        int64_t cost = net_cost(whole, of);
        if (cost >= NET_NEVER) continue;
        if (!merge_find(m, of, choice) || net_cost(&m->net, choice) > cost) return false;
        merge_choice(m, choice, back);
        if (memcmp(of, back, sizeof *of * (size_t)whole->nnode)) return false;
    } while (next_choice(whole, of));
    return true;
}

static bool
too_many(const struct net *n)
{
    int64_t all = 1;
    for (int32_t i = 0; i < n->nnode && all <= MANY; i++) all *= n->node[i].ncand;
    return all > MANY;
}

/* Each choice of the merged net costs what the whole's costs (or more: a form is made that nobody wants), and both meet
 * the limit or neither does; the least of those that do is the whole's. */
static bool
same_choices(struct merged *m, const struct net *whole, int64_t want)
{
    int32_t *choice = ARENA_ARRAY(&m->arena, int32_t, m->net.nnode + 1);
    int32_t *of = ARENA_ARRAY(&m->arena, int32_t, whole->nnode + 1);
    int64_t least = NET_NEVER;
    do {
        int64_t cost = net_cost(&m->net, choice);
        if (cost >= NET_NEVER) continue;
        merge_choice(m, choice, of);
        bool meets = net_peak(&m->net, choice) <= m->net.memory_limit;
        if (net_cost(whole, of) > cost || meets != (net_peak(whole, of) <= whole->memory_limit)) return false;
        if (meets) least = MIN(least, cost);
    } while (next_choice(&m->net, choice));
    return least == want;
}

static bool
merged_is_the_whole(struct arena *a, const struct net *n)
{
    struct merged m;
    struct copies c;
    int32_t *time, ntime;
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    const struct net *whole = copies_begin(a, n, &c) ? &c.apart : n;
    const struct net *timed = limit_times(a, whole, &time, &ntime);
    bool possible = merge_begin(&m, timed), same = possible || want >= NET_NEVER;
    if (possible)
        same = m.ntime <= MAX(1, ntime) && (too_many(&m.net) || same_choices(&m, whole, want)) &&
               (too_many(whole) || finds_choices(&m, whole));
    merge_end(&m);
    return same;
}

static bool
count_down(void *left)
{
    return --*(int *)left < 0;
}

/* Ended after 1, 2, 4 ... questions, the bound is at most the least cost, and what it chose meets the limit. */
static bool
holds_when_stopped(struct arena *a, const struct net *n)
{
    int64_t peak, least = exhaustive(n, -1, 0, &peak);
    for (int after = 0; after < 4096; after += 1 + after / 2) {
        int left = after;
        struct solved s;
        struct solve_options o = {.mode = SOLVE_OPTIMAL, .stop = count_down, .arg = &left};
        if (net_solve(a, n, &o, &s)) continue;
        if (s.bound > least || s.cost < least || net_cost(n, s.choice) != s.cost) return false;
        if (n->memory_limit && net_peak(n, s.choice) > n->memory_limit) return false;
    }
    return true;
}

static bool
free_holds_when_stopped(struct arena *a, const struct net *n)
{
    struct net any = *n;
    any.memory_limit = 0;
    return holds_when_stopped(a, &any);
}

static void
all(const char *name, int n, uint64_t seed, bool (*test)(struct arena *a, const struct net *n))
{
    int good = 0, made = 0;
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        int64_t peak;
        struct net net = draw_net(&a, seed + (uint64_t)k);
        if (exhaustive(&net, -1, 0, &peak) < NET_NEVER) {
            net.memory_limit = draw_limit(peak);
            made++;
            if (test(&a, &net))
                good++;
            else
                diag("SEED=%llu", (unsigned long long)seed + (unsigned long long)k);
        }
        arena_fini(&a);
    }
    ok(made > n / 2, "there are nets: %d", made);
    ok(good == made, "%s", name);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 10000 : 500;
    all("all choices of a merged net are the whole's, and back", n, seed, merged_is_the_whole);
    all("stopped at any moment, a search under a limit has a bound that holds", n / 2, seed + 200000,
        holds_when_stopped);
    all("and one without a limit", n, seed + 300000, free_holds_when_stopped);
    return done();
}
