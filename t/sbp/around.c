/* Tests of sbp/search/around.c, which improves a choice of candidates by searching one region (a group of
 * connected nodes) after another. The search must lower the cost of the choice, and state the right cost. Equal
 * layers must change together. */
#include "sbp/search/around.h"

#include "t/lib/plan/nets.h"

/* Finds the most expensive valid choice. Returns false if no choice is valid. */
static bool
dearest(const struct net *n, int32_t *choice)
{
    int32_t now[NODES] = {0}, i = 0;
    int64_t most = -1;
    while (i < n->nnode) {
        int64_t cost = net_cost(n, now);
        if (cost < NET_NEVER && cost > most) {
            most = cost;
            memcpy(choice, now, sizeof now);
        }
        for (i = 0; i < n->nnode && ++now[i] == n->node[i].ncand; i++) now[i] = 0;
    }
    return most >= 0;
}

/* Checks that the search finds the optimum. The test's networks are smaller than a region, so each connected
 * component is optimised as one region. */
static bool
finds_the_least(struct arena *a, struct net *n)
{
    UNUSED(a);
    struct around w;
    int32_t choice[NODES];
    int64_t peak, want = exhaustive(n, -1, 0, &peak);
    if (!dearest(n, choice)) return true;
    around_begin(&w, n, choice, 16);
    around_look(&w, 30000);
    bool fine = w.cost == want && net_cost(n, w.local.choice) == want;
    if (!fine) diag("want %lld, got %lld", (long long)want, (long long)w.cost);
    around_end(&w);
    return fine;
}

/* Builds LAYERS chains of LENGTH nodes with two candidates per node. A change of one node costs 10; a change of a
 * complete chain gains 1. */
static void
layers_change_alike(struct arena *a)
{
    enum { LAYERS = 50, LENGTH = 6 };
    static const int64_t first[2] = {1, 0}, later[2] = {0, 0}, price[4] = {0, 10, 10, 0};
    static const uint16_t form[2] = {0, 1};
    struct net_use use[LAYERS * LENGTH];
    int32_t choice[LAYERS * LENGTH] = {0};
    struct net n = {.nnode = LAYERS * LENGTH};
    n.node = ARENA_ARRAY(a, struct net_node, n.nnode);
    n.tensor = ARENA_ARRAY(a, struct net_tensor, n.nnode);
    for (int32_t i = 0; i < n.nnode; i++) {
        n.node[i] = (struct net_node){.ncand = 2, .cost = i % LENGTH ? later : first};
        if (i % LENGTH == 0) continue;
        use[i] = (struct net_use){.node = i, .form = form};
        n.tensor[n.ntensor++] = (struct net_tensor){
            .maker = i - 1, .form = form, .nfrom = 2, .nto = 2, .nuse = 1, .use = &use[i], .price = price};
    }
    struct around w;
    around_begin(&w, &n, choice, 1);
    is_int(w.cost, LAYERS, "at first each layer costs 1");
    int32_t tries = 0;
    while (w.cost == LAYERS && tries++ < 1000) around_look(&w, 1);
    ok(w.cost <= 1, "an improvement of one layer is applied to all equal layers: %lld left", (long long)w.cost);
    around_end(&w);
}

int
main(void)
{
    struct arena a = {0};
    uint64_t seed = seed_of(7);
    is_int(net_failures(400, seed, finds_the_least), 0,
           "on 400 random nets the most expensive choice becomes the optimum");
    layers_change_alike(&a);
    arena_fini(&a);
    return done();
}
