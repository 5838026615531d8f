/* dual.c - messages, forth and back, and what they prove. */
#pragma GCC optimize("O3")
#include "sbp/dual.h"

#include "sbp/trail.h"

#include <stdlib.h>
#include <string.h>

/* to[j] = the least of from[i] + t[i][j] over i. */
static void
over_rows(const int64_t *restrict from, int32_t n, const int64_t *restrict t, int32_t m, int64_t *restrict to)
{
    for (int32_t j = 0; j < m; j++) to[j] = from[0] + t[j];
    for (int32_t i = 1; i < n; i++)
        for (int32_t j = 0; j < m; j++) {
            int64_t x = from[i] + t[(int64_t)i * m + j];
            to[j] = x < to[j] ? x : to[j];
        }
}

/* to[i] = the least of from[j] + t[i][j] over j. */
static void
over_columns(const int64_t *restrict from, int32_t n, const int64_t *restrict t, int32_t m, int64_t *restrict to)
{
    for (int32_t i = 0; i < m; i++) {
        int64_t best = from[0] + t[(int64_t)i * n];
        for (int32_t j = 1; j < n; j++) {
            int64_t x = from[j] + t[(int64_t)i * n + j];
            best = x < best ? x : best;
        }
        to[i] = best;
    }
}

static int64_t *
message_to(struct cfn_edge *e, int32_t v)
{
    return e->u == v ? e->to_u : e->to_v;
}

/* What the values of v cost with all that its edges hand over. */
static void
sum_of(const struct cfn *c, int32_t v, int64_t *sum)
{
    const struct cfn_var *x = &c->var[v];
    memcpy(sum, x->cost, sizeof *sum * (size_t)x->n);
    for (int32_t k = 0; k < x->nedge; k++) {
        const int64_t *m = message_to(&c->edge[x->edge[k]], v);
        for (int32_t i = 0; i < x->n; i++) sum[i] += m[i];
    }
}

/* The edge hands to v all that it can: for each value the least of what is left of its costs. */
static void
pull(struct dual *d, struct cfn_edge *e, int32_t v)
{
    struct cfn *c = d->c;
    int32_t o = edge_other(e, v), n = c->var[o].n;
    const int64_t *other = message_to(e, o);
    for (int32_t j = 0; j < n; j++) d->given[j] = -other[j];
    if (e->u == v)
        over_columns(d->given, n, e->table->cost, c->var[v].n, e->to_u);
    else
        over_rows(d->given, n, e->table->cost, c->var[v].n, e->to_v);
}

static int
by_rank(const void *a, const void *b, void *rank)
{
    double x = ((double *)rank)[*(const int32_t *)a], y = ((double *)rank)[*(const int32_t *)b];
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return x != y ? (x < y ? -1 : 1) : i < j ? -1 : i > j;
}

void
dual_begin(struct dual *d, struct cfn *c)
{
    int32_t most = 1;
    *d = (struct dual){.c = c};
    d->order = must_alloc(sizeof *d->order * (size_t)MAX(1, c->nvar));
    d->pick = must_alloc(sizeof *d->pick * (size_t)MAX(1, c->nvar));
    for (int32_t v = 0; v < c->nvar; v++) {
        if (c->var[v].n == 0) continue;
        d->order[d->n++] = v;
        most = MAX(most, c->var[v].n);
    }
    for (int32_t k = 0; k < c->nedge; k++)
        if (c->edge[k].table) d->entries += (int64_t)c->var[c->edge[k].u].n * c->var[c->edge[k].v].n;
    qsort_r(d->order, (size_t)d->n, sizeof *d->order, by_rank, c->rank);
    d->sum = must_alloc(sizeof *d->sum * (size_t)most);
    d->given = must_alloc(sizeof *d->given * (size_t)most);
}

void
dual_end(struct dual *d)
{
    free(d->order);
    free(d->pick);
    free(d->sum);
    free(d->given);
}

static bool
comes_before(const struct cfn *c, int32_t a, int32_t b)
{
    return c->rank[a] != c->rank[b] ? c->rank[a] < c->rank[b] : a < b;
}

static int32_t
least_of(const int64_t *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] < x[best]) best = i;
    return best;
}

/* The value that is best beside those chosen already and what the others hand over. */
static void
choose(struct dual *d, int32_t v, bool forth)
{
    struct cfn *c = d->c;
    const struct cfn_var *x = &c->var[v];
    memcpy(d->given, d->sum, sizeof *d->sum * (size_t)x->n);
    for (int32_t k = 0; k < x->nedge; k++) {
        struct cfn_edge *e = &c->edge[x->edge[k]];
        int32_t o = edge_other(e, v);
        if (comes_before(c, o, v) != forth) continue;
        const int64_t *m = message_to(e, v);
        for (int32_t i = 0; i < x->n; i++) {
            int64_t cost = edge_cost(c, e, v, i, d->pick[o]);
            d->given[i] = d->given[i] >= NET_NEVER / 2 || cost >= NET_NEVER ? NET_NEVER : d->given[i] + cost - m[i];
        }
    }
    d->pick[v] = least_of(d->given, x->n);
}

/* v takes what the edges behind it have, and shares what is above its least value among those ahead, as TRW-S does: one
 * part each, of as many as the busier side has. */
static void
pass_on(struct dual *d, int32_t v, bool forth)
{
    struct cfn *c = d->c;
    const struct cfn_var *x = &c->var[v];
    int32_t ahead = 0;
    for (int32_t k = 0; k < x->nedge; k++) {
        struct cfn_edge *e = &c->edge[x->edge[k]];
        if (comes_before(c, v, edge_other(e, v)) == forth)
            ahead++;
        else
            pull(d, e, v);
    }
    int32_t parts = MAX(1, MAX(ahead, x->nedge - ahead));
    sum_of(c, v, d->sum);
    choose(d, v, forth);
    int64_t low = d->sum[least_of(d->sum, x->n)];
    for (int32_t i = 0; i < x->n; i++) d->given[i] = (d->sum[i] - low) / parts;
    for (int32_t k = 0; k < x->nedge && ahead; k++) {
        struct cfn_edge *e = &c->edge[x->edge[k]];
        if (comes_before(c, v, edge_other(e, v)) != forth) continue;
        int64_t *m = message_to(e, v);
        for (int32_t i = 0; i < x->n; i++) m[i] -= d->given[i];
    }
}

/* Constants of messages cancel between the two ends; they stay small when the least is 0. */
static void
settle(struct dual *d)
{
    struct cfn *c = d->c;
    for (int32_t k = 0; k < c->nedge; k++) {
        struct cfn_edge *e = &c->edge[k];
        if (!e->table) continue;
        for (int side = 0; side < 2; side++) {
            int64_t *m = side ? e->to_v : e->to_u;
            int32_t n = c->var[side ? e->v : e->u].n;
            int64_t low = m[least_of(m, n)];
            for (int32_t i = 0; i < n; i++) m[i] -= low;
        }
    }
}

void
dual_sweep(struct dual *d)
{
    for (int32_t k = 0; k < d->n; k++) pass_on(d, d->order[k], true);
    for (int32_t k = d->n - 1; k >= 0; k--) pass_on(d, d->order[k], false);
    settle(d);
}

static int64_t
edge_least(const struct cfn *c, const struct cfn_edge *e)
{
    int64_t best = INT64_MAX;
    int32_t nu = c->var[e->u].n, nv = c->var[e->v].n;
    for (int32_t i = 0; i < nu; i++)
        for (int32_t j = 0; j < nv; j++)
            best = MIN(best, e->table->cost[(int64_t)i * nv + j] - e->to_u[i] - e->to_v[j]);
    return best;
}

void
dual_bound(struct dual *d)
{
    struct cfn *c = d->c;
    d->bound = c->constant;
    for (int32_t k = 0; k < d->n; k++) {
        sum_of(c, d->order[k], d->sum);
        d->bound += d->sum[least_of(d->sum, c->var[d->order[k]].n)];
    }
    for (int32_t k = 0; k < c->nedge; k++)
        if (c->edge[k].table) d->bound += edge_least(c, &c->edge[k]);
}

/* What the bound rises by when v must have each value: to d->given. */
static void
rises(const struct dual *d, int32_t v)
{
    const struct cfn *c = d->c;
    const struct cfn_var *x = &c->var[v];
    sum_of(c, v, d->sum);
    int64_t low = d->sum[least_of(d->sum, x->n)];
    for (int32_t i = 0; i < x->n; i++) d->given[i] = d->sum[i] - low;
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct cfn_edge *e = &c->edge[x->edge[k]];
        int32_t o = edge_other(e, v);
        const int64_t *own = e->u == v ? e->to_u : e->to_v, *other = e->u == v ? e->to_v : e->to_u;
        int64_t whole = INT64_MAX;
        for (int32_t i = 0; i < x->n; i++) {
            int64_t best = INT64_MAX;
            for (int32_t j = 0; j < c->var[o].n; j++) best = MIN(best, edge_cost(c, e, v, i, j) - other[j]);
            d->sum[i] = best - own[i];
            whole = MIN(whole, d->sum[i]);
        }
        for (int32_t i = 0; i < x->n; i++) d->given[i] += d->sum[i] - whole;
    }
}

int64_t
dual_value_bound(const struct dual *d, int32_t v, int32_t i)
{
    rises(d, v);
    return d->bound + d->given[i];
}

/* ---- solutions ---- */

static int64_t
cost_here(struct dual *d, int32_t v, int32_t i)
{
    const struct cfn_var *x = &d->c->var[v];
    int64_t sum = x->cost[i];
    for (int32_t k = 0; k < x->nedge; k++) {
        const struct cfn_edge *e = &d->c->edge[x->edge[k]];
        sum = cost_add(sum, edge_cost(d->c, e, v, i, d->pick[edge_other(e, v)]));
    }
    return sum;
}

static bool
improve(struct dual *d, int32_t v)
{
    int32_t best = d->pick[v];
    int64_t least = cost_here(d, v, best);
    for (int32_t i = 0; i < d->c->var[v].n; i++) {
        int64_t cost = cost_here(d, v, i);
        if (cost >= least) continue;
        least = cost;
        best = i;
    }
    bool changed = best != d->pick[v];
    d->pick[v] = best;
    return changed;
}

int64_t
dual_polish(struct dual *d)
{
    enum { ROUNDS = 20 };
    struct cfn *c = d->c;
    bool changed = true;
    for (int round = 0; changed && round < ROUNDS; round++) {
        changed = false;
        for (int32_t k = 0; k < d->n; k++) changed |= improve(d, d->order[k]);
    }
    int64_t sum = c->constant;
    for (int32_t k = 0; k < d->n; k++) sum = cost_add(sum, c->var[d->order[k]].cost[d->pick[d->order[k]]]);
    for (int32_t k = 0; k < c->nedge; k++) {
        const struct cfn_edge *e = &c->edge[k];
        if (e->table) sum = cost_add(sum, edge_cost(c, e, e->u, d->pick[e->u], d->pick[e->v]));
    }
    return sum;
}

/* ---- what is ruled out ---- */

static void
say_messages(struct dual *d, int64_t below)
{
    struct cfn *c = d->c;
    struct str *to = c->trail->text;
    if (!to) return;
    str_add(to, "round\n");
    for (int32_t k = 0; k < c->nedge; k++) {
        const struct cfn_edge *e = &c->edge[k];
        if (!e->table) continue;
        str_addf(to, "to %d %d", (int)e->u, (int)e->v);
        for (int32_t i = 0; i < c->var[e->u].n; i++) str_addf(to, " %lld", (long long)e->to_u[i]);
        for (int32_t j = 0; j < c->var[e->v].n; j++) str_addf(to, " %lld", (long long)e->to_v[j]);
        str_add(to, "\n");
    }
    if (below >= NET_NEVER)
        str_add(to, "prune -\n");
    else
        str_addf(to, "prune %lld\n", (long long)below);
}

bool
dual_prune(struct dual *d, int64_t below, int64_t *gone)
{
    struct cfn *c = d->c;
    uint8_t *keep = must_alloc(UINT16_MAX);
    uint8_t **all = must_alloc(sizeof *all * (size_t)MAX(1, d->n));
    bool possible = d->bound < below;
    *gone = 0;
    say_messages(d, below);
    for (int32_t k = 0; k < d->n && possible; k++) { /* all by the same messages, before any goes */
        int32_t v = d->order[k], left = 0;
        rises(d, v);
        for (int32_t i = 0; i < c->var[v].n; i++) left += keep[i] = d->bound + d->given[i] < below;
        possible = left > 0;
        if (left == c->var[v].n) continue;
        *gone += c->var[v].n - left;
        all[k] = must_alloc((size_t)c->var[v].n);
        memcpy(all[k], keep, (size_t)c->var[v].n);
    }
    for (int32_t k = 0; k < d->n; k++) {
        if (all[k] && possible) cfn_keep(c, d->order[k], all[k]);
        free(all[k]);
    }
    free(all);
    free(keep);
    return possible;
}
