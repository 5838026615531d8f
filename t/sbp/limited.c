/* Tests of sbp/limit/limited.c: a search under a limit leaves a dear choice that nothing near it improves. */
#include "sbp/limit/limit.h"
#include "sbp/limit/limited.h"
#include "sbp/net/work.h"

#include "t/lib/tap.h"

/* A chain of nodes that are cheap and large, or dear and small, and beside each two others that may give way: of a time
 * there is room for one large node and a small one beside it. To change a stretch of the chain costs, at its ends, more
 * than is gained by as many as are ever changed at once; to have all of it cheap is best. */
enum { LENGTH = 2200, BESIDE = 2, ALL = LENGTH * (1 + BESIDE), DEAR = 100, AWAY = 60, ENDS = 1500 * (DEAR - AWAY) };

static uint64_t state;

static int64_t
draw(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static const int64_t *
two(struct arena *a, int64_t x, int64_t y)
{
    int64_t v[] = {x, y};
    return arena_dup(a, v, sizeof v);
}

static void
join(struct arena *a, struct net *n, int32_t from, int32_t to, int64_t price)
{
    static const uint16_t form[] = {0, 1};
    int64_t table[] = {0, price, price, 0};
    struct net_use use = {.node = to, .form = form};
    struct net_tensor *t = &n->tensor[n->ntensor++];
    *t = (struct net_tensor){.maker = from, .form = form, .nfrom = 2, .nto = 2, .nuse = 1};
    t->use = arena_dup(a, &use, sizeof use);
    t->price = arena_dup(a, table, sizeof table);
}

static struct net
chain(struct arena *a)
{
    struct net n = {.nnode = ALL, .memory_limit = 11, .nlevel = 1};
    n.node = ARENA_ARRAY(a, struct net_node, ALL);
    n.tensor = ARENA_ARRAY(a, struct net_tensor, ALL);
    for (int32_t i = 0; i < LENGTH; i++) {
        int32_t own = i * (1 + BESIDE);
        n.node[own] = (struct net_node){.ncand = 2, .time = i};
        n.node[own].cost = two(a, 0, DEAR + draw(10));
        n.node[own].memory = two(a, 2, 1);
        if (i > 0) join(a, &n, own - 1 - BESIDE, own, ENDS);
        for (int32_t k = 1; k <= BESIDE; k++) {
            n.node[own + k] = (struct net_node){.ncand = 2, .time = i};
            n.node[own + k].cost = two(a, 0, AWAY + draw(10));
            n.node[own + k].memory = two(a, 5, 4);
            join(a, &n, own, own + k, 1);
        }
    }
    return n;
}

int
main(void)
{
    struct arena a = {0};
    state = seed_of(1);
    struct net n = chain(&a);
    struct best r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(&a, int32_t, ALL)};
    int64_t peak = INT64_MAX, *price = ARENA_ARRAY(&a, int64_t, LENGTH), *best = ARENA_ARRAY(&a, int64_t, LENGTH);
    struct solve_options o = {.mode = SOLVE_OPTIMAL, .until = work_done() + 1600000000};
    for (int32_t i = 0; i < LENGTH; i++) r.choice[i * (1 + BESIDE)] = 1;
    r.cost = net_cost(&n, r.choice);
    int64_t was = r.cost;
    for (int32_t t = 0; t < LENGTH; t++) price[t] = (int64_t)(AWAY + 4) << LIMIT_SHIFT;
    limited_solve(&n, NULL, &o, &r, price, &peak, best);
    ok(net_peak(&n, r.choice) <= n.memory_limit && net_cost(&n, r.choice) == r.cost, "what is found keeps the limit");
    ok(r.cost - r.bound < r.bound / 10, "it is another choice: %lld for %lld, and none costs less than %lld",
       (long long)r.cost, (long long)was, (long long)r.bound);
    arena_fini(&a);
    return done();
}
