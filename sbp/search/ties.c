/* ties.c - breaks ties between choices of equal cost by the number of bytes sent. */
#include "sbp/search/ties.h"

#include "sbp/search/around.h"
#include "sbp/divisor.h"
#include "sbp/search/explore.h"

#include <string.h>

enum {
    WHOLE = 300, /* maximum number of nodes of a net that is searched completely */
    /* maximum number of nodes; a larger net is left unchanged, because other searches skip large nets, too */
    LARGE = 20000,
    LOOKS = 200, /* maximum number of bounding rounds for a small net */
    TURNS = 40,  /* counted work per node of a larger net */
};
/* maximum that a choice can cost, so that sums over a neighbourhood's tables do not overflow */
#define MOST (NET_NEVER >> 8)

/* A net whose costs combine cost and bytes lexicographically: cost * unit + bytes / grain. */
struct pairs {
    const struct net *of;
    struct arena arena;
    int64_t cost;  /* cost of the current choice minus the sum of its nodes' least costs */
    int64_t bytes; /* bytes that the current choice sends */
    int64_t unit, grain;
    struct net net;
};

/* ---- combining cost and bytes into one number ---- */

/* Returns the number of bytes that a choice sends. Computes it as the cost in a net whose costs are bytes. */
static int64_t
choice_bytes_sent(const struct net *n, const int32_t *choice)
{
    struct arena tmp = {0};
    struct net sent = *n;
    sent.node = arena_dup(&tmp, n->node, sizeof *n->node * (size_t)n->nnode);
    sent.tensor = arena_dup(&tmp, n->tensor, sizeof *n->tensor * (size_t)n->ntensor);
    int64_t most = 1;
    for (int32_t i = 0; i < n->nnode; i++) most = MAX(most, n->node[i].ncand);
    for (int32_t i = 0; i < n->ntensor; i++) most = MAX(most, (int64_t)n->tensor[i].nfrom * n->tensor[i].nto);
    const int64_t *nothing = ARENA_ARRAY(&tmp, int64_t, most);
    for (int32_t i = 0; i < n->nnode; i++) sent.node[i].cost = nothing;
    for (int32_t i = 0; i < n->ntensor; i++) sent.tensor[i].price = n->tensor[i].moved ? n->tensor[i].moved : nothing;
    int64_t sum = net_cost(&sent, choice);
    arena_fini(&tmp);
    return sum;
}

static int64_t
least_cost(const struct net_node *v)
{
    int64_t least = NET_NEVER;
    for (int32_t k = 0; k < v->ncand; k++) least = MIN(least, v->cost[k]);
    return least;
}

/* Sets grain and unit, by which ties_pair() combines cost and bytes into one number: cost * unit + bytes / grain. The
 * search looks for fewer bytes at the same cost, so a move of more bytes than the present choice sends in total is
 * excluded; `grain` divides the bytes of all other moves. */
static void
set_grain(struct pairs *p)
{
    const struct net *n = p->of;
    int64_t grain = p->bytes;
    const int32_t *same = net_same_tables(&p->arena, n);
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        for (int64_t k = 0; same[i] == i && t->moved && k < (int64_t)t->nfrom * t->nto && grain > 1; k++)
            if (t->price[k] < NET_NEVER && t->moved[k] <= p->bytes) grain = common_divisor(t->moved[k], grain);
    }
    /* bytes are rounded here; ties_break compares exact bytes */
    while ((p->cost + 1) > MOST / (p->bytes / grain + 1)) grain *= 2;
    p->grain = grain;
    p->unit = p->bytes / grain + 1;
}

static int64_t
ties_pair(const struct pairs *p, int64_t cost, int64_t bytes)
{
    return cost > p->cost ? NET_NEVER : cost * p->unit + MIN(bytes / p->grain, p->unit);
}

/* ---- making a net with the combined numbers as costs ---- */

/* A table of the net, and the table made from it. Tensors of the net that share a table also share the new table,
 * because equal tables are read only once. */
struct table {
    const int64_t *price, *moved, *is;
    int32_t n;
    struct table *next;
};
enum { TABLES = 1024 };

static const int64_t *
table_of(struct pairs *p, struct table **known, const struct net_tensor *t)
{
    int32_t n = t->nfrom * t->nto;
    struct table **at = &known[((uintptr_t)t->price >> 4 ^ (uintptr_t)t->moved >> 9) % TABLES];
    for (const struct table *x = *at; x; x = x->next)
        if (x->price == t->price && x->moved == t->moved && x->n == n) return x->is;
    int64_t *is = ARENA_ARRAY(&p->arena, int64_t, n + 1);
    for (int32_t k = 0; k < n; k++) is[k] = ties_pair(p, t->price[k], t->moved ? t->moved[k] : 0);
    struct table *x = ARENA_NEW(&p->arena, struct table);
    *x = (struct table){.price = t->price, .moved = t->moved, .is = is, .n = n, .next = *at};
    *at = x;
    return is;
}

static const int64_t *
costs_of(struct pairs *p, struct table **known, const struct net_node *v)
{
    struct table **at = &known[(uintptr_t)v->cost / 16 % TABLES];
    for (const struct table *x = *at; x; x = x->next)
        if (x->price == v->cost && x->n == v->ncand && !x->moved) return x->is;
    int64_t *is = ARENA_ARRAY(&p->arena, int64_t, v->ncand), least = least_cost(v);
    for (int32_t k = 0; k < v->ncand; k++)
        is[k] = ties_pair(p, v->cost[k] >= NET_NEVER ? NET_NEVER : v->cost[k] - least, 0);
    struct table *x = ARENA_NEW(&p->arena, struct table);
    *x = (struct table){.price = v->cost, .is = is, .n = v->ncand, .next = *at};
    *at = x;
    return is;
}

static void
make_ties_net(struct pairs *p)
{
    const struct net *n = p->of;
    struct table **node = ARENA_ARRAY(&p->arena, struct table *, TABLES);
    struct table **tensor = ARENA_ARRAY(&p->arena, struct table *, TABLES);
    p->net = (struct net){.nnode = n->nnode, .ntensor = n->ntensor, .nlevel = n->nlevel, .rank = n->rank};
    p->net.node = arena_dup(&p->arena, n->node, sizeof *n->node * (size_t)n->nnode);
    p->net.tensor = arena_dup(&p->arena, n->tensor, sizeof *n->tensor * (size_t)n->ntensor);
    for (int32_t i = 0; i < n->nnode; i++) p->net.node[i].cost = costs_of(p, node, &n->node[i]);
    for (int32_t i = 0; i < n->ntensor; i++)
        if (n->tensor[i].nuse) p->net.tensor[i].price = table_of(p, tensor, &n->tensor[i]);
}

/* ---- searching for a choice that sends fewer bytes ---- */

static bool
search_whole(struct pairs *p, bool (*stop)(void *arg), void *arg, int32_t *choice)
{
    int64_t now = net_cost(&p->net, choice);
    struct explore s = {.stop = stop, .arg = arg, .scale = 1, .best = now, .looks = LOOKS};
    s.nchoice = p->net.nnode;
    s.choice = choice;
    struct cfn *c = cfn_new(&p->net, 1, NULL);
    explore(&s, c);
    cfn_free(&c);
    return s.best < now;
}

static bool
search_near(struct pairs *p, bool (*stop)(void *arg), void *arg, int32_t *choice)
{
    struct around w;
    around_begin(&w, &p->net, choice, 1);
    w.stop = stop;
    w.arg = arg;
    bool better = around_look(&w, (int64_t)TURNS * p->net.nnode);
    if (better) memcpy(choice, w.local.choice, sizeof *choice * (size_t)p->net.nnode);
    around_end(&w);
    return better;
}

bool
ties_break(const struct net *n, bool (*stop)(void *arg), void *arg, int32_t *choice)
{
    struct pairs p = {.of = n};
    int64_t cost = net_cost(n, choice);
    p.bytes = choice_bytes_sent(n, choice);
    if (n->nnode > LARGE || cost >= NET_NEVER || p.bytes == 0 || p.bytes >= MOST) return false;
    p.cost = cost;
    for (int32_t i = 0; i < n->nnode; i++) p.cost -= least_cost(&n->node[i]);
    if (p.cost >= MOST) return false;
    set_grain(&p);
    make_ties_net(&p);
    int32_t *other = arena_dup(&p.arena, choice, sizeof *choice * (size_t)n->nnode);
    bool changed = n->nnode <= WHOLE ? search_whole(&p, stop, arg, other) : search_near(&p, stop, arg, other);
    if (changed) {
        int64_t then = net_cost(n, other);
        changed = then < cost || (then == cost && choice_bytes_sent(n, other) < p.bytes);
    }
    if (changed && n->memory_limit) changed = net_peak(n, other) <= MAX(n->memory_limit, net_peak(n, choice));
    if (changed) memcpy(choice, other, sizeof *choice * (size_t)n->nnode);
    arena_fini(&p.arena);
    return changed;
}
