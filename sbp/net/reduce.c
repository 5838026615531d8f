/* reduce.c - applies the reductions of reduce.h until none is possible. */
#pragma GCC optimize("O3")
#include "sbp/net/reduce.h"

#include "runtime/base/simd.h"
#include "sbp/net/trail.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

/* A variable with two neighbours is eliminated only if their joint table has at most PAIR_ENTRIES entries and takes
 * at most PAIR_STEPS steps to compute. GROWTH: a replacement has at most this many times the values of the replaced
 * variable. */
enum { PAIR_ENTRIES = 1 << 16, PAIR_STEPS = 1 << 24, GROWTH = 4 };

struct work { /* queue of variables to process, without duplicates */
    struct cfn *c;
    int32_t *queue, head, n;
    uint8_t *queued;
    bool fold; /* true: apply only the reductions of cfn_fold() */
    bool stopped;
    int64_t step;
};

static void
queue_variable(struct work *w, int32_t v)
{
    if (w->queued[v]) return;
    w->queued[v] = 1;
    w->queue[(w->head + w->n++) % w->c->nvar] = v;
}

static void
look_around(struct work *w, int32_t v)
{
    const struct cfn_var *x = &w->c->var[v];
    for (int32_t k = 0; k < x->nedge; k++) queue_variable(w, edge_other(&w->c->edge[x->edge[k]], v));
}

/* ---- support: removing values without support ---- */

static bool
value_has_support(const struct cfn *c, const struct cfn_edge *e, int32_t v, int32_t i)
{
    int32_t n = c->var[edge_other(e, v)].n;
    for (int32_t j = 0; j < n; j++)
        if (edge_cost(c, e, v, i, j) < NET_NEVER) return true;
    return false;
}

/* Removes unsupported values of v. Returns true if any was removed. */
static bool
keep_supported(struct cfn *c, int32_t v)
{
    struct cfn_var *x = &c->var[v];
    uint8_t keep[UINT16_MAX];
    int32_t left = 0;
    work_add(x->n * (1 + 3 * (int64_t)x->nedge));
    for (int32_t i = 0; i < x->n; i++) keep[i] = x->cost[i] < NET_NEVER;
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct cfn_edge *e = &c->edge[x->edge[k]];
        if (cfn_all_possible(c, e)) continue;
        for (int32_t i = 0; i < x->n; i++) keep[i] = keep[i] && value_has_support(c, e, v, i);
    }
    for (int32_t i = 0; i < x->n; i++) left += keep[i];
    if (left == x->n) return false;
    cfn_keep(c, v, keep);
    return true;
}

static bool
support_all(struct work *w, bool *removed)
{
    struct cfn *c = w->c;
    *removed = false;
    for (int32_t v = 0; v < c->nvar; v++)
        if (c->var[v].n) queue_variable(w, v);
    if (w->n) trail_say(c->trail, "support\n");
    while (w->n) {
        int32_t v = w->queue[w->head];
        w->head = (w->head + 1) % c->nvar;
        w->n--;
        w->queued[v] = 0;
        if (!keep_supported(c, v)) continue;
        *removed = true;
        if (c->var[v].n == 0) return false;
        look_around(w, v);
    }
    return true;
}

/* ---- cut: replacing an edge by unary costs ---- */

static void
cut_sum(struct cfn *c, int32_t edge)
{
    struct cfn_edge *e = &c->edge[edge];
    struct cfn_var *u = &c->var[e->u], *v = &c->var[e->v];
    const int64_t *t = e->table->cost;
    trail_say(c->trail, "cut %d %d\n", (int)e->u, (int)e->v);
    for (int32_t i = 0; i < u->n; i++) u->cost[i] = cost_add(u->cost[i], t[(int64_t)i * v->n] - t[0]);
    for (int32_t j = 0; j < v->n; j++) v->cost[j] = cost_add(v->cost[j], t[j]);
    cfn_cut(c, edge);
}

static bool
cut_sums(struct work *w, int32_t v)
{
    struct cfn *c = w->c;
    bool any = false;
    for (int32_t k = 0; k < c->var[v].nedge;) {
        int32_t edge = c->var[v].edge[k];
        work_add(c->var[v].n);
        if (!cfn_is_sum(c, &c->edge[edge])) {
            k++;
            continue;
        }
        queue_variable(w, edge_other(&c->edge[edge], v));
        cut_sum(c, edge);
        any = true;
    }
    return any;
}

/* ---- out: eliminating a variable ---- */

/* Returns the least cost over v's values, given value a of one neighbour and value b of the other neighbour (edge
 * -1: no such neighbour). */
static int64_t
least_pair_cost(const struct cfn *c, int32_t v, int32_t ea, int32_t a, int32_t eb, int32_t b)
{
    const struct cfn_var *x = &c->var[v];
    int64_t best = NET_NEVER;
    for (int32_t i = 0; i < x->n; i++) {
        int64_t sum = x->cost[i];
        if (ea >= 0) sum = cost_add(sum, edge_cost(c, &c->edge[ea], v, i, a));
        if (eb >= 0) sum = cost_add(sum, edge_cost(c, &c->edge[eb], v, i, b));
        best = MIN(best, sum);
    }
    return best;
}

static void
remove_from_net(struct work *w, int32_t v)
{
    struct cfn *c = w->c;
    look_around(w, v);
    while (c->var[v].nedge) cfn_cut(c, c->var[v].edge[c->var[v].nedge - 1]);
    c->var[v].n = 0;
}

/* Adds the cost of a variable's only value to the values of each neighbour. */
static void
out_decided(struct work *w, int32_t v)
{
    struct cfn *c = w->c;
    struct cfn_var *x = &c->var[v];
    c->constant = cost_add(c->constant, x->cost[0]);
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct cfn_edge *e = &c->edge[x->edge[k]];
        struct cfn_var *o = &c->var[edge_other(e, v)];
        for (int32_t j = 0; j < o->n; j++) o->cost[j] = cost_add(o->cost[j], edge_cost(c, e, v, 0, j));
    }
}

static void
out_leaf(struct work *w, int32_t v)
{
    struct cfn *c = w->c;
    int32_t edge = c->var[v].edge[0];
    struct cfn_var *o = &c->var[edge_other(&c->edge[edge], v)];
    for (int32_t j = 0; j < o->n; j++) o->cost[j] = cost_add(o->cost[j], least_pair_cost(c, v, edge, j, -1, 0));
}

/* Sets pay[i][j] = min over v's values of the cost with value i of a and value j of b. An impossible cost counts
 * twice, so that the sum exceeds NET_NEVER even if other costs are negative. */
VECTOR static void
pay_together(const struct cfn *c, int32_t v, int32_t ea, int32_t na, int32_t eb, int32_t nb, int64_t *restrict pay)
{
    const struct cfn_var *x = &c->var[v];
    int64_t *to_b = must_alloc(sizeof *to_b * (size_t)x->n * (size_t)nb); /* [value of v][value j of b] */
    for (int32_t k = 0; k < x->n; k++)
        for (int32_t j = 0; j < nb; j++) {
            int64_t cost = edge_cost(c, &c->edge[eb], v, k, j);
            to_b[(int64_t)k * nb + j] = cost >= NET_NEVER ? 2 * NET_NEVER : cost;
        }
    for (int32_t i = 0; i < na; i++, pay += nb) {
        for (int32_t j = 0; j < nb; j++) pay[j] = NET_NEVER;
        for (int32_t k = 0; k < x->n; k++) {
            int64_t here = cost_add(x->cost[k], edge_cost(c, &c->edge[ea], v, k, i));
            const int64_t *restrict rest = to_b + (int64_t)k * nb;
            if (here >= NET_NEVER) continue;
            for (int32_t j = 0; j < nb; j++) pay[j] = here + rest[j] < pay[j] ? here + rest[j] : pay[j];
        }
    }
    free(to_b);
}

static void
out_link(struct work *w, int32_t v)
{
    struct cfn *c = w->c;
    int32_t ea = c->var[v].edge[0], eb = c->var[v].edge[1];
    int32_t a = edge_other(&c->edge[ea], v), b = edge_other(&c->edge[eb], v), na = c->var[a].n, nb = c->var[b].n;
    struct cfn_table *t = cfn_table_new((int64_t)na * nb);
    c->work += (int64_t)na * nb * c->var[v].n;
    work_add((int64_t)na * nb * c->var[v].n);
    pay_together(c, v, ea, na, eb, nb, t->cost);
    cfn_join(c, a, b, t);
    cfn_table_drop(&t);
}

static bool
pays_off(const struct cfn *c, int32_t v)
{
    const struct cfn_var *x = &c->var[v];
    int64_t na = c->var[edge_other(&c->edge[x->edge[0]], v)].n, nb = c->var[edge_other(&c->edge[x->edge[1]], v)].n;
    return na * nb <= PAIR_ENTRIES && na * nb * x->n <= PAIR_STEPS;
}

static bool
remove_variable(struct work *w, int32_t v)
{
    struct cfn *c = w->c;
    struct cfn_var *x = &c->var[v];
    if (x->n > 1 && w->fold) return false;
    if (x->n > 1 && (x->nedge > 2 || (x->nedge == 2 && !pays_off(c, v)))) return false;
    trail_say(c->trail, "out %d\n", (int)v);
    trail_gone(c->trail, c, v);
    if (x->n == 1)
        out_decided(w, v);
    else if (x->nedge == 0)
        c->constant = cost_add(c->constant, least_pair_cost(c, v, -1, 0, -1, 0));
    else if (x->nedge == 1)
        out_leaf(w, v);
    else
        out_link(w, v);
    remove_from_net(w, v);
    return true;
}

/* ---- as: replacing a variable by another one ---- */

/* Returns the only value of v that is possible with value j at the edge's other end; -1: several or none. */
static int32_t
only_value(const struct cfn *c, const struct cfn_edge *e, int32_t v, int32_t j)
{
    int32_t only = -1;
    for (int32_t i = 0; i < c->var[v].n; i++) {
        if (edge_cost(c, e, v, i, j) >= NET_NEVER) continue;
        if (only >= 0) return -1;
        only = i;
    }
    return only;
}

static bool
decides(const struct cfn *c, const struct cfn_edge *e, int32_t v, int32_t *map)
{
    int32_t n = c->var[edge_other(e, v)].n;
    work_add(c->var[v].n);
    if (n > GROWTH * c->var[v].n) return false;
    for (int32_t j = 0; j < n; j++)
        if ((map[j] = only_value(c, e, v, j)) < 0) return false;
    return true;
}

static void
tell_fate(struct cfn *c, int32_t v, int32_t u, const int32_t *map)
{
    const struct cfn_var *x = &c->var[u];
    struct cfn_fate *f = &c->fate[v];
    *f = (struct cfn_fate){.into = u, .n = x->value[x->n - 1] + 1};
    f->to = must_alloc(sizeof *f->to * (size_t)f->n);
    for (int32_t j = 0; j < x->n; j++) f->to[x->value[j]] = c->var[v].value[map[j]];
}

/* Replaces variable v by u: value j of u stands for value map[j] of v. Adds v's costs and edges to the costs and
 * edges of u. */
static void
become(struct work *w, int32_t v, int32_t edge, const int32_t *map)
{
    struct cfn *c = w->c;
    int32_t u = edge_other(&c->edge[edge], v);
    trail_say(c->trail, "as %d %d\n", (int)v, (int)u);
    if (c->fate) tell_fate(c, v, u, map);
    trail_gone(c->trail, c, v);
    for (int32_t j = 0; j < c->var[u].n; j++) {
        int64_t cost = cost_add(c->var[v].cost[map[j]], edge_cost(c, &c->edge[edge], v, map[j], j));
        c->var[u].cost[j] = cost_add(c->var[u].cost[j], cost);
    }
    for (int32_t k = 0; k < c->var[v].nedge; k++) {
        int32_t e = c->var[v].edge[k], o = edge_other(&c->edge[e], v), no = c->var[o].n;
        if (e == edge) continue;
        struct cfn_table *t = cfn_table_new((int64_t)c->var[u].n * no);
        for (int32_t j = 0; j < c->var[u].n; j++)
            for (int32_t i = 0; i < no; i++) t->cost[(int64_t)j * no + i] = edge_cost(c, &c->edge[e], v, map[j], i);
        cfn_join(c, u, o, t);
        cfn_table_drop(&t);
    }
    remove_from_net(w, v);
}

static bool
substitute_variable(struct work *w, int32_t v)
{
    struct cfn *c = w->c;
    int32_t map[UINT16_MAX];
    for (int32_t k = 0; k < c->var[v].nedge; k++) {
        int32_t edge = c->var[v].edge[k];
        if (!decides(c, &c->edge[edge], v, map)) continue;
        become(w, v, edge, map);
        return true;
    }
    return false;
}

/* ---- applying the reductions until none applies ---- */

enum { OFTEN = 16 }; /* stop() is called every OFTEN steps */

/* Returns true if stop() asks to end. The network may stay partly reduced, because every reduction keeps the least
 * cost. */
static bool
is_stopped(struct work *w)
{
    if (!w->stopped && w->c->stop && w->step++ % OFTEN == 0) w->stopped = w->c->stop(w->c->arg);
    return w->stopped;
}

static void
shrink(struct work *w)
{
    struct cfn *c = w->c;
    for (int32_t v = 0; v < c->nvar; v++)
        if (c->var[v].n) queue_variable(w, v);
    while (w->n) {
        int32_t v = w->queue[w->head];
        w->head = (w->head + 1) % c->nvar;
        w->n--;
        w->queued[v] = 0;
        if (is_stopped(w)) return;
        if (c->var[v].n == 0 || remove_variable(w, v)) continue;
        if (cut_sums(w, v))
            queue_variable(w, v);
        else
            substitute_variable(w, v);
    }
}

static void
work_begin(struct work *w, struct cfn *c, bool fold)
{
    *w = (struct work){.c = c, .fold = fold};
    w->queue = must_alloc(sizeof *w->queue * (size_t)MAX(1, c->nvar));
    w->queued = must_alloc((size_t)MAX(1, c->nvar));
}

static void
work_end(struct work *w)
{
    free(w->queue);
    free(w->queued);
}

static bool
reduce(struct cfn *c, bool fold)
{
    struct work w;
    bool removed;
    work_begin(&w, c, fold);
    bool possible = support_all(&w, &removed);
    for (removed = true; possible && removed;) {
        shrink(&w);
        if (w.stopped) break;
        possible = support_all(&w, &removed) && c->constant < NET_NEVER / 2;
    }
    work_end(&w);
    return possible;
}

bool
cfn_reduce(struct cfn *c)
{
    return reduce(c, false);
}

bool
cfn_fold(struct cfn *c)
{
    return reduce(c, true);
}

/* ---- drop: removing dominated values ---- */

/* Returns true if value s of v costs at least as much as value t, for all values of the neighbours. */
static bool
beaten(const struct cfn *c, int32_t v, int32_t s, int32_t t)
{
    const struct cfn_var *x = &c->var[v];
    work_add(3 * (int64_t)x->nedge);
    int64_t worse = x->cost[t] - x->cost[s];
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct cfn_edge *e = &c->edge[x->edge[k]];
        int32_t n = c->var[edge_other(e, v)].n;
        work_add(n);
        int64_t most = -NET_NEVER;
        for (int32_t j = 0; j < n; j++) {
            int64_t at = edge_cost(c, e, v, t, j), as_now = edge_cost(c, e, v, s, j);
            if (as_now >= NET_NEVER) continue;
            if (at >= NET_NEVER) return false;
            most = MAX(most, at - as_now);
        }
        worse += MAX(most, -NET_NEVER / 4);
    }
    return worse <= 0;
}

/* Computes the costs of v's values if all neighbours take their first (or last) value. */
static void
prune_variable(const struct cfn *c, int32_t v, bool last, int64_t *cost)
{
    const struct cfn_var *x = &c->var[v];
    work_add(3 * (int64_t)x->n * x->nedge);
    memcpy(cost, x->cost, sizeof *cost * (size_t)x->n);
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct cfn_edge *e = &c->edge[x->edge[k]];
        int32_t j = last ? c->var[edge_other(e, v)].n - 1 : 0;
        for (int32_t i = 0; i < x->n; i++) cost[i] = cost_add(cost[i], edge_cost(c, e, v, i, j));
    }
}

/* Removes one dominated value. Costs at the neighbours' first and last values rule out most pairs quickly. */
static bool
drop_beaten(struct cfn *c, int32_t v, int64_t *first, int64_t *last)
{
    struct cfn_var *x = &c->var[v];
    prune_variable(c, v, false, first);
    prune_variable(c, v, true, last);
    for (int32_t s = 0; s < x->n; s++)
        for (int32_t t = 0; t < x->n; t++) {
            if (s == t || first[t] > first[s] || last[t] > last[s] || !beaten(c, v, s, t)) continue;
            uint8_t keep[UINT16_MAX];
            memset(keep, 1, (size_t)x->n);
            keep[s] = 0;
            trail_say(c->trail, "drop %d %d %d\n", (int)v, (int)x->value[s], (int)x->value[t]);
            cfn_keep(c, v, keep);
            return true;
        }
    return false;
}

bool
cfn_dominate(struct cfn *c, int32_t most)
{
    int64_t *cost = must_alloc(sizeof *cost * 2 * (size_t)most);
    bool any = false;
    struct work w = {.c = c};
    for (int32_t v = 0; v < c->nvar && !is_stopped(&w); v++)
        while (c->var[v].n > 1 && c->var[v].n <= most && drop_beaten(c, v, cost, cost + most)) any = true;
    free(cost);
    return any;
}
