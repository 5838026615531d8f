/* Tests of sbp/limit/copies.c: a net with copies as nodes has the choices of the net, at their cost and with their
 * bytes. */
#include "sbp/limit/copies.h"

#include "t/lib/nets.h"
#include "t/lib/tap.h"

/* The next choice of the first n nodes; false: that was the last. */
static bool
next_choice(const struct net *n, int32_t nnode, int32_t *choice)
{
    for (int32_t i = 0; i < nnode; i++) {
        if (++choice[i] < n->node[i].ncand) return true;
        choice[i] = 0;
    }
    return false;
}

/* A choice of the net, its copies settled, costs the same and keeps the limit or not as it does. */
static bool
settled_is_the_same(struct arena *a, const struct net *n, const struct copies *c)
{
    int32_t *choice = ARENA_ARRAY(a, int32_t, c->apart.nnode + 1);
    do {
        copies_settle(c, choice);
        int64_t cost = net_cost(n, choice);
        if (net_cost(&c->apart, choice) != cost) return false;
        if (cost >= NET_NEVER) continue;
        int64_t peak = net_peak(n, choice), apart = net_peak(&c->apart, choice), limit = n->memory_limit;
        if (apart > peak || (apart > limit) != (peak > limit) || (peak > limit && apart != peak)) return false;
    } while (next_choice(n, n->nnode, choice));
    return true;
}

/* Any choice costs no less than with its copies settled, and at no time is less live. */
static bool
settled_is_least(struct arena *a, const struct copies *c)
{
    enum { DRAWS = 200 };
    const struct net *n = &c->apart;
    int32_t *choice = ARENA_ARRAY(a, int32_t, n->nnode + 1);
    int64_t *live = ARENA_ARRAY(a, int64_t, net_times(n) + 1), *less = ARENA_ARRAY(a, int64_t, net_times(n) + 1);
    for (int k = 0; k < DRAWS; k++) {
        for (int32_t i = 0; i < n->nnode; i++) choice[i] = (int32_t)draw(n->node[i].ncand);
        if (k % 2) copies_settle(c, choice); /* few of the others are possible */
        for (int32_t i = c->net->nnode; k % 2 && i < n->nnode; i++)
            if (draw(2)) choice[i] = (int32_t)draw(n->node[i].ncand);
        int64_t cost = net_cost(n, choice);
        net_live(n, choice, live);
        copies_settle(c, choice);
        if (cost >= NET_NEVER) continue;
        if (net_cost(n, choice) > cost) return false;
        net_live(n, choice, less);
        for (int32_t t = 0; t < net_times(n); t++)
            if (less[t] > live[t]) return false;
    }
    return true;
}

int
main(void)
{
    uint64_t seed = seed_of(1);
    int n = getenv("RILLE_LONG") ? 20000 : 1500, parted = 0, same = 0, least = 0;
    for (int k = 0; k < n; k++) {
        struct arena a = {0};
        struct copies c;
        struct net net = draw_net(&a, seed + (uint64_t)k);
        if (draw(2)) draw_credits(&a, &net);
        net.memory_limit = 1 + draw(80);
        if (copies_begin(&a, &net, &c) && c.apart.nnode > net.nnode) {
            parted++;
            bool good = settled_is_the_same(&a, &net, &c), short_one = settled_is_least(&a, &c);
            if (!good || !short_one) diag("SEED=%llu", (unsigned long long)seed + (unsigned long long)k);
            same += good;
            least += short_one;
        }
        arena_fini(&a);
    }
    ok(parted > n / 3, "there are nets with copies that matter: %d", parted);
    is_int(same, parted, "a choice costs the same, and meets the limit or not, with its copies as nodes");
    is_int(least, parted, "no copy takes less, or costs less, than the shortest one");
    return done();
}
