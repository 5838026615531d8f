/* margin.c - computes min-marginals by bucket elimination, forward and backward.
 *
 * Tables hold the cost above the dual's bound, so entries are >= 0. Entries are capped at `top`. */
#pragma GCC optimize("O3")
#include "sbp/net/margin.h"

#include "runtime/base/simd.h"
#include "sbp/net/work.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SCOPE = 30 }; /* maximum number of variables of a table */

struct table {
    int32_t n, *scope;
    int64_t *cost; /* costs in row-major order: the last variable of the scope is contiguous */
    bool used;     /* true: a clique has already combined the table */
    /* true: a clique made the table. In the backward pass, such a table holds the cost of the rest of the network */
    bool made;
};
/* bucket of bucket elimination: the tables that contain variable `var`, combined into one table */
struct clique {
    int32_t var, n, scope[SCOPE];
    int32_t ntable, *table, out; /* out: the table passed to the neighbours of `var` */
    int64_t size;
};
struct of_var {
    int32_t n, capacity, *table;
    /* by variable: number of entries that its clique's table would have if the variable were eliminated now */
    double size;
    bool gone;
};
struct entry { /* heap entry; stale if the variable's size has changed since */
    double size;
    int32_t v;
};
struct margin {
    const struct cfn *c;
    struct margin_options *o;
    struct arena arena;
    struct table *table;
    struct clique *clique;
    struct of_var *var;
    int32_t ntable, nclique, table_capacity, clique_capacity;
    struct entry *heap; /* min-heap of variables by size of their clique */
    int32_t nheap, heap_capacity;
    int32_t *mark, stamp; /* mark: by variable: value of `stamp` when the variable was last visited */
    int64_t *work, top, total, largest, constant;
    bool split;
};

/* ---- choosing the order in which variables are eliminated ---- */

static int32_t
table_new(struct margin *m, int32_t n, const int32_t *scope)
{
    ARENA_GROW(&m->arena, m->table, m->ntable + 1, m->table_capacity);
    m->table[m->ntable] = (struct table){.n = n, .scope = arena_dup(&m->arena, scope, sizeof *scope * (size_t)n)};
    for (int32_t k = 0; k < n; k++) {
        struct of_var *x = &m->var[scope[k]];
        ARENA_GROW(&m->arena, x->table, x->n + 1, x->capacity);
        x->table[x->n++] = m->ntable;
    }
    return m->ntable++;
}

/* Adds a table's variables to a clique's scope, the variables of the clique's own table. Returns false if the
 * clique's table would become too large; a clique to which no table belongs always accepts. */
static bool
clique_widen(struct margin *m, struct clique *k, const struct table *t)
{
    double size = (double)k->size;
    int32_t n = k->n;
    for (int32_t i = 0; i < t->n; i++) {
        bool known = false;
        for (int32_t j = 0; j < k->n && !known; j++) known = k->scope[j] == t->scope[i];
        if (known) continue;
        if (n == SCOPE) return assert(k->ntable), false;
        size *= m->c->var[t->scope[i]].n;
        k->scope[n++] = t->scope[i];
    }
    if (k->ntable && size > (double)m->o->largest) return false;
    k->n = n;
    k->size = (int64_t)size;
    return true;
}

static bool
is_less(const struct entry *x, const struct entry *y)
{
    return x->size != y->size ? x->size < y->size : x->v < y->v;
}

static void
push_heap(struct margin *m, struct entry e)
{
    ARENA_GROW(&m->arena, m->heap, m->nheap + 1, m->heap_capacity);
    int32_t k = m->nheap++;
    for (; k > 0 && is_less(&e, &m->heap[(k - 1) / 2]); k = (k - 1) / 2) m->heap[k] = m->heap[(k - 1) / 2];
    m->heap[k] = e;
}

static struct entry
pop_heap(struct margin *m)
{
    struct entry least = m->heap[0], e = m->heap[--m->nheap];
    int32_t k = 0;
    for (int32_t next = 1; next < m->nheap; next = 2 * k + 1) {
        if (next + 1 < m->nheap && is_less(&m->heap[next + 1], &m->heap[next])) next++;
        if (!is_less(&m->heap[next], &e)) break;
        m->heap[k] = m->heap[next];
        k = next;
    }
    m->heap[k] = e;
    return least;
}

/* Computes the size of v's clique table if v were eliminated now. */
static void
measure_variable(struct margin *m, int32_t v)
{
    struct of_var *x = &m->var[v];
    int32_t left = 0;
    x->size = m->c->var[v].n == 1 ? 0 : m->c->var[v].n;
    m->mark[v] = ++m->stamp;
    for (int32_t k = 0; k < x->n; k++) {
        const struct table *t = &m->table[x->table[k]];
        if (t->used) continue;
        x->table[left++] = x->table[k];
        for (int32_t i = 0; i < t->n; i++) {
            if (m->mark[t->scope[i]] == m->stamp) continue;
            m->mark[t->scope[i]] = m->stamp;
            x->size *= m->c->var[t->scope[i]].n;
        }
    }
    x->n = left;
    push_heap(m, (struct entry){x->size, v});
}

static struct clique *
clique_new(struct margin *m, int32_t v)
{
    ARENA_GROW(&m->arena, m->clique, m->nclique + 1, m->clique_capacity);
    struct clique *k = &m->clique[m->nclique++];
    *k = (struct clique){.var = v, .n = 1, .scope = {v}, .size = m->c->var[v].n, .out = -1};
    k->table = ARENA_ARRAY(&m->arena, int32_t, m->var[v].n + 1);
    return k;
}

/* Moves the variable with the most values to the end of the scope, so that inner loops are long. */
static void
finish_clique(struct margin *m, struct clique *k)
{
    int32_t scope[SCOPE], n = 0, last = 0;
    for (int32_t i = 1; i < k->n; i++)
        if (m->c->var[k->scope[i]].n > m->c->var[k->scope[last]].n) last = i;
    int32_t swap = k->scope[last];
    k->scope[last] = k->scope[k->n - 1];
    k->scope[k->n - 1] = swap;
    for (int32_t i = 0; i < k->n; i++)
        if (k->scope[i] != k->var) scope[n++] = k->scope[i];
    k->out = table_new(m, n, scope);
    m->table[k->out].made = true;
    m->total += k->size;
    m->largest = MAX(m->largest, k->size);
}

/* Eliminates v: combines all tables that contain v in one clique (bucket). If the clique's table would be too
 * large, divides the tables among as few cliques as the size limit allows (mini-buckets). */
static void
eliminate_variable(struct margin *m, int32_t v)
{
    struct of_var *x = &m->var[v];
    int32_t first = m->nclique, n = x->n;
    /* true: the variable has one value; the minimum over it is then exact, also if its tables are divided among several
     * cliques */
    bool decided = m->c->var[v].n == 1;
    x->gone = true;
    clique_new(m, v);
    for (int32_t k = 0; k < n; k++) {
        struct table *t = &m->table[x->table[k]];
        int32_t at = decided && k ? m->nclique : first;
        while (at < m->nclique && !clique_widen(m, &m->clique[at], t)) at++;
        if (at == m->nclique) clique_widen(m, clique_new(m, v), t);
        m->clique[at].table[m->clique[at].ntable++] = x->table[k];
        t->used = true;
    }
    m->split = m->split || (!decided && m->nclique > first + 1);
    for (int32_t at = first, end = m->nclique; at < end; at++) {
        finish_clique(m, &m->clique[at]);
        for (int32_t i = 0; i < m->clique[at].n; i++)
            if (m->clique[at].scope[i] != v) measure_variable(m, m->clique[at].scope[i]);
    }
}

static bool
decide(struct margin *m)
{
    const struct cfn *c = m->c;
    for (int32_t v = 0; v < c->nvar; v++)
        if (c->var[v].n) table_new(m, 1, &v);
    for (int32_t k = 0; k < c->nedge; k++)
        if (c->edge[k].table) table_new(m, 2, (int32_t[]){c->edge[k].u, c->edge[k].v});
    for (int32_t v = 0; v < c->nvar; v++)
        if (c->var[v].n) measure_variable(m, v);
    while (m->nheap && m->total <= m->o->most) {
        struct entry e = pop_heap(m);
        if (!m->var[e.v].gone && m->var[e.v].size == e.size) eliminate_variable(m, e.v);
    }
    return m->total <= m->o->most;
}

/* ---- combining and reducing tables ---- */

/* Strides through another table in the row-major order of a clique's table. step 0: the other table does not contain
 * the variable. Adjacent dimensions with compatible strides are merged. */
struct way {
    int n;
    int64_t size[SCOPE], step[SCOPE];
};

static struct way
way_through(const struct margin *m, const struct clique *k, const struct table *t)
{
    struct way w = {0};
    int64_t step[SCOPE] = {0}, size = 1;
    for (int32_t j = t->n - 1; j >= 0; j--) {
        for (int32_t i = 0; i < k->n; i++)
            if (k->scope[i] == t->scope[j]) step[i] = size;
        size *= m->c->var[t->scope[j]].n;
    }
    for (int32_t i = 0; i < k->n; i++) {
        int64_t n = m->c->var[k->scope[i]].n;
        if (w.n && w.step[w.n - 1] == step[i] * n) {
            w.size[w.n - 1] *= n;
            w.step[w.n - 1] = step[i];
        } else {
            w.size[w.n] = n;
            w.step[w.n++] = step[i];
        }
    }
    return w;
}

static int64_t
table_entries(const struct margin *m, const struct table *t)
{
    int64_t n = 1;
    for (int32_t i = 0; i < t->n; i++) n *= m->c->var[t->scope[i]].n;
    return n;
}

enum walk { SET, ADD, KEEP_LEAST };

/* Processes one row of the clique's table. */
static inline void
walk_factor_row(enum walk how, int64_t *restrict row, int64_t *restrict x, int64_t step, int64_t n, int64_t top)
{
    if (how == SET && step == 1)
        for (int64_t i = 0; i < n; i++) row[i] = x[i];
    else if (how == SET)
        for (int64_t i = 0; i < n; i++) row[i] = x[i * step];
    else if (how == ADD && step == 0)
        for (int64_t i = 0, y = x[0]; i < n; i++) row[i] = row[i] + y < top ? row[i] + y : top;
    else if (how == ADD && step == 1)
        for (int64_t i = 0; i < n; i++) row[i] = row[i] + x[i] < top ? row[i] + x[i] : top;
    else if (how == ADD)
        for (int64_t i = 0; i < n; i++) row[i] = row[i] + x[i * step] < top ? row[i] + x[i * step] : top;
    else if (step == 0) {
        int64_t best = x[0];
        for (int64_t i = 0; i < n; i++) best = row[i] < best ? row[i] : best;
        x[0] = best;
    } else if (step == 1)
        for (int64_t i = 0; i < n; i++) x[i] = row[i] < x[i] ? row[i] : x[i];
    else
        for (int64_t i = 0; i < n; i++) x[i * step] = row[i] < x[i * step] ? row[i] : x[i * step];
}

/* Combines the clique's table with another table x, row by row, in one of three ways: copies x into the table; adds
 * x to the table; or lowers each entry of x to the least of the table's entries that belong to it. */
VECTOR static void
walk_rows(const struct way *w, enum walk how, int64_t *restrict table, int64_t size, int64_t *restrict x, int64_t top)
{
    int64_t at = 0, index[SCOPE] = {0}, row = w->size[w->n - 1], step = w->step[w->n - 1];
    for (int64_t i = 0; i < size; i += row) {
        walk_factor_row(how, table + i, x + at, step, row, top);
        for (int d = w->n - 2; d >= 0; d--) {
            at += w->step[d];
            if (++index[d] < w->size[d]) break;
            at -= w->step[d] * index[d];
            index[d] = 0;
        }
    }
}

static void
walk_factor(struct margin *m, const struct clique *k, const struct table *t, int64_t *x, enum walk how)
{
    struct way w = way_through(m, k, t);
    work_add(k->size);
    walk_rows(&w, how, m->work, k->size, x, m->top);
}

static void
add_all(struct margin *m, const struct clique *k)
{
    assert(k->ntable);
    for (int32_t i = 0; i < k->ntable; i++)
        walk_factor(m, k, &m->table[k->table[i]], m->table[k->table[i]].cost, i ? ADD : SET);
}

static int64_t *
full_table(struct margin *m, struct arena *a, const struct table *t)
{
    int64_t n = table_entries(m, t), *x = ARENA_ARRAY(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) x[i] = m->top;
    return x;
}

/* Subtracts the table's least entry from all its entries, and adds that entry to the constant. */
static void
normalize_factor(struct margin *m, int64_t *x, int64_t n)
{
    int64_t low = NET_NEVER;
    for (int64_t i = 0; i < n; i++) low = MIN(low, x[i]);
    m->constant = cost_add(m->constant, low);
    for (int64_t i = 0; i < n; i++) x[i] = x[i] >= NET_NEVER ? NET_NEVER : x[i] - low;
}

/* Fills the tables of variables and edges with the costs that remain after the dual's messages. */
static void
begin_tables(struct margin *m)
{
    const struct cfn *c = m->c;
    int32_t at = 0;
    m->constant = c->constant;
    for (int32_t v = 0; v < c->nvar; v++) {
        const struct cfn_var *x = &c->var[v];
        if (!x->n) continue;
        int64_t *cost = m->table[at++].cost = arena_dup(&m->arena, x->cost, sizeof *cost * (size_t)x->n);
        for (int32_t k = 0; k < x->nedge; k++) {
            const struct cfn_edge *e = &c->edge[x->edge[k]];
            for (int32_t i = 0; i < x->n; i++) cost[i] = cost_add(cost[i], e->u == v ? e->to_u[i] : e->to_v[i]);
        }
        normalize_factor(m, cost, x->n);
    }
    for (int32_t k = 0; k < c->nedge; k++) {
        const struct cfn_edge *e = &c->edge[k];
        if (!e->table) continue;
        int32_t nu = c->var[e->u].n, nv = c->var[e->v].n;
        int64_t *cost = m->table[at++].cost =
            arena_dup(&m->arena, e->table->cost, sizeof *cost * (size_t)nu * (size_t)nv);
        for (int32_t i = 0; i < nu; i++)
            for (int32_t j = 0; j < nv; j++) {
                int64_t *x = &cost[(int64_t)i * nv + j];
                *x = *x >= NET_NEVER ? NET_NEVER : *x - e->to_u[i] - e->to_v[j];
            }
        normalize_factor(m, cost, (int64_t)nu * nv);
    }
}

static void
lower(struct margin *m)
{
    for (int32_t t = 0; t < m->ntable; t++)
        for (int64_t i = 0, n = m->table[t].cost ? table_entries(m, &m->table[t]) : 0; i < n; i++)
            m->table[t].cost[i] = MIN(m->top, m->table[t].cost[i]);
}

/* Runs the forward pass. Returns the sum of the constants that cliques without neighbours pass on. */
static int64_t
forth(struct margin *m)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < m->nclique; k++) {
        const struct clique *x = &m->clique[k];
        struct table *t = &m->table[x->out];
        add_all(m, x);
        t->cost = full_table(m, &m->arena, t);
        walk_factor(m, x, t, t->cost, KEEP_LEAST);
        if (t->n == 0) sum = MIN(m->top, sum + t->cost[0]);
    }
    return sum;
}

/* Sets a table that a clique made to the cost of the rest of the network, for the backward pass. The cost follows
 * from the clique k that used the table. */
static void
hear_table(struct margin *m, const struct clique *k, struct table *t)
{
    struct arena tmp = {0};
    int64_t *all = full_table(m, &tmp, t), n = table_entries(m, t);
    walk_factor(m, k, t, all, KEEP_LEAST);
    for (int64_t i = 0; i < n; i++) t->cost[i] = all[i] >= m->top ? m->top : all[i] - t->cost[i];
    arena_fini(&tmp);
}

static void
back(struct margin *m, int64_t sum, int64_t *const *at)
{
    for (int32_t k = m->nclique - 1; k >= 0; k--) {
        const struct clique *x = &m->clique[k];
        struct table *rest = &m->table[x->out], own = {.n = 1, .scope = (int32_t[]){x->var}};
        struct arena tmp = {0};
        if (rest->n == 0) rest->cost[0] = sum >= m->top ? m->top : sum - rest->cost[0];
        add_all(m, x);
        walk_factor(m, x, rest, rest->cost, ADD);
        int64_t *value = full_table(m, &tmp, &own);
        walk_factor(m, x, &own, value, KEEP_LEAST);
        for (int32_t i = 0; i < m->c->var[x->var].n; i++) at[x->var][i] = MAX(at[x->var][i], m->constant + value[i]);
        for (int32_t i = 0; i < x->ntable; i++)
            if (m->table[x->table[i]].made) hear_table(m, x, &m->table[x->table[i]]);
        arena_fini(&tmp);
    }
}

bool
margin_raise(const struct cfn *c, struct margin_options *o, int64_t *const *at, bool *exact)
{
    struct margin m = {.c = c, .o = o};
    m.var = ARENA_ARRAY(&m.arena, struct of_var, c->nvar + 1);
    m.mark = ARENA_ARRAY(&m.arena, int32_t, c->nvar + 1);
    bool fits = decide(&m);
    if (fits) {
        begin_tables(&m);
        m.top = MAX(0, o->below - m.constant);
        m.work = must_alloc(sizeof *m.work * (size_t)MAX(1, m.largest));
        lower(&m);
        back(&m, forth(&m), at);
        free(m.work);
    }
    *exact = !m.split;
    o->most -= m.total;
    arena_fini(&m.arena);
    return fits;
}
