/* Tests of sbp/net/margin.c, which bounds the cost of each value (candidate of a node) from below. The bound must
 * equal the cost of the best choice with this value. If the tables are too large and are partitioned, the bound
 * may be lower, but not higher. */
#include "sbp/net/margin.h"

#include "sbp/net/dual.h"
#include "sbp/net/reduce.h"
#include "sbp/net/trail.h"
#include "t/lib/plan/nets.h"
#include "t/lib/tap.h"

struct tally {
    int64_t values, equal, wrong, far;
    int parts, whole, large;
};

/* Returns the cost function network of a random net after the given number of dual sweeps; NULL if the net has no
 * valid choice. */
static struct cfn *
network(const struct net *n, int sweeps)
{
    struct trail none = {0};
    struct dual d;
    struct cfn *c = cfn_new(n, cfn_scale(n), NULL);
    c->trail = &none;
    if (!cfn_fold(c)) cfn_free(&c);
    if (!c) return trail_cut(&none, 0), NULL;
    dual_begin(&d, c);
    if (sweeps) dual_sweep(&d, sweeps);
    dual_end(&d);
    trail_cut(&none, 0);
    c->trail = NULL;
    return c;
}

/* Compares the bounds of all values with an exhaustive search. */
static void
compare(const struct net *n, const struct cfn *c, int64_t largest, int64_t below, struct tally *t)
{
    struct arena a = {0};
    struct margin_options o = {.below = below, .largest = largest, .most = 1 << 20};
    int64_t **at = ARENA_ARRAY(&a, int64_t *, c->nvar + 1), peak;
    bool exact;
    for (int32_t v = 0; v < c->nvar; v++) {
        at[v] = ARENA_ARRAY(&a, int64_t, c->var[v].n);
        for (int32_t i = 0; i < c->var[v].n; i++) at[v][i] = -NET_NEVER;
    }
    if (!margin_raise(c, &o, at, &exact)) {
        t->large++;
        arena_fini(&a);
        return;
    }
    exact ? t->whole++ : t->parts++;
    for (int32_t v = 0; v < n->nnode; v++)
        for (int32_t i = 0; i < c->var[v].n; i++) {
            int64_t best = exhaustive(n, v, c->var[v].value[i], &peak);
            int64_t want = best >= NET_NEVER ? below : MIN(below, best * c->scale);
            t->values++;
            t->equal += at[v][i] == want;
            t->far += want == below;
            t->wrong += exact ? at[v][i] != want : at[v][i] > want;
        }
    arena_fini(&a);
}

static void
run(const char *name, uint64_t seed, int n, int sweeps, int64_t largest, struct tally *t)
{
    for (int k = 0; k < n && t->wrong == 0; k++) {
        struct arena a = {0};
        struct net net = draw_net(&a, seed + (uint64_t)k);
        struct cfn *c = network(&net, sweeps);
        int64_t peak, best = exhaustive(&net, -1, 0, &peak);
        if (c) compare(&net, c, largest, (best + 100000) * c->scale, t);
        if (c) compare(&net, c, largest, (best + draw(8)) * c->scale, t);
        if (t->wrong) diag("SEED=%llu", (unsigned long long)(seed + (uint64_t)k));
        cfn_free(&c);
        arena_fini(&a);
    }
    ok(t->wrong == 0, "%s: no bound is too high; of %lld bounds, %lld are exact", name, (long long)t->values,
       (long long)t->equal);
    ok(t->far > t->values / 50, "%s: some values cost at least the cut-off: %lld", name, (long long)t->far);
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 4000 : 300;
    struct tally whole = {0}, before = {0}, tiny = {0}, small = {0}, none = {0};
    run("complete tables", seed, n, 4, 1 << 20, &whole);
    ok(whole.parts == 0 && whole.large == 0 && whole.equal == whole.values, "complete tables: all bounds are exact");
    run("without dual sweeps", seed + 50000, n, 0, 1 << 20, &before);
    run("tables of at most two variables", seed + 100000, n, 4, 1, &tiny);
    ok(tiny.parts > n / 2, "tables of at most two variables: many are partitioned: %d", tiny.parts);
    run("small tables", seed + 200000, n, 4, 12, &small);
    ok(small.parts > n / 20 && small.whole > n / 20, "small tables: some are partitioned, some are not: %d, %d",
       small.parts, small.whole);
    ok(small.equal * 10 > small.values * 8, "small tables: most bounds are exact: %lld of %lld", (long long)small.equal,
       (long long)small.values);
    for (int k = 0; k < 20; k++) {
        struct arena a = {0};
        struct net net = draw_net(&a, seed + (uint64_t)k);
        struct cfn *c = network(&net, 1);
        struct margin_options o = {.below = 1000, .largest = 1 << 20, .most = 1};
        bool exact;
        if (c) none.large += !margin_raise(c, &o, NULL, &exact);
        none.whole += !c;
        cfn_free(&c);
        arena_fini(&a);
    }
    is_int(none.large, 20 - none.whole, "without table entries, no bound is raised");
    return done();
}
