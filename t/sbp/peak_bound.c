/* Tests of sbp/limit/peak_bound.c: the least peak is that of an exhaustive search; of long chains, by the search for it
 * with all that belongs to it, that of dynamic programming; what is proved before the search ends is never above it. */
#include "sbp/limit/peak_bound.h"

#include "runtime/base/error.h"
#include "sbp/solve/solve.h"
#include "sbp/net/work.h"
#include "t/lib/nets.h"
#include "t/lib/tap.h"

struct told {
    int64_t bound, peak;
    const int32_t *choice;
};

static struct told
find(struct arena *a, const struct net *n, int64_t work, bool split)
{
    struct told t = {.bound = peak_bound_alone(n), .peak = INT64_MAX};
    struct peak_bound_options o = {.until = work_done() + work, .split = split};
    peak_bound_find(a, n, &o, &t.bound, &t.peak, &t.choice);
    return t;
}

/* What is told holds what it says, and the least is between its two numbers. */
static bool
is_around(const struct net *n, const struct told *t, int64_t least)
{
    bool fine = t->bound <= least && t->peak >= least;
    if (t->choice) fine = fine && net_peak(n, t->choice) == t->peak && net_cost(n, t->choice) < NET_NEVER;
    if (!fine) diag("least %lld, told %lld to %lld", (long long)least, (long long)t->bound, (long long)t->peak);
    return fine;
}

static void
small_nets(uint64_t seed, int n)
{
    int made = 0, exact = 0, early = 0, alone = 0;
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        struct net net = draw_net(&a, seed + (uint64_t)k);
        int64_t least;
        if (exhaustive(&net, -1, 0, &least) < NET_NEVER) {
            struct told all = find(&a, &net, INT64_MAX / 2, true);
            bool good = is_around(&net, &all, least) && all.bound == least && all.peak == least && all.choice,
                 fine = true;
            for (int i = 0; i < 8 && fine; i++) {
                struct told some = find(&a, &net, 1 + draw(1 << (4 + i)), draw(2));
                fine = is_around(&net, &some, least);
            }
            made++;
            exact += good;
            early += fine;
            alone += peak_bound_alone(&net) < least;
            if (!good || !fine) diag("SEED=%llu", (unsigned long long)seed + (unsigned long long)k);
        }
        arena_fini(&a);
    }
    ok(made > n / 2, "there are nets with choices: %d", made);
    is_int(exact, made, "their least peak is found and proved");
    is_int(early, made, "what is proved with less work is not above it");
    ok(alone > made / 4, "in %d it is more than what each value takes by itself", alone);
}

/* ---- chains ---- */

enum { LONG = 60 };

/* Each node reads the one before, and its result lives until the one after has run. */
static struct net
draw_chain(struct arena *a, uint64_t seed)
{
    net_state = seed;
    struct net n = {.nnode = LONG, .ntensor = LONG - 1, .nlevel = 1};
    n.node = ARENA_ARRAY(a, struct net_node, LONG);
    n.tensor = ARENA_ARRAY(a, struct net_tensor, LONG);
    const uint16_t *same = net_identity(a);
    for (int32_t i = 0; i < LONG; i++) {
        int64_t *memory = ARENA_ARRAY(a, int64_t, CANDS), *cost = ARENA_ARRAY(a, int64_t, CANDS);
        for (int k = 0; k < CANDS; k++) memory[k] = 8 * draw(10), cost[k] = k && !draw(9) ? NET_NEVER : draw(50);
        n.node[i] = (struct net_node){.ncand = CANDS, .cost = cost, .memory = memory, .time = i};
    }
    for (int32_t i = 0; i + 1 < LONG; i++) {
        struct net_use *use = ARENA_NEW(a, struct net_use);
        int64_t *bytes = ARENA_ARRAY(a, int64_t, CANDS), *price = ARENA_ARRAY(a, int64_t, CANDS * CANDS),
                *copy = ARENA_ARRAY(a, int64_t, CANDS * CANDS);
        for (int k = 0; k < CANDS; k++) bytes[k] = 8 * draw(20);
        for (int k = 0; k < CANDS * CANDS; k++) {
            bool other = k / CANDS != k % CANDS;
            price[k] = other && k % CANDS && !draw(6) ? NET_NEVER : other * draw(40);
            copy[k] = other ? 8 * draw(12) : 0;
        }
        *use = (struct net_use){.node = i + 1, .form = same, .begin = i + 1, .end = i + 2};
        n.tensor[i] =
            (struct net_tensor){.maker = i, .form = same, .nfrom = CANDS, .nto = CANDS, .nuse = 1, .use = use};
        n.tensor[i].price = price;
        n.tensor[i].copy = copy;
        n.tensor[i].bytes = bytes;
        n.tensor[i].born = i;
        n.tensor[i].dies = i + 2;
    }
    return n;
}

/* What is live when node i runs depends on its candidate and that of the one before: by its candidate the least of the
 * most so far. */
static int64_t
least_of_chain(const struct net *n)
{
    int64_t now[CANDS], best = NET_NEVER;
    for (int32_t i = 0; i < LONG; i++) {
        int64_t next[CANDS];
        for (int k = 0; k < CANDS; k++) {
            int64_t own = n->node[i].memory[k] + (i + 1 < LONG ? n->tensor[i].bytes[k] : 0);
            next[k] = i ? NET_NEVER : own;
            for (int j = 0; j < CANDS && i; j++) {
                const struct net_tensor *t = &n->tensor[i - 1];
                bool possible = t->price[j * CANDS + k] < NET_NEVER && now[j] < NET_NEVER;
                if (possible) next[k] = MIN(next[k], MAX(now[j], own + t->bytes[j] + t->copy[j * CANDS + k]));
            }
            if (n->node[i].cost[k] >= NET_NEVER) next[k] = NET_NEVER;
        }
        memcpy(now, next, sizeof now);
    }
    for (int k = 0; k < CANDS; k++) best = MIN(best, now[k]);
    return best;
}

static void
chains(uint64_t seed, int n)
{
    int exact = 0, made = 0, right = 0;
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        struct net net = draw_chain(&a, seed + (uint64_t)k);
        int64_t least = least_of_chain(&net);
        if (least < NET_NEVER) {
            struct solved t;
            net.memory_limit = 1;
            net_solve(&a, &net, &(struct solve_options){.mode = SOLVE_OPTIMAL, .quick = true}, &t);
            err_clear();
            made++;
            right += t.floor <= least && t.peak >= least;
            exact += t.floor == least && t.peak == least;
            if (t.floor > least || t.peak < least)
                diag("SEED=%llu: least %lld, told %lld to %lld", (unsigned long long)seed + (unsigned long long)k,
                     (long long)least, (long long)t.floor, (long long)t.peak);
        }
        arena_fini(&a);
    }
    ok(made > n / 2, "there are chains of %d nodes: %d", LONG, made);
    is_int(right, made, "their least peak is between the two numbers that are told");
    ok(exact >= made * 9 / 10, "in %d it is both: found and proved", exact);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    bool much = getenv("RILLE_LONG");
    small_nets(seed, much ? 10000 : 500);
    chains(seed + 50000, much ? 300 : 30);
    return done();
}
