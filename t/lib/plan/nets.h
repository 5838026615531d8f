/* nets.h - random cost networks for tests. A node of such a network is an operator, and its candidates are
 * signatures with a cost. The networks have few nodes, shared tensors, forbidden candidates and conversions, and
 * converted copies that use memory. */
#ifndef RILLE_T_NETS_H
#define RILLE_T_NETS_H

#include "sbp/net/net.h"
#include "t/lib/tap.h"

enum { NODES = 7, CANDS = 4, FORMS = 4, READERS = 4 };

static uint64_t net_state;

static inline int64_t
draw(int64_t n)
{
    net_state = net_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((net_state >> 33) % (uint64_t)n);
}

static inline int64_t
draw_cost(int64_t most, int never)
{
    return never && draw(never) == 0 ? NET_NEVER : draw(3) == 0 ? 0 : draw(most);
}

static inline uint16_t *
draw_forms(struct arena *a, int32_t n, int32_t nform)
{
    uint16_t *f = ARENA_ARRAY(a, uint16_t, n);
    for (int32_t i = 0; i < n; i++) f[i] = (uint16_t)draw(nform);
    return f;
}

static inline void
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

/* Draws the bytes of the converted copies of a tensor. Draws for each reader the time during which its copy is
 * live. */
static inline void
draw_copies(struct arena *a, const struct net *n, struct net_tensor *t)
{
    struct net_use *use = arena_dup(a, t->use, sizeof *use * READERS);
    int64_t *copy = ARENA_ARRAY(a, int64_t, t->nfrom * t->nto);
    for (int32_t k = 0; k < t->nuse; k++) {
        use[k].begin = (int32_t)draw(n->nnode);
        use[k].end = use[k].begin + 1 + (int32_t)draw(3);
    }
    for (int32_t k = 0; k < t->nfrom * t->nto; k++) copy[k] = draw(3) ? 5 * draw(4) : 0;
    t->use = use;
    t->copy = copy;
}

/* Draws the nodes. Each has at least `least` candidates, whose costs are below `most`. never: one of `never` costs
 * is infinite; 0: all are finite. */
static inline void
draw_nodes(struct arena *a, struct net *n, int least, int64_t most, int never)
{
    int all = CANDS + 2 * (least - 1);
    n->node = ARENA_ARRAY(a, struct net_node, n->nnode);
    for (int32_t i = 0; i < n->nnode; i++) {
        n->node[i] = (struct net_node){.ncand = (int32_t)(least + draw(CANDS)), .time = i};
        int64_t *cost = ARENA_ARRAY(a, int64_t, all), *memory = ARENA_ARRAY(a, int64_t, all);
        uint8_t *part = ARENA_ARRAY(a, uint8_t, all);
        for (int k = 0; k < all; k++) {
            cost[k] = never ? draw_cost(most, never) : draw(most);
            memory[k] = draw(10);
            part[k] = (uint8_t)draw(2);
        }
        n->node[i].cost = cost;
        n->node[i].memory = memory;
        n->node[i].part = part;
    }
}

/* Draws the cost network for a seed. */
static inline struct net
draw_net(struct arena *a, uint64_t seed)
{
    net_state = seed;
    for (int i = 0; i < 4; i++) draw(2);
    struct net n = {.nnode = (int32_t)(1 + draw(NODES)), .nlevel = 1};
    draw_nodes(a, &n, 1, 50, 20);
    n.ntensor = (int32_t)draw(2 * n.nnode + 1);
    n.tensor = ARENA_ARRAY(a, struct net_tensor, n.ntensor + 1);
    for (int32_t i = 0; i < n.ntensor; i++) draw_tensor(a, &n, &n.tensor[i], (int32_t)draw(n.nnode));
    for (int32_t i = 0; i < n.ntensor; i++)
        if (draw(3)) draw_copies(a, &n, &n.tensor[i]);
    return n;
}

/* Tries all choices of candidates. Returns the lowest cost of the choices that stay within the memory limit and
 * give node `node` candidate k; node -1: any candidates. Sets *least_peak to the lowest peak, in bytes, of all
 * choices with finite cost. */
static inline int64_t
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

/* Draws a memory limit, in bytes, near a peak; at least 1. */
static inline int64_t
draw_limit(int64_t peak)
{
    int64_t limit = peak + draw(12) - 1;
    return MAX(1, limit);
}

/* Runs a test on n random nets. Prints the seed of each failure, and stops after three. Returns the number of
 * failures. */
static inline int
net_failures(int n, uint64_t seed, bool (*test)(struct arena *a, struct net *n))
{
    int failed = 0;
    for (int k = 0; k < n && failed < 3; k++) {
        struct arena a = {0};
        struct net net = draw_net(&a, seed + (uint64_t)k);
        bool good = test(&a, &net);
        failed += !good;
        if (!good) diag("SEED=%llu", (unsigned long long)(seed + (uint64_t)k));
        arena_fini(&a);
    }
    return failed;
}

#endif
