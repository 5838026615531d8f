/* Tests of sbp/search/along.c: after the search, no change of all nodes along one mesh axis may make the choice
 * cheaper. */
#include "sbp/search/along.h"

#include "sbp/search/local.h"
#include "t/lib/plan/nets.h"

enum { LEVELS = 2, PARTS = 2 };

/* Gives the candidates an SBP entry on each of two mesh axes: candidate k has entry k / 2 on the first axis and
 * entry k % 2 on the second. */
static void
lay_out(struct arena *a, struct net *n)
{
    uint8_t *part = ARENA_ARRAY(a, uint8_t, CANDS * LEVELS);
    for (int k = 0; k < CANDS; k++) {
        part[k * LEVELS] = (uint8_t)(k / PARTS);
        part[k * LEVELS + 1] = (uint8_t)(k % PARTS);
    }
    n->nlevel = LEVELS;
    for (int32_t i = 0; i < n->nnode; i++) n->node[i].part = draw(8) ? part : NULL;
}

static bool
differs_elsewhere(const struct net *n, const int32_t *x, const int32_t *y, int level)
{
    for (int32_t i = 0; i < n->nnode; i++)
        if (n->node[i].part && n->node[i].part[x[i] * LEVELS + !level] != n->node[i].part[y[i] * LEVELS + !level])
            return true;
    return false;
}

static int64_t
least_along(const struct net *n, const int32_t *choice, int level)
{
    int32_t now[NODES] = {0}, i = 0;
    int64_t best = NET_NEVER;
    while (i < n->nnode) {
        if (!differs_elsewhere(n, now, choice, level)) best = MIN(best, net_cost(n, now));
        for (i = 0; i < n->nnode && ++now[i] == n->node[i].ncand; i++) now[i] = 0;
    }
    return best;
}

static bool
used(const struct net *n, int level)
{
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 1; n->node[i].part && k < n->node[i].ncand; k++)
            if (n->node[i].part[k * LEVELS + level] != n->node[i].part[level]) return true;
    return false;
}

static int better; /* number of choices that the search along mesh axes improved */

static bool
no_axis_gains(struct arena *a, struct net *n)
{
    int32_t choice[NODES] = {0}, other[NODES] = {0};
    lay_out(a, n);
    for (int32_t i = 0; i < n->nnode; i++) choice[i] = (int32_t)draw(n->node[i].ncand);
    for (int32_t i = 0; i < n->nnode; i++) other[i] = (int32_t)draw(n->node[i].ncand);
    int64_t was = net_cost(n, choice), cost = was;
    if (was >= NET_NEVER) return true;
    along_axes(n, 16, NULL, NULL, draw(2) ? other : NULL, choice, &cost);
    better += cost < was;
    bool fine = cost <= was && net_cost(n, choice) == cost;
    for (int level = 0; level < LEVELS && used(n, 0) && used(n, 1); level++)
        fine = fine && least_along(n, choice, level) >= cost - cost / 256 - 1;
    if (!fine) diag("from %lld to %lld", (long long)was, (long long)cost);
    return fine;
}

/* Improves a choice node by node. Checks that the cost never rises, and that afterwards no change of a single node
 * lowers the cost. */
static bool
no_node_gains(struct arena *a, struct net *n)
{
    UNUSED(a);
    struct local l;
    int32_t choice[NODES] = {0};
    for (int32_t i = 0; i < n->nnode; i++) choice[i] = (int32_t)draw(n->node[i].ncand);
    int64_t was = net_cost(n, choice);
    if (was >= NET_NEVER) return true;
    local_begin(&l, n, choice);
    for (int64_t before = was; choose_beside(&l, NULL), net_cost(n, l.choice) < before;) before = net_cost(n, l.choice);
    int64_t cost = net_cost(n, l.choice);
    bool fine = cost <= was;
    for (int32_t i = 0; i < n->nnode; i++) {
        memcpy(choice, l.choice, sizeof *choice * (size_t)n->nnode);
        for (choice[i] = 0; choice[i] < n->node[i].ncand; choice[i]++) fine = fine && net_cost(n, choice) >= cost;
    }
    local_end(&l);
    if (!fine) diag("from %lld to %lld", (long long)was, (long long)cost);
    return fine;
}

int
main(void)
{
    uint64_t seed = seed_of(3);
    is_int(net_failures(2000, seed, no_axis_gains), 0,
           "no change along an axis improves the result, on 2000 random nets");
    is_int(net_failures(2000, seed, no_node_gains), 0,
           "after node-by-node improvement, no single node improves the result");
    ok(better > 100, "the search along axes improved %d choices", better);
    return done();
}
