/* merge.c - merges nodes by folded variable, and removes dominated times. */
#include "sbp/limit/merge.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a variable over a live range, by value. Those of node `sure` are constant. */
struct taking {
    int32_t var, begin, end;
    int64_t *bytes;
};
struct merging {
    const struct net *whole;
    struct merged *m;
    struct arena tmp;
    struct fold_node *of; /* by original node: the folded variable that decides it (in .node), and the mapping */
    struct taking *taking;
    int32_t ntaking;
};

/* Returns the node for all fixed nodes: the last one. */
static int32_t
sure(const struct merging *g)
{
    return g->m->folded.c->nvar;
}

static int32_t
merged_values(const struct merging *g, int32_t var)
{
    return var == sure(g) ? 1 : g->m->folded.c->var[var].n;
}

/* ---- bytes of variables ---- */

static void
list_merged_nodes(struct merging *g)
{
    const struct folded *f = &g->m->folded;
    g->of = ARENA_ARRAY(&g->tmp, struct fold_node, g->whole->nnode + 1);
    for (int32_t v = 0; v < f->c->nvar; v++)
        for (int32_t k = f->first[v]; k < f->first[v + 1]; k++)
            g->of[f->node[k].node] = (struct fold_node){v, f->node[k].to};
    for (int32_t k = 0; k < f->nsure; k++) {
        uint16_t *to = ARENA_ARRAY(&g->tmp, uint16_t, 1);
        *to = (uint16_t)f->sure[k].candidate;
        g->of[f->sure[k].node] = (struct fold_node){sure(g), to};
    }
}

static void
start_taking(struct merging *g, int32_t node, int32_t begin, int32_t end, const int64_t *bytes, const uint16_t *form)
{
    const struct fold_node *of = &g->of[node];
    int32_t n = merged_values(g, of->node);
    struct taking *t = &g->taking[g->ntaking++];
    *t = (struct taking){of->node, begin, end, ARENA_ARRAY(&g->tmp, int64_t, n)};
    for (int32_t i = 0; i < n; i++) {
        int32_t c = of->node == sure(g) ? 0 : g->m->folded.c->var[of->node].value[i];
        c = of->to ? of->to[c] : c;
        t->bytes[i] = bytes[form ? form[c] : c];
    }
}

static void
list_takings(struct merging *g)
{
    const struct net *n = g->whole;
    g->taking = ARENA_ARRAY(&g->tmp, struct taking, n->nnode + n->ntensor + 1);
    for (int32_t i = 0; i < n->nnode; i++)
        if (n->node[i].memory) start_taking(g, i, n->node[i].time, n->node[i].time + 1, n->node[i].memory, NULL);
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        if (t->bytes && t->dies > t->born) start_taking(g, t->maker, t->born, t->dies, t->bytes, t->form);
    }
}

/* ---- times ---- */

/* Difference in live bytes between two times, by variable and value; zero unless the variable is touched. */
struct change {
    int64_t **more;
    int32_t *touched, ntouched;
    uint8_t *is; /* by variable: touched */
};
/* A kept time, with the difference in live bytes to the last kept time before. */
struct kept {
    int32_t time, ntouched, *touched;
    int64_t **more;
};

static void
touch(struct change *c, int32_t var, const int64_t *more, int32_t n, int sign)
{
    if (!c->is[var]) c->touched[c->ntouched++] = var;
    c->is[var] = 1;
    for (int32_t i = 0; i < n; i++) c->more[var][i] += sign * more[i];
}

static void
untouch(const struct merging *g, struct change *c)
{
    for (int32_t k = 0; k < c->ntouched; k++) {
        int32_t v = c->touched[k];
        c->is[v] = 0;
        memset(c->more[v], 0, sizeof *c->more[v] * (size_t)merged_values(g, v));
    }
    c->ntouched = 0;
}

/* Returns true if no choice has more live bytes now than at the other time (sign -1: the reverse). */
static bool
never_more(const struct merging *g, const struct change *c, int sign)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < c->ntouched; k++) {
        int32_t v = c->touched[k];
        int64_t most = INT64_MIN;
        for (int32_t i = 0; i < merged_values(g, v); i++) most = MAX(most, sign * c->more[v][i]);
        sum += most;
    }
    return sum <= 0;
}

static void
keep_change(struct merging *g, struct change *c, struct kept *k, int32_t time)
{
    *k = (struct kept){.time = time, .ntouched = c->ntouched};
    k->touched = arena_dup(&g->tmp, c->touched, sizeof *c->touched * (size_t)MAX(1, c->ntouched));
    k->more = ARENA_ARRAY(&g->tmp, int64_t *, c->ntouched + 1);
    for (int32_t i = 0; i < c->ntouched; i++) {
        int32_t v = c->touched[i];
        k->more[i] = arena_dup(&g->tmp, c->more[v], sizeof *c->more[v] * (size_t)merged_values(g, v));
    }
    untouch(g, c);
}

/* Makes c, the difference between now and the last kept time, the difference to the kept time before that. */
static void
unkeep_change(const struct merging *g, struct change *c, const struct kept *k)
{
    for (int32_t i = 0; i < k->ntouched; i++) touch(c, k->touched[i], k->more[i], merged_values(g, k->touched[i]), 1);
}

/* By time t: the takings that begin (or end) at t are item[first[t]] to item[first[t + 1] - 1]. */
struct events {
    int32_t *first, *item;
};

static struct events
list_events(struct merging *g, int32_t ntime, bool ends)
{
    struct events e = {ARENA_ARRAY(&g->tmp, int32_t, ntime + 3), ARENA_ARRAY(&g->tmp, int32_t, g->ntaking + 1)};
    for (int32_t k = 0; k < g->ntaking; k++) e.first[(ends ? g->taking[k].end : g->taking[k].begin) + 2]++;
    for (int32_t t = 0; t <= ntime; t++) e.first[t + 2] += e.first[t + 1];
    for (int32_t k = 0; k < g->ntaking; k++) e.item[e.first[(ends ? g->taking[k].end : g->taking[k].begin) + 1]++] = k;
    return e;
}

/* Compares each time with the last kept one, and removes the time that never has more live bytes. */
static void
find_merged_times(struct merging *g, int32_t ntime)
{
    struct events begin = list_events(g, ntime, false), end = list_events(g, ntime, true);
    struct kept *kept = ARENA_ARRAY(&g->tmp, struct kept, ntime + 1);
    struct change c = {ARENA_ARRAY(&g->tmp, int64_t *, sure(g) + 1), ARENA_ARRAY(&g->tmp, int32_t, sure(g) + 1), 0,
                       ARENA_ARRAY(&g->tmp, uint8_t, sure(g) + 1)};
    int32_t n = 0;
    for (int32_t v = 0; v <= sure(g); v++) c.more[v] = ARENA_ARRAY(&g->tmp, int64_t, merged_values(g, v));
    for (int32_t t = 0; t < ntime; t++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            const struct events *e = sign < 0 ? &end : &begin;
            for (int32_t k = e->first[t]; k < e->first[t + 1]; k++) {
                const struct taking *x = &g->taking[e->item[k]];
                touch(&c, x->var, x->bytes, merged_values(g, x->var), sign);
            }
        }
        if (n && never_more(g, &c, 1)) continue;
        while (n && never_more(g, &c, -1)) unkeep_change(g, &c, &kept[--n]);
        keep_change(g, &c, &kept[n++], t);
    }
    g->m->time = ARENA_ARRAY(&g->m->arena, int32_t, n + 1);
    g->m->ntime = n;
    for (int32_t k = 0; k < n; k++) g->m->time[k] = kept[k].time;
}

/* ---- the net ---- */

static int32_t
merged_time_from(const struct merged *m, int32_t t)
{
    int32_t low = 0, high = m->ntime;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (m->time[middle] < t)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int
compare_merge_places(const void *a, const void *b)
{
    const struct taking *x = a, *y = b;
    if (x->var != y->var) return x->var < y->var ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Joins the bytes of a variable over equal live ranges. */
static void
join_takings(struct merging *g)
{
    int32_t n = 0;
    for (int32_t k = 0; k < g->ntaking; k++) {
        struct taking *t = &g->taking[k];
        t->begin = merged_time_from(g->m, t->begin);
        t->end = merged_time_from(g->m, t->end);
    }
    qsort(g->taking, (size_t)g->ntaking, sizeof *g->taking, compare_merge_places);
    for (int32_t k = 0; k < g->ntaking; k++) {
        struct taking *t = &g->taking[k], *last = n ? &g->taking[n - 1] : NULL;
        if (t->begin >= t->end) continue;
        if (last && compare_merge_places(last, t) == 0)
            for (int32_t i = 0; i < merged_values(g, t->var); i++) last->bytes[i] += t->bytes[i];
        else
            g->taking[n++] = *t;
    }
    g->ntaking = n;
}

static int64_t
unscaled(const struct cfn *c, int64_t cost)
{
    return cost >= NET_NEVER ? NET_NEVER : cost / c->scale;
}

/* Makes the nodes. Costs of a net must be >= 0, so the least cost of each variable is moved to the node of fixed
 * nodes. */
static void
make_nodes(struct merging *g)
{
    const struct cfn *c = g->m->folded.c;
    struct net *to = &g->m->net;
    int64_t *rest = ARENA_NEW(&g->m->arena, int64_t);
    double *rank = ARENA_ARRAY(&g->m->arena, double, c->nvar + 1);
    *rest = unscaled(c, c->constant);
    to->node = ARENA_ARRAY(&g->m->arena, struct net_node, c->nvar + 1);
    to->nnode = c->nvar + 1;
    for (int32_t v = 0; v < c->nvar; v++) {
        int64_t *cost = ARENA_ARRAY(&g->m->arena, int64_t, c->var[v].n), low = NET_NEVER;
        for (int32_t i = 0; i < c->var[v].n; i++) low = MIN(low, c->var[v].cost[i]);
        for (int32_t i = 0; i < c->var[v].n; i++)
            cost[i] = c->var[v].cost[i] >= NET_NEVER ? NET_NEVER : unscaled(c, c->var[v].cost[i] - low);
        *rest += unscaled(c, low);
        to->node[v] = (struct net_node){.ncand = c->var[v].n, .cost = cost};
        rank[v] = c->rank[v];
    }
    rank[c->nvar] = INFINITY;
    to->rank = rank;
    to->node[c->nvar] = (struct net_node){.ncand = 1, .cost = rest};
}

static void
make_edge(struct merging *g, const struct cfn_edge *e, const uint16_t *same)
{
    const struct cfn *c = g->m->folded.c;
    struct net_tensor *t = &g->m->net.tensor[g->m->net.ntensor++];
    struct net_use *use = ARENA_NEW(&g->m->arena, struct net_use);
    int64_t n = (int64_t)c->var[e->u].n * c->var[e->v].n, *price = ARENA_ARRAY(&g->m->arena, int64_t, n);
    for (int64_t k = 0; k < n; k++) price[k] = unscaled(c, e->table->cost[k]);
    *use = (struct net_use){.node = e->v, .form = same};
    *t = (struct net_tensor){.maker = e->u, .form = same, .nuse = 1, .use = use, .price = price};
    t->nfrom = c->var[e->u].n;
    t->nto = c->var[e->v].n;
}

static void
make_tensors(struct merging *g)
{
    const struct cfn *c = g->m->folded.c;
    struct net *to = &g->m->net;
    const uint16_t *same = net_identity(&g->m->arena);
    to->tensor = ARENA_ARRAY(&g->m->arena, struct net_tensor, c->nedge + g->ntaking + 1);
    for (int32_t k = 0; k < c->nedge; k++)
        if (c->edge[k].table) make_edge(g, &c->edge[k], same);
    for (int32_t k = 0; k < g->ntaking; k++) {
        const struct taking *x = &g->taking[k];
        struct net_tensor *t = &to->tensor[to->ntensor++];
        int32_t n = merged_values(g, x->var);
        *t = (struct net_tensor){.maker = x->var, .form = same, .nfrom = n, .nto = 1, .born = x->begin, .dies = x->end};
        t->bytes = arena_dup(&g->m->arena, x->bytes, sizeof *x->bytes * (size_t)n);
    }
}

/* ---- the whole ---- */

bool
merge_begin(struct merged *m, const struct net *n)
{
    *m = (struct merged){.net.memory_limit = n->memory_limit};
    struct merging g = {.whole = n, .m = m};
    bool possible = fold_begin(&m->folded, n, 1);
    if (possible) {
        list_merged_nodes(&g);
        list_takings(&g);
        find_merged_times(&g, net_times(n));
        join_takings(&g);
        make_nodes(&g);
        make_tensors(&g);
    }
    arena_fini(&g.tmp);
    return possible;
}

void
merge_end(struct merged *m)
{
    fold_end(&m->folded);
    arena_fini(&m->arena);
}

void
merge_choice(struct merged *m, const int32_t *choice, int32_t *whole)
{
    const struct cfn *c = m->folded.c;
    int32_t *value = must_alloc(sizeof *value * (size_t)(c->nvar + 1));
    for (int32_t v = 0; v < c->nvar; v++) value[v] = c->var[v].value[choice[v]];
    fold_choice(&m->folded, value, whole);
    free(value);
}

bool
merge_find(const struct merged *m, const int32_t *whole, int32_t *choice)
{
    const struct cfn *c = m->folded.c;
    bool known = fold_find(&m->folded, whole, choice);
    for (int32_t v = 0; v < c->nvar && known; v++) {
        int32_t i = 0;
        while (c->var[v].value[i] != choice[v]) i++;
        choice[v] = i;
    }
    choice[c->nvar] = 0;
    return known;
}
