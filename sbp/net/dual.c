/* dual.c - TRW-S sweeps, bounds, and pruning.
 *
 * Sweeps are limited by memory access. So the edge ends of each variable and their messages are stored side by side,
 * in sweep order. dual_end() copies the messages back to the network. */
#pragma GCC optimize("O3")
#include "sbp/net/dual.h"

#include "runtime/base/simd.h"
#include "runtime/base/system.h"
#include "sbp/net/trail.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

enum { EACH = 10 }; /* counted work of an edge end, apart from that of reading its costs */

INLINE int64_t
lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Computes messages to columns: to[j] = min over rows i of t[i][j] - from[i]. t: costs of the edge. */
INLINE void
over_rows(const int64_t *restrict from, int32_t n, const int64_t *restrict t, int32_t m, int64_t *restrict to)
{
    if (n == 2) {
        int64_t a = from[0], b = from[1];
        for (int32_t j = 0; j < m; j++) to[j] = lesser(t[j] - a, t[m + j] - b);
        return;
    }
    for (int32_t j = 0; j < m; j++) to[j] = t[j] - from[0];
    for (int32_t i = 1; i < n; i++)
        for (int32_t j = 0; j < m; j++) to[j] = lesser(to[j], t[(int64_t)i * m + j] - from[i]);
}

/* Computes messages to rows: to[i] = min over columns j of t[i][j] - from[j]. t: costs of the edge. */
INLINE void
over_columns(const int64_t *restrict from, int32_t n, const int64_t *restrict t, int32_t m, int64_t *restrict to)
{
    for (int32_t i = 0; i < m; i++) {
        int64_t best = INT64_MAX;
        for (int32_t j = 0; j < n; j++) best = lesser(best, t[(int64_t)i * n + j] - from[j]);
        to[i] = best;
    }
}

/* ---- beginning and ending a dual ---- */

struct dual_end_of { /* an edge as seen from one of its variables */
    int32_t other;   /* variable at the other end */
    int32_t nother;  /* number of values of that variable */
    /* true: the sweep visits the node at the other end later than this one */
    bool ahead;
    /* true: rows of `table` are the values of this end, and columns those of the other; false: the reverse */
    bool rows;
    const int64_t *table;
    const int64_t *swept; /* table that sweeps read: `table`, or its transpose */
    int64_t *to, *from;   /* to: messages to this variable; from: messages to the variable at the other end */
};

/* Returns true if each row of `swept` runs over the values of the other end. Most edges have an end with two values
 * (a "made" variable); rows then run over the longer end. */
INLINE bool
sweeps_by_columns(const struct dual_end_of *e, int32_t n)
{
    return n <= 2 || (e->rows && e->nother > 2);
}

static int
compare_dual_ranks(const void *a, const void *b, void *rank)
{
    double x = ((double *)rank)[*(const int32_t *)a], y = ((double *)rank)[*(const int32_t *)b];
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    return x != y ? (x < y ? -1 : 1) : i < j ? -1 : i > j;
}

int32_t
dual_order(const struct cfn *c, int32_t *order)
{
    int32_t n = 0;
    for (int32_t v = 0; v < c->nvar; v++)
        if (c->var[v].n) order[n++] = v;
    system_sort(order, (size_t)n, sizeof *order, compare_dual_ranks, c->rank);
    return n;
}

/* Stores the messages to each variable contiguously. at: two entries per edge: positions of the messages to u and to
 * v. */
static void
lay_messages(struct dual *d, int64_t **at)
{
    const struct cfn *c = d->c;
    int64_t *next = d->messages;
    for (int32_t k = 0; k < d->n; k++) {
        const struct cfn_var *x = &c->var[d->order[k]];
        for (int32_t j = 0; j < x->nedge; j++, next += x->n) {
            const struct cfn_edge *e = &c->edge[x->edge[j]];
            bool is_u = e->u == d->order[k];
            memcpy(next, is_u ? e->to_u : e->to_v, sizeof *next * (size_t)x->n);
            at[2 * x->edge[j] + !is_u] = next;
        }
    }
}

static void
lay_ends(struct dual *d, const int32_t *place, int64_t **at)
{
    const struct cfn *c = d->c;
    int32_t n = 0;
    for (int32_t k = 0; k < d->n; k++) {
        int32_t v = d->order[k];
        d->first[k] = n;
        for (int32_t j = 0; j < c->var[v].nedge; j++) {
            int32_t edge = c->var[v].edge[j];
            const struct cfn_edge *e = &c->edge[edge];
            struct dual_end_of *x = &d->end[n++];
            *x = (struct dual_end_of){.other = edge_other(e, v), .rows = e->u == v, .table = e->table->cost};
            x->nother = c->var[x->other].n;
            x->swept = x->rows == sweeps_by_columns(x, c->var[v].n) ? x->table : cfn_transposed(c, e);
            x->ahead = place[x->other] > k;
            x->to = at[2 * edge + !x->rows];
            x->from = at[2 * edge + x->rows];
        }
    }
    d->first[d->n] = n;
}

void
dual_begin(struct dual *d, struct cfn *c)
{
    int64_t nend = 0, nmessage = 0;
    int32_t most = 1;
    *d = (struct dual){.c = c};
    for (int32_t v = 0; v < c->nvar; v++) {
        nend += c->var[v].n ? c->var[v].nedge : 0;
        nmessage += (int64_t)c->var[v].n * c->var[v].nedge;
        most = MAX(most, c->var[v].n);
    }
    for (int32_t k = 0; k < c->nedge; k++)
        if (c->edge[k].table) d->entries += (int64_t)c->var[c->edge[k].u].n * c->var[c->edge[k].v].n;
    d->order = must_alloc(sizeof *d->order * (size_t)MAX(1, c->nvar));
    d->pick = must_alloc(sizeof *d->pick * (size_t)MAX(1, c->nvar));
    d->first = must_alloc(sizeof *d->first * (size_t)(c->nvar + 1));
    d->end = must_alloc(sizeof *d->end * (size_t)MAX(1, nend));
    d->messages = must_alloc(sizeof *d->messages * (size_t)MAX(1, nmessage));
    d->sum = must_alloc(sizeof *d->sum * (size_t)most);
    d->given = must_alloc(sizeof *d->given * (size_t)most);
    int32_t *place = must_alloc(sizeof *place * (size_t)MAX(1, c->nvar));
    int64_t **at = must_alloc(sizeof *at * 2 * (size_t)MAX(1, c->nedge));
    d->nmessage = nmessage;
    work_add(EACH * nend + 2 * nmessage);
    d->n = dual_order(c, d->order);
    for (int32_t k = 0; k < d->n; k++) place[d->order[k]] = k;
    lay_messages(d, at);
    lay_ends(d, place, at);
    free(at);
    free(place);
}

/* Copies the messages back to the network. */
static void
hand_back(struct dual *d)
{
    struct cfn *c = d->c;
    const int64_t *next = d->messages;
    for (int32_t k = 0; k < d->n; k++) {
        const struct cfn_var *x = &c->var[d->order[k]];
        for (int32_t j = 0; j < x->nedge; j++, next += x->n) {
            struct cfn_edge *e = &c->edge[x->edge[j]];
            memcpy(e->u == d->order[k] ? e->to_u : e->to_v, next, sizeof *next * (size_t)x->n);
        }
    }
}

void
dual_end(struct dual *d)
{
    if (!d->pruned) hand_back(d);
    free(d->order);
    free(d->pick);
    free(d->first);
    free(d->end);
    free(d->messages);
    free(d->sum);
    free(d->given);
}

/* ---- sending messages along the variables and back ---- */

INLINE void
dual_add(int64_t *restrict sum, const int64_t *restrict m, int32_t n)
{
    for (int32_t i = 0; i < n; i++) sum[i] += m[i];
}

/* Writes to sum, for each value of the k-th variable, its unary cost plus the messages of all edges. Keeps the sums
 * in registers in the most common case of two values. */
INLINE void
dual_sum(const struct dual *d, int32_t k, int64_t *restrict sum)
{
    const struct cfn_var *x = &d->c->var[d->order[k]];
    int32_t n = x->n, nend = d->first[k + 1] - d->first[k];
    /* messages to the variable's first edge end; the messages to its other edge ends follow in memory */
    const int64_t *m = nend ? d->end[d->first[k]].to : NULL;
    if (n == 2) {
        int64_t a = x->cost[0], b = x->cost[1];
        for (int32_t j = 0; j < nend; j++) {
            a += m[2 * j];
            b += m[2 * j + 1];
        }
        sum[0] = a;
        sum[1] = b;
        return;
    }
    memcpy(sum, x->cost, sizeof *sum * (size_t)n);
    for (int32_t j = 0; j < nend; j++, m += n) dual_add(sum, m, n);
}

/* For each value at this end of an edge, writes to `to` the least cost that remains on the edge. The minimum is over
 * the values at the other end. */
INLINE void
dual_reach(const struct dual_end_of *e, int32_t n, int64_t *to)
{
    if (sweeps_by_columns(e, n))
        over_columns(e->from, e->nother, e->swept, n, to);
    else
        over_rows(e->from, e->nother, e->swept, n, to);
}

INLINE int32_t
least_position(const int64_t *x, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (x[i] < x[best]) best = i;
    return best;
}

/* Returns the cost on the edge of value i at this end together with the chosen value at the other end. */
INLINE int64_t
dual_beside(const struct dual *d, const struct dual_end_of *e, int32_t n, int32_t i)
{
    int64_t j = d->pick[e->other];
    return e->rows ? e->table[(int64_t)i * e->nother + j] : e->table[j * n + i];
}

/* Chooses the best value of a variable from two inputs: the chosen values of the neighbours on one side in the sweep
 * order (`ahead`, or behind), and the messages from the neighbours on the other side. */
INLINE void
dual_choose(struct dual *d, int32_t k, bool ahead)
{
    int32_t v = d->order[k], n = d->c->var[v].n;
    for (int32_t i = 0; i < n; i++) d->given[i] = d->sum[i];
    for (int32_t j = d->first[k]; j < d->first[k + 1]; j++) {
        const struct dual_end_of *e = &d->end[j];
        if (e->ahead != ahead) continue;
        for (int32_t i = 0; i < n; i++) {
            int64_t cost = dual_beside(d, e, n, i);
            bool never = d->given[i] >= NET_NEVER / 2 || cost >= NET_NEVER;
            d->given[i] = never ? NET_NEVER : d->given[i] + cost - e->to[i];
        }
    }
    d->pick[v] = least_position(d->given, n);
}

INLINE void
take_from(int64_t *restrict m, const int64_t *restrict given, int32_t n)
{
    for (int32_t i = 0; i < n; i++) m[i] -= given[i];
}

/* Processes the k-th variable as TRW-S does. Collects cost from the edges to earlier variables. Then distributes
 * to the edges to later variables what each value costs more than the variable's cheapest value. Each of these
 * edges gets the fraction 1 / max(number of edges to later variables, number of edges to earlier variables). */
INLINE void
dual_pass_on(struct dual *d, int32_t k, bool forth, bool picks)
{
    int32_t n = d->c->var[d->order[k]].n, nend = d->first[k + 1] - d->first[k], ahead = 0;
    struct dual_end_of *end = &d->end[d->first[k]];
    for (int32_t j = 0; j < nend; j++) {
        if (end[j].ahead == forth)
            ahead++;
        else
            dual_reach(&end[j], n, end[j].to); /* cost that the edge can give */
    }
    int32_t parts = MAX(1, MAX(ahead, nend - ahead));
    dual_sum(d, k, d->sum);
    if (picks) dual_choose(d, k, !forth);
    if (!ahead) return;
    int64_t low = d->sum[least_position(d->sum, n)], *given = d->given;
    for (int32_t i = 0; i < n; i++) given[i] = d->sum[i] - low;
    for (int32_t i = 0; i < n && parts > 1; i++) given[i] /= parts;
    for (int32_t j = 0; j < nend; j++)
        if (end[j].ahead == forth) take_from(end[j].to, given, n);
}

/* Subtracts the least entry from the messages to each edge end, so that messages stay small. The bound does not
 * change: the edge's least cost rises by the amount that the variable loses. */
static void
normalize_messages(struct dual *d)
{
    for (int32_t k = 0; k < d->n; k++)
        for (int32_t j = d->first[k]; j < d->first[k + 1]; j++) {
            int32_t n = d->c->var[d->order[k]].n;
            int64_t *m = d->end[j].to, low = m[least_position(m, n)];
            for (int32_t i = 0; i < n; i++) m[i] -= low;
        }
}

/* Returns the counted work of one sweep in both directions, which reads each edge at both ends. */
static int64_t
sweep_work(const struct dual *d)
{
    return d->entries + 3 * d->nmessage + EACH * d->first[d->n];
}

VECTOR void
dual_sweep(struct dual *d, int n)
{
    work_add(n * sweep_work(d));
    for (int s = 1; s <= n; s++) {
        for (int32_t k = 0; k < d->n; k++) dual_pass_on(d, k, true, false);
        for (int32_t k = d->n - 1; k >= 0; k--) dual_pass_on(d, k, false, s == n);
    }
    normalize_messages(d);
}
EXPORTED(dual_sweep)

INLINE int64_t
least_left(const int64_t *restrict t, const int64_t *restrict to_u, int32_t nu, const int64_t *restrict to_v,
           int32_t nv)
{
    int64_t best = INT64_MAX;
    for (int32_t i = 0; i < nu; i++, t += nv)
        for (int32_t j = 0; j < nv; j++) best = lesser(best, t[j] - to_u[i] - to_v[j]);
    return best;
}

VECTOR void
dual_bound(struct dual *d)
{
    work_add(d->entries / 2 + d->nmessage);
    d->bound = d->c->constant;
    for (int32_t k = 0; k < d->n; k++) {
        int32_t n = d->c->var[d->order[k]].n;
        dual_sum(d, k, d->sum);
        d->bound += d->sum[least_position(d->sum, n)];
        for (int32_t j = d->first[k]; j < d->first[k + 1]; j++) {
            const struct dual_end_of *e = &d->end[j];
            if (!e->rows) continue;
            d->bound += sweeps_by_columns(e, n) ? least_left(e->swept, e->to, n, e->from, e->nother)
                                                : least_left(e->swept, e->from, e->nother, e->to, n);
        }
    }
}
EXPORTED(dual_bound)

/* Writes to d->given, for each value of the k-th variable, how much the bound rises if the variable takes that value
 * (reduced cost). */
VECTOR static void
rises(struct dual *d, int32_t k)
{
    int32_t n = d->c->var[d->order[k]].n;
    dual_sum(d, k, d->sum);
    int64_t low = d->sum[least_position(d->sum, n)];
    for (int32_t i = 0; i < n; i++) d->given[i] = d->sum[i] - low;
    for (int32_t j = d->first[k]; j < d->first[k + 1]; j++) {
        dual_reach(&d->end[j], n, d->sum);
        work_add((int64_t)n * d->end[j].nother);
        for (int32_t i = 0; i < n; i++) d->sum[i] -= d->end[j].to[i];
        int64_t whole = d->sum[least_position(d->sum, n)];
        for (int32_t i = 0; i < n; i++) d->given[i] += d->sum[i] - whole;
    }
}

const int64_t *
dual_value_bounds(struct dual *d, int32_t k)
{
    rises(d, k);
    for (int32_t i = 0; i < d->c->var[d->order[k]].n; i++) d->given[i] += d->bound;
    return d->given;
}

/* ---- improving the solution that a sweep chose ---- */

/* Writes to d->sum the cost of each value of the k-th variable, given the chosen values of all other variables. */
static void
costs_here(struct dual *d, int32_t k)
{
    const struct cfn_var *x = &d->c->var[d->order[k]];
    for (int32_t i = 0; i < x->n; i++) d->sum[i] = x->cost[i];
    for (int32_t j = d->first[k]; j < d->first[k + 1]; j++)
        for (int32_t i = 0; i < x->n; i++) d->sum[i] = cost_add(d->sum[i], dual_beside(d, &d->end[j], x->n, i));
}

static bool
dual_improve(struct dual *d, int32_t k)
{
    int32_t v = d->order[k];
    costs_here(d, k);
    int32_t best = least_position(d->sum, d->c->var[v].n);
    if (d->sum[best] >= d->sum[d->pick[v]]) return false;
    d->pick[v] = best;
    return true;
}

int64_t
dual_polish(struct dual *d)
{
    enum { ROUNDS = 20 };
    bool changed = true;
    for (int round = 0; changed && round < ROUNDS; round++) {
        changed = false;
        work_add(2 * d->nmessage);
        for (int32_t k = 0; k < d->n; k++) changed |= dual_improve(d, k);
    }
    int64_t sum = d->c->constant;
    for (int32_t k = 0; k < d->n; k++) {
        const struct cfn_var *x = &d->c->var[d->order[k]];
        sum = cost_add(sum, x->cost[d->pick[d->order[k]]]);
        for (int32_t j = d->first[k]; j < d->first[k + 1]; j++)
            if (d->end[j].rows) sum = cost_add(sum, dual_beside(d, &d->end[j], x->n, d->pick[d->order[k]]));
    }
    return sum;
}

/* ---- removing values by the bound ---- */

static void
say_numbers(struct str *to, const int64_t *x, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        str_addn(to, " ", 1);
        str_add_int(to, x[i]);
    }
}

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
        say_numbers(to, e->to_u, c->var[e->u].n);
        say_numbers(to, e->to_v, c->var[e->v].n);
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
    hand_back(d);
    d->pruned = true;
    say_messages(d, below);
    /* tests the values of all variables with the same messages before any value is removed */
    for (int32_t k = 0; k < d->n && possible; k++) {
        int32_t v = d->order[k], left = 0;
        rises(d, k);
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
