/* fewer.c - makes networks with few layers, and transfers their results to the network with all layers. */
#include "sbp/search/fewer.h"

#include "runtime/data/hash.h"
#include "sbp/net/dual.h"
#include "sbp/search/local.h"

#include <stdlib.h>
#include <string.h>

enum {
    BOUND = 8,  /* number of first and of last layers that are kept for messages */
    CHOICE = 2, /* number of first and of last layers that are kept for choices */
    SWEEPS = 8, /* dual sweeps per bounding round */
    LOOKS = 12,
    ROUNDS = 2, /* radius of the neighbourhood that a variable's hash covers */
};

/* ---- choosing the layers that are kept ---- */

static bool
is_repeat_kept(const struct repeat *like, int32_t side, int32_t i)
{
    int32_t layer = like->layer[i];
    return layer < side || layer >= like->nlayer - side;
}

/* Returns the item that replaces the omitted item `to` as a neighbour of `from`: the counterpart of `to` on the
 * other side of the omitted layers (the gap); -1: none. */
static int32_t
across(const struct repeat *like, int32_t side, int32_t from, int32_t to)
{
    int32_t layer = like->layer[from], gap = like->nlayer - 2 * side;
    return layer < 0 ? -1 : repeat_moved(like, to, layer < side ? gap : -gap);
}

/* Returns the item that represents an omitted item: its counterpart in the last layer before the omitted layers. */
static int32_t
side_stands_for(const struct repeat *like, int32_t side, int32_t i)
{
    return is_repeat_kept(like, side, i) ? i : repeat_moved(like, i, side - 1 - like->layer[i]);
}

/* ---- taking initial messages from a network with few layers ---- */

struct few {
    struct repeat like; /* the remaining variables as items, in sweep order */
    struct cfn *whole, *c;
    int32_t *order, *place; /* order: by item: the item's variable; place: by variable: the variable's item */
    int32_t *is;            /* by item: its variable in the small network c; -1: the item is omitted */
};

/* Hashes a sample of the costs. Differences elsewhere only cost more sweeps. */
static uint64_t
hash_some(const int64_t *x, int64_t n)
{
    uint64_t h = (uint64_t)n;
    for (int64_t k = 0, step = n / 16 + 1; k < n; k += step) h = hash_number(h, (uint64_t)x[k]);
    return h;
}

/* Hashes a variable's costs and neighbours, independently of the neighbours' order. */
static uint64_t
variable_key(const struct cfn *c, int32_t v, const uint64_t *alone, const uint64_t *table)
{
    const struct cfn_var *x = &c->var[v];
    uint64_t h = hash_number(alone[v], (uint64_t)x->nedge);
    for (int32_t k = 0; k < x->nedge && x->nedge < 64; k++) {
        const struct cfn_edge *e = &c->edge[x->edge[k]];
        h += hash_number(hash_number(table[x->edge[k]], alone[edge_other(e, v)]), e->u == v);
    }
    return h;
}

static bool
variables_repeat(struct few *f, struct arena *a)
{
    const struct cfn *c = f->whole;
    uint64_t *alone = ARENA_ARRAY(a, uint64_t, c->nvar + 1), *table = ARENA_ARRAY(a, uint64_t, c->nedge + 1);
    int32_t *near = ARENA_ARRAY(a, int32_t, 2 * (int64_t)c->nedge + 1), *first, nnear = 0;
    f->order = ARENA_ARRAY(a, int32_t, c->nvar + 1);
    f->place = ARENA_ARRAY(a, int32_t, c->nvar + 1);
    f->like = (struct repeat){.n = dual_order(c, f->order)};
    uint64_t *key = ARENA_ARRAY(a, uint64_t, f->like.n + 1);
    first = ARENA_ARRAY(a, int32_t, f->like.n + 1);
    for (int32_t i = 0; i < f->like.n; i++) f->place[f->order[i]] = i;
    for (int32_t v = 0; v < c->nvar; v++) alone[v] = hash_some(c->var[v].cost, c->var[v].n);
    for (int32_t k = 0; k < c->nedge; k++) {
        const struct cfn_edge *e = &c->edge[k];
        if (e->table) table[k] = hash_some(e->table->cost, (int64_t)c->var[e->u].n * c->var[e->v].n);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int32_t i = 0; i < f->like.n; i++) key[i] = variable_key(c, f->order[i], alone, table);
        for (int32_t i = 0; i < f->like.n; i++) alone[f->order[i]] = key[i];
    }
    for (int32_t i = 0; i < f->like.n; i++) {
        const struct cfn_var *x = &c->var[f->order[i]];
        key[i] = alone[f->order[i]];
        for (int32_t k = 0; k < x->nedge; k++) near[nnear++] = f->place[edge_other(&c->edge[x->edge[k]], f->order[i])];
        first[i + 1] = nnear;
    }
    f->like.key = key;
    f->like.first = first;
    f->like.near = near;
    return repeat_begin(&f->like);
}

static void *
duplicate_bytes(const void *from, size_t size)
{
    return memcpy(must_alloc(size), from, size);
}

static void
keep_variables(struct few *f)
{
    struct cfn *c = f->c = must_alloc(sizeof *c);
    *c = (struct cfn){.scale = f->whole->scale};
    c->var = must_alloc(sizeof *c->var * (size_t)f->like.n);
    c->rank = must_alloc(sizeof *c->rank * (size_t)f->like.n);
    f->is = ARENA_ARRAY(&f->like.arena, int32_t, f->like.n + 1);
    for (int32_t i = 0; i < f->like.n; i++) {
        const struct cfn_var *x = &f->whole->var[f->order[i]];
        f->is[i] = is_repeat_kept(&f->like, BOUND, i) ? c->nvar : -1;
        if (f->is[i] < 0) continue;
        c->rank[c->nvar] = i;
        c->var[c->nvar].n = x->n;
        c->var[c->nvar].cost = duplicate_bytes(x->cost, sizeof *x->cost * (size_t)x->n);
        c->var[c->nvar++].value = duplicate_bytes(x->value, sizeof *x->value * (size_t)x->n);
    }
}

/* Copies the edges between kept variables. An edge from the lower side into the gap (the omitted layers) becomes
 * an edge to the counterpart on the upper side. Skips edges from the upper side into the gap, because each has a
 * counterpart on the lower side. */
static void
keep_edges(struct few *f)
{
    for (int32_t k = 0; k < f->whole->nedge; k++) {
        const struct cfn_edge *e = &f->whole->edge[k];
        if (!e->table) continue;
        int32_t u = f->place[e->u], v = f->place[e->v];
        bool has_u = f->is[u] >= 0, has_v = f->is[v] >= 0;
        if (!has_u && !has_v) continue;
        if (has_u != has_v && f->like.layer[has_u ? u : v] >= BOUND) continue;
        if (!has_u) u = across(&f->like, BOUND, v, u);
        if (!has_v) v = across(&f->like, BOUND, u, v);
        if (u >= 0 && v >= 0 && f->is[u] >= 0 && f->is[v] >= 0 && u != v) cfn_join(f->c, f->is[u], f->is[v], e->table);
    }
}

static void
sweep_fewer(struct few *f, bool (*stop)(void *arg), void *arg, int32_t *pick, int64_t *work)
{
    struct dual d;
    int64_t before = -NET_NEVER;
    dual_begin(&d, f->c);
    for (int look = 0; look < LOOKS && !(stop && stop(arg)); look++) {
        dual_sweep(&d, SWEEPS);
        *work += 2 * SWEEPS * d.entries;
        dual_bound(&d);
        int64_t gap = dual_polish(&d) - d.bound;
        memcpy(pick, d.pick, sizeof *pick * (size_t)f->c->nvar);
        if (gap <= 0 || d.bound - before <= gap / 64) break;
        before = d.bound;
    }
    dual_end(&d);
}

/* Returns the edge that represents e; NULL: none. *same: both edges have their ends in the same order. */
static const struct cfn_edge *
stand_in(const struct few *f, const struct cfn_edge *e, bool *same)
{
    int32_t u = f->place[e->u], v = f->place[e->v];
    if (f->is[u] < 0 || f->is[v] < 0) { /* shifts both ends until the later end is directly before the gap */
        int32_t by = BOUND - 1 - MAX(f->like.layer[u], f->like.layer[v]);
        u = repeat_moved(&f->like, u, by);
        v = repeat_moved(&f->like, v, by);
    }
    if (u < 0 || v < 0 || f->is[u] < 0 || f->is[v] < 0) return NULL;
    int32_t k = cfn_edge_between(f->c, f->is[u], f->is[v]);
    if (k < 0) return NULL;
    *same = f->c->edge[k].u == f->is[u];
    bool fits = f->c->var[f->is[u]].n == f->whole->var[e->u].n && f->c->var[f->is[v]].n == f->whole->var[e->v].n;
    return fits ? &f->c->edge[k] : NULL;
}

static void
hand_messages(struct few *f)
{
    for (int32_t k = 0; k < f->whole->nedge; k++) {
        struct cfn_edge *e = &f->whole->edge[k];
        bool same;
        const struct cfn_edge *from = e->table ? stand_in(f, e, &same) : NULL;
        if (!from) continue;
        memcpy(e->to_u, same ? from->to_u : from->to_v, sizeof *e->to_u * (size_t)f->whole->var[e->u].n);
        memcpy(e->to_v, same ? from->to_v : from->to_u, sizeof *e->to_v * (size_t)f->whole->var[e->v].n);
    }
}

static void
hand_picks(const struct few *f, const int32_t *few, int32_t *pick)
{
    for (int32_t i = 0; i < f->like.n; i++) {
        int32_t v = f->order[i], as = side_stands_for(&f->like, BOUND, i);
        pick[v] = as >= 0 && f->is[as] >= 0 ? MIN(few[f->is[as]], f->whole->var[v].n - 1) : 0;
    }
}

bool
fewer_messages(struct cfn *c, bool (*stop)(void *arg), void *arg, int32_t *pick, int64_t *work)
{
    struct few f = {.whole = c};
    struct arena tmp = {0};
    bool known = variables_repeat(&f, &tmp);
    if (known) {
        keep_variables(&f);
        keep_edges(&f);
        int32_t *few = ARENA_ARRAY(&tmp, int32_t, f.like.n + 1);
        sweep_fewer(&f, stop, arg, few, work);
        hand_messages(&f);
        hand_picks(&f, few, pick);
        cfn_free(&f.c);
        repeat_end(&f.like);
    }
    arena_fini(&tmp);
    return known;
}

/* ---- making a net with few layers ---- */

/* Detects repetition. Nodes are similar if they have equally many neighbours and the same cost of the first
 * candidate. (Later candidates may exist on one node only.) */
static bool
nodes_repeat(struct fewer *f, struct arena *a)
{
    const struct net *n = f->whole;
    uint64_t *key = ARENA_ARRAY(a, uint64_t, n->nnode + 1);
    int32_t *first = ARENA_ARRAY(a, int32_t, n->nnode + 2), *near, nnear = 0;
    for (int32_t k = 0; k < n->ntensor; k++) {
        const struct net_tensor *t = &n->tensor[k];
        first[t->maker + 1] += t->nuse;
        uint64_t is = hash_number((uint64_t)t->nuse, t->bytes ? (uint64_t)t->bytes[0] : 0);
        key[t->maker] += hash_number(1, is);
        for (int32_t j = 0; j < t->nuse; j++) {
            first[t->use[j].node + 1]++;
            key[t->use[j].node] += hash_number(2, is);
        }
        nnear += 2 * t->nuse;
    }
    near = ARENA_ARRAY(a, int32_t, nnear + 1);
    for (int32_t i = 0; i < n->nnode; i++) {
        first[i + 1] += first[i];
        key[i] = hash_number(key[i], (uint64_t)n->node[i].cost[0]);
    }
    int32_t *at = arena_dup(a, first, sizeof *first * (size_t)(n->nnode + 1));
    for (int32_t k = 0; k < n->ntensor; k++) {
        const struct net_tensor *t = &n->tensor[k];
        for (int32_t j = 0; j < t->nuse; j++) {
            near[at[t->maker]++] = t->use[j].node;
            near[at[t->use[j].node]++] = t->maker;
        }
    }
    f->like = (struct repeat){.n = n->nnode, .key = key, .first = first, .near = near, .ordered = true};
    return repeat_begin(&f->like);
}

static void
keep_nodes(struct fewer *f)
{
    const struct net *n = f->whole;
    f->net.node = ARENA_ARRAY(&f->like.arena, struct net_node, n->nnode + 1);
    f->is = ARENA_ARRAY(&f->like.arena, int32_t, n->nnode + 1);
    for (int32_t v = 0; v < n->nnode; v++) {
        f->is[v] = is_repeat_kept(&f->like, CHOICE, v) ? f->net.nnode : -1;
        if (f->is[v] >= 0) f->net.node[f->net.nnode++] = n->node[v];
    }
}

/* Keeps a tensor whose maker is kept. Omitted readers are replaced by their counterparts on the other side of the
 * gap. */
static void
keep_tensor(struct fewer *f, const struct net_tensor *t)
{
    if (f->is[t->maker] < 0) return;
    struct net_tensor *to = &f->net.tensor[f->net.ntensor++];
    struct net_use *use = ARENA_ARRAY(&f->like.arena, struct net_use, t->nuse + 1);
    *to = *t;
    to->maker = f->is[t->maker];
    to->use = use;
    to->nuse = 0;
    for (int32_t k = 0; k < t->nuse; k++) {
        int32_t node = t->use[k].node, i = f->is[node] >= 0 ? node : across(&f->like, CHOICE, t->maker, node);
        if (i < 0 || f->is[i] < 0 || f->whole->node[i].ncand > f->whole->node[node].ncand) continue;
        use[to->nuse++] = (struct net_use){.node = f->is[i], .form = t->use[k].form};
    }
}

bool
fewer_begin(struct fewer *f, const struct net *n)
{
    struct arena tmp = {0};
    *f = (struct fewer){.whole = n, .net = {.nlevel = n->nlevel}};
    bool known = nodes_repeat(f, &tmp);
    if (known) {
        keep_nodes(f);
        f->net.tensor = ARENA_ARRAY(&f->like.arena, struct net_tensor, n->ntensor + 1);
        for (int32_t k = 0; k < n->ntensor; k++) keep_tensor(f, &n->tensor[k]);
    }
    f->like.key = NULL;
    f->like.first = f->like.near = NULL;
    arena_fini(&tmp);
    return known;
}

void
fewer_end(struct fewer *f)
{
    repeat_end(&f->like);
}

void
fewer_of(const struct fewer *f, const int32_t *whole, int32_t *few)
{
    for (int32_t v = 0; v < f->whole->nnode; v++)
        if (f->is[v] >= 0) few[f->is[v]] = whole[v];
}

void
fewer_whole(const struct fewer *f, const int32_t *few, int32_t *whole)
{
    struct local l;
    uint8_t *alone = must_alloc((size_t)f->whole->nnode + 1);
    for (int32_t v = 0; v < f->whole->nnode; v++) {
        int32_t as = side_stands_for(&f->like, CHOICE, v);
        alone[v] = as < 0 || f->is[as] < 0 || few[f->is[as]] >= f->whole->node[v].ncand;
        if (!alone[v]) whole[v] = few[f->is[as]];
    }
    local_begin(&l, f->whole, whole);
    choose_beside(&l, alone);
    memcpy(whole, l.choice, sizeof *whole * (size_t)f->whole->nnode);
    local_end(&l);
    free(alone);
}
