/* local.c - computes the cost of a change, and chooses candidates node by node. */
#include "sbp/search/local.h"

#include "sbp/net/options.h"
#include "sbp/net/work.h"
#include "runtime/base/system.h"

#include <stdlib.h>
#include <string.h>

static void
count_local_tensors(struct local *l, int32_t *last, bool store)
{
    const struct net *n = l->net;
    memset(last, 0xff, sizeof *last * (size_t)n->nnode);
    for (int32_t i = 0; i < n->ntensor; i++)
        for (int32_t k = -1; k < n->tensor[i].nuse; k++) {
            int32_t node = k < 0 ? n->tensor[i].maker : n->tensor[i].use[k].node;
            if (last[node] == i) continue;
            last[node] = i;
            if (store)
                l->tensor[l->first[node]++] = i;
            else
                l->first[node + 1]++;
        }
}

void
local_begin(struct local *l, const struct net *n, const int32_t *choice)
{
    int32_t forms = 1;
    *l = (struct local){.net = n};
    for (int32_t i = 0; i < n->ntensor; i++) forms = MAX(forms, n->tensor[i].nto);
    l->choice = ARENA_ARRAY(&l->arena, int32_t, MAX(1, n->nnode));
    l->seen = ARENA_ARRAY(&l->arena, int32_t, forms);
    l->first = ARENA_ARRAY(&l->arena, int32_t, n->nnode + 2);
    int32_t *last = ARENA_ARRAY(&l->arena, int32_t, MAX(1, n->nnode));
    count_local_tensors(l, last, false);
    for (int32_t i = 0; i < n->nnode; i++) l->first[i + 1] += l->first[i];
    l->tensor = ARENA_ARRAY(&l->arena, int32_t, l->first[n->nnode] + 1);
    count_local_tensors(l, last, true);
    memmove(l->first + 1, l->first, sizeof *l->first * (size_t)n->nnode);
    l->first[0] = 0;
    for (int32_t i = 0; i < n->nnode; i++) l->choice[i] = choice ? choice[i] : UNDECIDED;
}

void
local_end(struct local *l)
{
    arena_fini(&l->arena);
}

static int64_t
local_tensor_cost(struct local *l, const struct net_tensor *t)
{
    int64_t sum = 0;
    if (l->choice[t->maker] == UNDECIDED) return 0;
    const int64_t *from = t->nuse ? t->price + (int64_t)t->form[l->choice[t->maker]] * t->nto : NULL;
    work_add(5 + 2 * (int64_t)t->nuse);
    l->mark++;
    for (const struct net_use *u = t->use, *end = u + t->nuse; u < end; u++) {
        int32_t c = l->choice[u->node];
        if (c == UNDECIDED) continue;
        int32_t to = u->form[c];
        if (l->seen[to] == l->mark) continue;
        l->seen[to] = l->mark;
        if (from[to] >= NET_NEVER) return NET_NEVER;
        sum += from[to];
    }
    return sum;
}

int64_t
local_cost(struct local *l, int32_t node, int32_t k, int64_t most)
{
    int64_t sum = l->net->node[node].cost[k];
    int32_t was = l->choice[node];
    l->choice[node] = k;
    for (int32_t i = l->first[node]; i < l->first[node + 1] && sum < NET_NEVER && sum <= most; i++) {
        int64_t c = local_tensor_cost(l, &l->net->tensor[l->tensor[i]]);
        sum = c >= NET_NEVER ? NET_NEVER : sum + c;
    }
    l->choice[node] = was;
    return sum;
}

/* Returns the cheapest candidate of a node, given its decided neighbours. Breaks ties by the candidate's own cost
 * without conversions, then in favour of the candidate in `start`, then of the first. */
static int32_t
best_of(struct local *l, int32_t node, const int32_t *start, const uint8_t *allowed)
{
    const struct net_node *v = &l->net->node[node];
    int32_t best = -1;
    int64_t least = 0;
    for (int32_t k = 0; k < v->ncand; k++) {
        if (allowed && !allowed[k]) continue;
        int64_t cost = local_cost(l, node, k, best >= 0 ? least : NET_NEVER);
        bool equal = best >= 0 && cost == least;
        if (best >= 0 && !equal && cost > least) continue;
        if (equal && v->cost[k] > v->cost[best]) continue;
        if (equal && v->cost[k] == v->cost[best] && !(start && start[node] == k)) continue;
        best = k;
        least = cost;
    }
    return best;
}

/* ---- choosing candidates outward from nodes with one candidate (SOLVE_PROPAGATE) ---- */

struct front { /* neighbours of decided nodes, in the order in which they were reached */
    int32_t *node, head, n;
    uint8_t *reached;
};

static void
reach_node(struct front *f, int32_t node)
{
    if (f->reached[node]) return;
    f->reached[node] = 1;
    f->node[f->n++] = node;
}

static void
reach_around(struct local *l, struct front *f, int32_t node)
{
    for (int32_t i = l->first[node]; i < l->first[node + 1]; i++) {
        const struct net_tensor *t = &l->net->tensor[l->tensor[i]];
        reach_node(f, t->maker);
        for (int32_t k = 0; k < t->nuse; k++) reach_node(f, t->use[k].node);
    }
}

static int32_t
possible(const struct net_node *v)
{
    int32_t n = 0;
    for (int32_t k = 0; k < v->ncand; k++) n += v->cost[k] < NET_NEVER;
    return n;
}

/* Returns the nodes in breadth-first order from the nodes with one candidate. The order does not depend on choices. */
static const int32_t *
outward_order(struct local *l)
{
    const struct net *n = l->net;
    struct front f = {.node = ARENA_ARRAY(&l->arena, int32_t, MAX(1, n->nnode)),
                      .reached = ARENA_ARRAY(&l->arena, uint8_t, MAX(1, n->nnode))};
    for (int32_t i = 0; i < n->nnode; i++)
        if (possible(&n->node[i]) == 1) reach_node(&f, i);
    for (int32_t next = 0; f.head < n->nnode; f.head++) {
        if (f.head == f.n) { /* this component of the program has no hints */
            while (f.reached[next]) next++;
            reach_node(&f, next);
        }
        reach_around(l, &f, f.node[f.head]);
    }
    return f.node;
}

void
choose_outward(struct local *l, const int32_t *start)
{
    const int32_t *order = outward_order(l);
    for (int32_t k = 0; k < l->net->nnode; k++) l->choice[order[k]] = best_of(l, order[k], start, NULL);
}

/* The influence of a neighbour on the candidate of a node. */
struct word {
    int32_t of;    /* node index of the neighbour */
    int64_t pays;  /* cost of the conversion between the neighbour and the node */
    int64_t saves; /* largest increase of `pays` if the node takes another candidate */
};

/* Returns the influence on `node` of a neighbour at tensor t. reader >= 0: the neighbour is this reader, and `node`
 * makes t. reader -1: the neighbour is the maker of t, and `node` reads t. */
static struct word
tensor_word(const struct local *l, const struct net_tensor *t, int32_t reader, int32_t node)
{
    int32_t other = reader < 0 ? t->maker : t->use[reader].node;
    const struct net_node *v = &l->net->node[node];
    struct word w = {.of = other};
    for (int32_t u = 0; u < t->nuse; u++) {
        if (reader < 0 ? t->use[u].node != node : u != reader) continue;
        int32_t from = t->form[l->choice[t->maker]], to = t->use[u].form[l->choice[t->use[u].node]];
        int64_t now = t->price[(int64_t)from * t->nto + to], most = now;
        for (int32_t k = 0; k < v->ncand; k++) {
            int32_t f = reader < 0 ? from : t->form[k], g = reader < 0 ? t->use[u].form[k] : to;
            int64_t then = t->price[(int64_t)f * t->nto + g];
            if (v->cost[k] < NET_NEVER && then < NET_NEVER) most = MAX(most, then);
        }
        w.pays += now;
        w.saves += most - now;
    }
    return w;
}

static bool
weighs_more(const struct word *x, const struct word *y, const int32_t *rank)
{
    if ((x->pays == 0) != (y->pays == 0)) return x->pays == 0;
    return x->saves != y->saves ? x->saves > y->saves : rank[x->of] < rank[y->of];
}

static int32_t
follows_whom(const struct local *l, const int32_t *rank, int32_t node)
{
    struct word best = {.of = node};
    if (possible(&l->net->node[node]) == 1) return node;
    for (int32_t i = l->first[node]; i < l->first[node + 1]; i++) {
        const struct net_tensor *t = &l->net->tensor[l->tensor[i]];
        for (int32_t r = t->maker == node ? 0 : -1; r < (t->maker == node ? t->nuse : 0); r++) {
            struct word w = {.of = r < 0 ? t->maker : t->use[r].node};
            if (rank[w.of] >= rank[node]) continue;
            w = tensor_word(l, t, r, node);
            if (best.of == node || weighs_more(&w, &best, rank)) best = w;
        }
    }
    return best.of;
}

void
net_follows(const struct net *n, const int32_t *choice, int32_t *follows)
{
    struct local l;
    local_begin(&l, n, choice);
    const int32_t *order = outward_order(&l);
    int32_t *rank = ARENA_ARRAY(&l.arena, int32_t, MAX(1, n->nnode));
    for (int32_t k = 0; k < n->nnode; k++) rank[order[k]] = k;
    for (int32_t i = 0; i < n->nnode; i++) follows[i] = follows_whom(&l, rank, i);
    local_end(&l);
}

/* ---- choosing candidates one mesh axis after the other (SOLVE_RECURSIVE) ---- */

static int
heavier(const void *a, const void *b, void *weight)
{
    const int64_t *w = weight;
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return w[i] != w[j] ? (w[i] > w[j] ? -1 : 1) : i - j;
}

static void
by_weight(struct local *l, int32_t *order)
{
    const struct net *n = l->net;
    int64_t *weight = ARENA_ARRAY(&l->arena, int64_t, MAX(1, n->nnode));
    for (int32_t i = 0; i < n->nnode; i++) {
        order[i] = i;
        for (int32_t k = 0; k < n->node[i].ncand; k++)
            if (n->node[i].cost[k] < NET_NEVER) weight[i] = MAX(weight[i], n->node[i].cost[k]);
    }
    system_sort(order, (size_t)n->nnode, sizeof *order, heavier, weight);
}

void
choose_by_levels(struct local *l, const int32_t *start)
{
    const struct net *n = l->net;
    int32_t *order = ARENA_ARRAY(&l->arena, int32_t, MAX(1, n->nnode));
    uint8_t **allowed = ARENA_ARRAY(&l->arena, uint8_t *, MAX(1, n->nnode));
    for (int32_t i = 0; i < n->nnode; i++) {
        allowed[i] = ARENA_ARRAY(&l->arena, uint8_t, n->node[i].ncand);
        memset(allowed[i], 1, (size_t)n->node[i].ncand);
    }
    by_weight(l, order);
    for (int32_t level = 0; level < MAX(1, n->nlevel); level++)
        for (int32_t i = 0; i < n->nnode; i++) {
            const struct net_node *v = &n->node[order[i]];
            int32_t best = best_of(l, order[i], start, allowed[order[i]]);
            l->choice[order[i]] = best;
            for (int32_t k = 0; v->part && k < v->ncand; k++)
                if (v->part[k * n->nlevel + level] != v->part[best * n->nlevel + level]) allowed[order[i]][k] = 0;
        }
}

/* Chooses the cheapest candidate for a node. Returns true if the choice changed. */
static bool
choose_one(struct local *l, int32_t node)
{
    int32_t was = l->choice[node];
    int64_t least = local_cost(l, node, was, NET_NEVER);
    for (int32_t k = 0; k < l->net->node[node].ncand; k++) {
        int64_t cost = local_cost(l, node, k, least);
        if (cost >= least) continue;
        least = cost;
        l->choice[node] = k;
    }
    return l->choice[node] != was;
}

void
choose_beside(struct local *l, const uint8_t *some)
{
    enum { TURNS = 4 };
    bool better = true;
    for (int turn = 0; turn < TURNS && better; turn++) {
        better = false;
        for (int32_t v = 0; v < l->net->nnode; v++)
            if ((!some || some[v]) && choose_one(l, v)) better = true;
    }
}

void
choose_possible(struct local *l)
{
    enum { TURNS = 4 };
    for (int turn = 0; turn < TURNS && net_cost(l->net, l->choice) >= NET_NEVER; turn++)
        for (int32_t v = 0; v < l->net->nnode; v++)
            if (local_cost(l, v, l->choice[v], NET_NEVER) >= NET_NEVER) choose_one(l, v);
}

void
choose_around(struct local *l, int32_t node)
{
    enum { MOST = 32 };
    int32_t changed[MOST] = {node};
    for (int at = 0, n = 1; at < n; at++)
        for (int32_t i = l->first[changed[at]]; i < l->first[changed[at] + 1]; i++) {
            const struct net_tensor *t = &l->net->tensor[l->tensor[i]];
            for (int32_t k = -1; k < t->nuse && k < MOST && n < MOST; k++) {
                int32_t v = k < 0 ? t->maker : t->use[k].node;
                if (v != node && choose_one(l, v)) changed[n++] = v;
            }
        }
}
