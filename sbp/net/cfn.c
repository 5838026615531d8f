/* cfn.c - builds a cost function network from a net, and changes it. */
#include "sbp/net/cfn.h"

#include "runtime/data/hash.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

enum { EACH = 50 }; /* counted work of an allocation, apart from that of writing its costs */

/* ---- making tables and edges ---- */

struct cfn_table *
cfn_table_new(int64_t n)
{
    struct cfn_table *t = must_alloc(sizeof *t + sizeof *t->cost * (size_t)n);
    t->nref = 1;
    work_add(EACH + n);
    return t;
}

void
cfn_table_drop(struct cfn_table **t)
{
    if (*t && --(*t)->nref == 0) {
        free((*t)->turned);
        free(*t);
    }
    *t = NULL;
}

const int64_t *
cfn_transposed(const struct cfn *c, const struct cfn_edge *e)
{
    struct cfn_table *t = e->table;
    int64_t nu = c->var[e->u].n, nv = c->var[e->v].n;
    if (t->turned) return t->turned;
    t->turned = must_alloc(sizeof *t->turned * (size_t)(nu * nv));
    work_add(nu * nv);
    for (int64_t i = 0; i < nu; i++)
        for (int64_t j = 0; j < nv; j++) t->turned[j * nu + i] = t->cost[i * nv + j];
    return t->turned;
}

static bool
find_possible(const int64_t *cost, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (cost[k] >= NET_NEVER) return false;
    return true;
}

bool
cfn_all_possible(const struct cfn *c, const struct cfn_edge *e)
{
    struct cfn_table *t = e->table;
    if (t->possible == CFN_UNKNOWN)
        t->possible = find_possible(t->cost, (int64_t)c->var[e->u].n * c->var[e->v].n) ? CFN_YES : CFN_NO;
    return t->possible == CFN_YES;
}

static bool
find_sum(const int64_t *t, int32_t nu, int32_t nv)
{
    for (int64_t i = 0; i < nu; i++)
        for (int64_t j = 0; j < nv; j++) {
            int64_t x = t[i * nv + j];
            if (x >= NET_NEVER || x - t[i * nv] != t[j] - t[0]) return false;
        }
    return true;
}

bool
cfn_is_sum(const struct cfn *c, const struct cfn_edge *e)
{
    struct cfn_table *t = e->table;
    if (t->sum == CFN_UNKNOWN) t->sum = find_sum(t->cost, c->var[e->u].n, c->var[e->v].n) ? CFN_YES : CFN_NO;
    return t->sum == CFN_YES;
}

/* Lets edges with equal costs, as in similar layers, share one table. Sweeps then find the table in a near cache. */
void
cfn_share(struct cfn *c)
{
    struct hash_table all = {0};
    for (int32_t k = 0; k < c->nedge; k++) {
        struct cfn_edge *e = &c->edge[k], *f = NULL;
        if (!e->table) continue;
        int64_t n = (int64_t)c->var[e->u].n * c->var[e->v].n;
        work_add(n);
        uint64_t hash = hash_bytes((uint64_t)n, e->table->cost, sizeof *e->table->cost * (size_t)n);
        uint32_t at = 0;
        while ((f = hash_next(&all, hash, &at)) && f->table != e->table)
            if (c->var[f->u].n == c->var[e->u].n && c->var[f->v].n == c->var[e->v].n &&
                !memcmp(f->table->cost, e->table->cost, sizeof *e->table->cost * (size_t)n))
                break;
        if (!f) hash_add(&all, hash, e);
        if (!f || f->table == e->table) continue;
        cfn_table_drop(&e->table);
        e->table = f->table;
        e->table->nref++;
    }
    hash_free(&all);
}

static void
incident(struct cfn_var *v, int32_t edge)
{
    GROW(v->edge, v->nedge + 1, v->capacity);
    v->edge[v->nedge++] = edge;
}

int32_t
cfn_edge_between(const struct cfn *c, int32_t u, int32_t v)
{
    int32_t from = c->var[u].nedge <= c->var[v].nedge ? u : v, to = from == u ? v : u;
    for (int32_t k = 0; k < c->var[from].nedge; k++)
        if (edge_other(&c->edge[c->var[from].edge[k]], from) == to) return c->var[from].edge[k];
    return -1;
}

static void
cfn_add_edge(struct cfn *c, int32_t u, int32_t v, struct cfn_table *t)
{
    GROW(c->edge, c->nedge + 1, c->capacity);
    t->nref++;
    work_add(2 * EACH + c->var[u].n + c->var[v].n);
    c->edge[c->nedge] = (struct cfn_edge){.u = u, .v = v, .table = t};
    c->edge[c->nedge].to_u = must_alloc(sizeof(int64_t) * (size_t)c->var[u].n);
    c->edge[c->nedge].to_v = must_alloc(sizeof(int64_t) * (size_t)c->var[v].n);
    incident(&c->var[u], c->nedge);
    incident(&c->var[v], c->nedge++);
}

/* Returns the edge's table for writing. Copies a table that other edges share. */
static int64_t *
own_table(struct cfn *c, struct cfn_edge *e)
{
    if (e->table->nref == 1) {
        free(e->table->turned);
        e->table->turned = NULL;
        e->table->possible = e->table->sum = CFN_UNKNOWN;
        return e->table->cost;
    }
    int64_t n = (int64_t)c->var[e->u].n * c->var[e->v].n;
    struct cfn_table *t = cfn_table_new(n);
    memcpy(t->cost, e->table->cost, sizeof *t->cost * (size_t)n);
    cfn_table_drop(&e->table);
    e->table = t;
    return t->cost;
}

void
cfn_join(struct cfn *c, int32_t u, int32_t v, struct cfn_table *t)
{
    int32_t k = cfn_edge_between(c, u, v), nu = c->var[u].n, nv = c->var[v].n;
    if (k < 0) {
        cfn_add_edge(c, u, v, t);
        return;
    }
    struct cfn_edge *e = &c->edge[k];
    int64_t *to = own_table(c, e);
    work_add((int64_t)nu * nv);
    for (int32_t i = 0; i < nu; i++)
        for (int32_t j = 0; j < nv; j++) {
            int64_t at = e->u == u ? (int64_t)i * nv + j : (int64_t)j * nu + i;
            to[at] = cost_add(to[at], t->cost[(int64_t)i * nv + j]);
        }
}

static void
forget_edge(struct cfn_var *v, int32_t edge)
{
    int32_t k = 0;
    while (v->edge[k] != edge) k++;
    v->edge[k] = v->edge[--v->nedge];
}

void
cfn_cut(struct cfn *c, int32_t edge)
{
    struct cfn_edge *e = &c->edge[edge];
    forget_edge(&c->var[e->u], edge);
    forget_edge(&c->var[e->v], edge);
    cfn_table_drop(&e->table);
    free(e->to_u);
    free(e->to_v);
    e->to_u = e->to_v = NULL;
}

/* ---- removing values of a variable ---- */

static void
keep_rows(struct cfn *c, struct cfn_edge *e, int32_t v, const uint8_t *keep, int32_t nleft)
{
    int32_t nu = c->var[e->u].n, nv = c->var[e->v].n;
    struct cfn_table *t = cfn_table_new((int64_t)(e->u == v ? nleft : nu) * (e->v == v ? nleft : nv));
    int64_t to = 0;
    for (int32_t i = 0; i < nu; i++)
        for (int32_t j = 0; j < nv; j++)
            if (keep[e->u == v ? i : j]) t->cost[to++] = e->table->cost[(int64_t)i * nv + j];
    cfn_table_drop(&e->table);
    e->table = t;
    int64_t *message = e->u == v ? e->to_u : e->to_v;
    for (int32_t i = 0, k = 0; i < c->var[v].n; i++)
        if (keep[i]) message[k++] = message[i];
}

void
cfn_keep(struct cfn *c, int32_t v, const uint8_t *keep)
{
    struct cfn_var *x = &c->var[v];
    int32_t left = 0;
    for (int32_t i = 0; i < x->n; i++) left += keep[i];
    if (left == x->n) return;
    for (int32_t k = 0; k < x->nedge; k++) keep_rows(c, &c->edge[x->edge[k]], v, keep, left);
    for (int32_t i = 0, k = 0; i < x->n; i++) {
        if (!keep[i]) continue;
        x->cost[k] = x->cost[i];
        x->value[k++] = x->value[i];
    }
    x->n = left;
}

/* ---- making a network from a net ---- */

static int64_t
most_possible(const int64_t *cost, int64_t n)
{
    int64_t most = 0;
    for (int64_t k = 0; k < n; k++)
        if (cost[k] < NET_NEVER) most = MAX(most, cost[k]);
    return most;
}

int64_t
cfn_scale(const struct net *n)
{
    int64_t sum = 1, scale = 1;
    struct arena tmp = {0};
    const int32_t *same = net_same_tables(&tmp, n);
    int64_t *table = ARENA_ARRAY(&tmp, int64_t, n->ntensor + 1);
    for (int32_t i = 0; i < n->nnode; i++) sum += most_possible(n->node[i].cost, n->node[i].ncand);
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        table[i] = t->nuse && same[i] == i ? most_possible(t->price, (int64_t)t->nfrom * t->nto) : table[same[i]];
        sum += table[i] * t->nuse;
    }
    arena_fini(&tmp);
    /* lower cap under a memory limit, because prices of memory are added to the costs */
    int64_t most = n->memory_limit ? NET_NEVER / 4096 : NET_NEVER / 16;
    while (scale < 1 << 16 && sum < most / scale) scale *= 2;
    return scale;
}

/* Tensors with identical tables of prices and forms, which share cost tables. */
struct same {
    struct same *next;
    const void *price, *from, *to;
    struct cfn_table *table;
};
enum { SAME = 4096 };
struct making {
    struct cfn *c;
    const struct net *net;
    struct arena tmp;
    struct same *same[SAME];
    int32_t *made; /* by form (layout) of the current tensor: its variable; -1: none */
};

static struct same *
find_same(struct making *m, const void *price, const void *from, const void *to)
{
    uintptr_t h = ((uintptr_t)price * 31 + (uintptr_t)from) * 31 + (uintptr_t)to;
    struct same **at = &m->same[(h ^ h >> 16) % SAME];
    for (struct same *s = *at; s; s = s->next)
        if (s->price == price && s->from == from && s->to == to) return s;
    struct same *s = ARENA_NEW(&m->tmp, struct same);
    *s = (struct same){.next = *at, .price = price, .from = from, .to = to};
    return *at = s;
}

static int64_t
cfn_scaled(const struct cfn *c, int64_t cost)
{
    return cost >= NET_NEVER ? NET_NEVER : cost * c->scale;
}

/* Returns the table of a tensor with one reader: costs by candidate of the maker and of the reader. */
static struct cfn_table *
price_table(struct making *m, const struct net_tensor *t, const struct net_use *u)
{
    struct same *s = find_same(m, t->price, t->form, u->form);
    if (s->table) return s->table;
    int32_t nu = m->net->node[t->maker].ncand, nv = m->net->node[u->node].ncand;
    s->table = cfn_table_new((int64_t)nu * nv);
    for (int32_t i = 0; i < nu; i++)
        for (int32_t j = 0; j < nv; j++)
            s->table->cost[(int64_t)i * nv + j] = cfn_scaled(m->c, t->price[(int64_t)t->form[i] * t->nto + u->form[j]]);
    return s->table;
}

static void
add_cost(struct cfn_var *v, int32_t i, int64_t cost)
{
    v->cost[i] = cost_add(v->cost[i], cost);
}

static void
one_reader(struct making *m, const struct net_tensor *t, const struct net_use *u)
{
    if (u->node != t->maker) {
        cfn_join(m->c, t->maker, u->node, price_table(m, t, u));
        return;
    }
    for (int32_t i = 0; i < m->c->var[t->maker].n; i++)
        add_cost(&m->c->var[t->maker], i, cfn_scaled(m->c, t->price[(int64_t)t->form[i] * t->nto + u->form[i]]));
}

static int32_t
made_new(struct making *m, const struct net_tensor *t)
{
    struct cfn *c = m->c;
    int32_t v = c->nvar++;
    c->rank[v] = c->rank[t->maker] + 0.5;
    c->var[v] = (struct cfn_var){.n = 2};
    c->var[v].cost = must_alloc(2 * sizeof *c->var[v].cost);
    c->var[v].value = must_alloc(2 * sizeof *c->var[v].value);
    c->var[v].value[1] = 1;
    return v;
}

/* Sets the cost of value 1 ("made") of the form's variable: the price of converting the tensor from the form that
 * the maker's candidate makes. */
static void
pay_made(struct making *m, const struct net_tensor *t, int32_t form, int32_t made)
{
    int32_t n = m->net->node[t->maker].ncand;
    struct cfn_table *table = cfn_table_new((int64_t)n * 2);
    for (int32_t i = 0; i < n; i++)
        table->cost[2 * i + 1] = cfn_scaled(m->c, t->price[(int64_t)t->form[i] * t->nto + form]);
    cfn_join(m->c, t->maker, made, table);
    cfn_table_drop(&table);
}

/* Adds a constraint: if the reader's candidate needs the form, the form's variable `made` cannot have value 0 ("not
 * made"). */
static void
want_made(struct making *m, const struct net_use *u, int32_t form, int32_t made)
{
    int32_t n = m->net->node[u->node].ncand;
    struct same *s = find_same(m, &m->made, u->form, (const void *)(intptr_t)form);
    if (!s->table) {
        s->table = cfn_table_new((int64_t)n * 2);
        for (int32_t i = 0; i < n; i++) s->table->cost[2 * i] = u->form[i] == form ? NET_NEVER : 0;
    }
    cfn_join(m->c, u->node, made, s->table);
}

static bool
is_free(const struct net_tensor *t, int32_t form)
{
    for (int32_t f = 0; f < t->nfrom; f++)
        if (t->price[(int64_t)f * t->nto + form] != 0) return false;
    return true;
}

static bool
wants_form(const struct net *n, const struct net_use *u, int32_t form)
{
    for (int32_t i = 0; i < n->node[u->node].ncand; i++)
        if (u->form[i] == form) return true;
    return false;
}

static void
several_readers(struct making *m, const struct net_tensor *t)
{
    for (int32_t f = 0; f < t->nto; f++) {
        int32_t made = -1;
        if (is_free(t, f)) continue;
        for (int32_t k = 0; k < t->nuse; k++) {
            if (!wants_form(m->net, &t->use[k], f)) continue;
            if (made < 0) pay_made(m, t, f, made = made_new(m, t));
            want_made(m, &t->use[k], f, made);
        }
    }
}

static int64_t
count_vars(const struct net *n)
{
    int64_t most = n->nnode;
    for (int32_t i = 0; i < n->ntensor; i++) most += n->tensor[i].nuse > 1 ? n->tensor[i].nto : 0;
    return most;
}

struct cfn *
cfn_new(const struct net *n, int64_t scale, const int64_t *const *extra)
{
    struct making *m = must_alloc(sizeof *m);
    struct cfn *c = must_alloc(sizeof *c);
    *m = (struct making){.c = c, .net = n};
    c->scale = scale;
    c->nvar = c->nnode = n->nnode;
    c->var = must_alloc(sizeof *c->var * (size_t)count_vars(n));
    c->rank = must_alloc(sizeof *c->rank * (size_t)count_vars(n));
    for (int32_t i = 0; i < n->nnode; i++) {
        struct cfn_var *v = &c->var[i];
        c->rank[i] = n->rank ? n->rank[i] : i;
        v->n = n->node[i].ncand;
        work_add(EACH + v->n);
        v->cost = must_alloc(sizeof *v->cost * (size_t)v->n);
        v->value = must_alloc(sizeof *v->value * (size_t)v->n);
        for (int32_t k = 0; k < v->n; k++) {
            v->cost[k] = cost_add(cfn_scaled(c, n->node[i].cost[k]), extra ? extra[i][k] : 0);
            v->value[k] = (uint16_t)k;
        }
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        if (n->tensor[i].nuse == 1) one_reader(m, &n->tensor[i], &n->tensor[i].use[0]);
        if (n->tensor[i].nuse > 1) several_readers(m, &n->tensor[i]);
    }
    for (int32_t i = 0; i < SAME; i++)
        for (struct same *s = m->same[i]; s; s = s->next) cfn_table_drop(&s->table);
    arena_fini(&m->tmp);
    free(m);
    return c;
}

void *
cfn_dup(const void *p, size_t bytes)
{
    void *to = must_alloc(MAX(bytes, 1));
    if (bytes) memcpy(to, p, bytes);
    return to;
}

struct cfn *
cfn_copy(const struct cfn *from)
{
    struct cfn *c = cfn_dup(from, sizeof *from);
    c->var = cfn_dup(from->var, sizeof *c->var * (size_t)c->nvar);
    c->rank = cfn_dup(from->rank, sizeof *c->rank * (size_t)c->nvar);
    c->capacity = MAX(1, c->nedge);
    work_add(4 * EACH * (int64_t)c->nvar + 3 * EACH * (int64_t)c->nedge);
    c->edge = cfn_dup(from->edge, sizeof *c->edge * (size_t)c->nedge);
    for (int32_t i = 0; i < c->nvar; i++) {
        struct cfn_var *v = &c->var[i];
        v->cost = cfn_dup(v->cost, sizeof *v->cost * (size_t)v->n);
        v->value = cfn_dup(v->value, sizeof *v->value * (size_t)v->n);
        v->capacity = v->nedge;
        v->edge = cfn_dup(v->edge, sizeof *v->edge * (size_t)v->nedge);
    }
    for (int32_t k = 0; k < c->nedge; k++) {
        struct cfn_edge *e = &c->edge[k];
        if (!e->table) continue;
        e->table->nref++;
        e->to_u = cfn_dup(e->to_u, sizeof *e->to_u * (size_t)c->var[e->u].n);
        e->to_v = cfn_dup(e->to_v, sizeof *e->to_v * (size_t)c->var[e->v].n);
    }
    return c;
}

int64_t
cfn_entries(const struct cfn *c)
{
    int64_t n = 0;
    for (int32_t v = 0; v < c->nvar; v++) n += c->var[v].n;
    for (int32_t k = 0; k < c->nedge; k++)
        if (c->edge[k].table) n += (int64_t)c->var[c->edge[k].u].n * c->var[c->edge[k].v].n;
    return n;
}

void
cfn_free(struct cfn **cp)
{
    struct cfn *c = *cp;
    if (!c) return;
    for (int32_t k = 0; k < c->nedge; k++) {
        cfn_table_drop(&c->edge[k].table);
        free(c->edge[k].to_u);
        free(c->edge[k].to_v);
    }
    for (int32_t i = 0; i < c->nvar; i++) {
        free(c->var[i].cost);
        free(c->var[i].value);
        free(c->var[i].edge);
    }
    free(c->var);
    free(c->rank);
    free(c->edge);
    free(c);
    *cp = NULL;
}
