/* regret.c - computes regrets: bounds all of them by the dual and by min-marginals, then searches for each candidate
 * that is still open. */
#include "sbp/solve/regret.h"

#include "sbp/net/dual.h"
#include "sbp/search/explore.h"
#include "sbp/limit/limited.h"
#include "sbp/net/margin.h"
#include "sbp/net/reduce.h"

#include <stdlib.h>
#include <string.h>

/* Sweeps are done in rounds of SWEEPS. Another round follows if the last one gained more than 1 / PART of the gap;
 * there are at most MOST_SWEEPS sweeps. */
enum { SWEEPS = 24, MOST_SWEEPS = 400, PART = 1000 };

/* Raises the dual's bound by sweeps, until a round gains little. */
static void
regret_raise(struct dual *d, const struct regrets *r)
{
    int64_t before = -NET_NEVER, cost = r->solved->cost * d->c->scale;
    for (int k = 0; k < MOST_SWEEPS && !solve_stops(r->o); k += SWEEPS) {
        dual_sweep(d, SWEEPS);
        dual_bound(d);
        if (d->bound >= cost || d->bound - before <= (cost - before) / PART) return;
        before = d->bound;
    }
}

/* Sets the lower bounds on the regrets of a node's candidates, from the bounds of the folded variable that decides
 * the node. */
static void
tell_node(struct regrets *r, int32_t v, const struct fold_node *f)
{
    const struct cfn_var *x = &r->folded.c->var[v];
    int64_t *low = r->low[f->node];
    for (int32_t k = 0; k < r->net->node[f->node].ncand; k++) low[k] = NET_NEVER;
    for (int32_t i = 0; i < x->n; i++) {
        int32_t k = f->to ? f->to[x->value[i]] : x->value[i];
        int64_t more = limited_ceil(r->least[v][i], r->folded.c->scale) - r->solved->cost;
        low[k] = MIN(low[k], MAX(0, more));
    }
}

static void
tell_all(struct regrets *r)
{
    const struct folded *f = &r->folded;
    for (int32_t v = 0; v < f->c->nvar; v++)
        for (int32_t k = f->first[v]; k < f->first[v + 1]; k++) tell_node(r, v, &f->node[k]);
    for (int32_t k = 0; k < f->nsure; k++) {
        int64_t *low = r->low[f->sure[k].node];
        for (int32_t i = 0; i < r->net->node[f->sure[k].node].ncand; i++)
            low[i] = i == f->sure[k].candidate ? 0 : NET_NEVER;
    }
}

static void
take_bounds(struct regrets *r, struct dual *d)
{
    for (int32_t k = 0; k < d->n; k++)
        memcpy(r->least[d->order[k]], dual_value_bounds(d, k),
               sizeof(int64_t) * (size_t)r->folded.c->var[d->order[k]].n);
    tell_all(r);
}

void
regrets_begin(struct regrets *r, const struct net *n, const struct solved *s, const struct solve_options *o,
              int64_t *const *low, int64_t *const *high)
{
    *r = (struct regrets){.net = n, .solved = s, .o = o, .low = low, .high = high};
    for (int32_t i = 0; i < n->nnode; i++) memset(low[i], 0, sizeof *low[i] * (size_t)n->node[i].ncand);
    if (solve_stops(o) || !fold_begin(&r->folded, n, cfn_scale(n))) return;
    struct trail none = {0};
    struct dual d;
    struct cfn *c = r->folded.c;
    r->begun = true;
    r->choice = ARENA_ARRAY(&r->arena, int32_t, n->nnode + 1);
    r->value = ARENA_ARRAY(&r->arena, int32_t, c->nvar + 1);
    r->keep = ARENA_ARRAY(&r->arena, uint8_t, UINT16_MAX);
    r->least = ARENA_ARRAY(&r->arena, int64_t *, c->nvar + 1);
    r->of = ARENA_ARRAY(&r->arena, int32_t, n->nnode + 1);
    for (int32_t i = 0; i < n->nnode; i++) r->of[i] = -1;
    for (int32_t v = 0; v < c->nvar; v++) {
        r->least[v] = ARENA_ARRAY(&r->arena, int64_t, c->var[v].n);
        for (int32_t k = r->folded.first[v]; k < r->folded.first[v + 1]; k++) r->of[r->folded.node[k].node] = k;
    }
    c->trail = &none;
    dual_begin(&d, c);
    regret_raise(&d, r);
    dual_bound(&d);
    take_bounds(r, &d);
    dual_end(&d);
    c->trail = NULL;
}

void
regrets_end(struct regrets *r)
{
    if (r->begun) fold_end(&r->folded);
    arena_fini(&r->arena);
}

void
regrets_offer(struct regrets *r, const int32_t *choice, int64_t cost)
{
    for (int32_t i = 0; i < r->net->nnode && cost < NET_NEVER; i++) {
        int64_t *high = &r->high[i][choice[i]];
        *high = MIN(*high, MAX(0, cost - r->solved->cost));
    }
}

/* Keeps only the values that occur in plans with a regret below `high` and with candidate k of `node` (node -1:
 * any). Returns false if there is no such plan. */
static bool
keep_possible(struct regrets *r, struct cfn *c, int64_t high, int32_t node, int32_t k)
{
    const struct folded *f = &r->folded;
    int64_t below = high >= NET_NEVER ? NET_NEVER : (r->solved->cost + high) * c->scale;
    for (int32_t v = 0; v < c->nvar; v++) {
        struct cfn_var *x = &c->var[v];
        const struct fold_node *g = node < 0 ? NULL : &f->node[r->of[node]];
        bool forced = g && f->first[v] <= r->of[node] && r->of[node] < f->first[v + 1];
        int32_t left = 0, n = x->n;
        for (int32_t j = 0; j < n; j++) {
            bool may = !forced || (g->to ? g->to[x->value[j]] : x->value[j]) == k;
            left += r->keep[j] = may && r->least[v][j] < below;
        }
        if (n && !left) return false;
        cfn_keep(c, v, r->keep);
    }
    return true;
}

/* Finds the best plan in which a node takes candidate k. If o->stop() ends the search, only bounds the cost of that
 * plan. Folding must have left the node more than one candidate. */
static void
find_one(struct regrets *r, int32_t node, int32_t k)
{
    assert(r->of[node] >= 0);
    int64_t *low = &r->low[node][k], *high = &r->high[node][k], cost = r->solved->cost;
    struct cfn *c = cfn_copy(r->folded.c);
    struct explore s = {.stop = r->o->stop, .arg = r->o->arg, .scale = c->scale, .best = NET_NEVER};
    s.nchoice = c->nvar;
    s.choice = r->value;
    if (*high < NET_NEVER) s.best = (cost + *high) * c->scale;
    int64_t known = s.best, bound = keep_possible(r, c, *high, node, k) ? explore(&s, c) : known;
    cfn_free(&c);
    if (s.best < known) {
        fold_choice(&r->folded, r->value, r->choice);
        regrets_offer(r, r->choice, s.best / s.scale);
    }
    if (bound >= NET_NEVER) *high = NET_NEVER;
    *low = bound >= NET_NEVER ? NET_NEVER : MAX(*low, MIN(*high, limited_ceil(bound, s.scale) - cost));
}

/* ---- bounding the regrets of all candidates at once ---- */

/* Returns the largest upper bound of an open regret, one whose lower bound is less than its upper bound; 0: no
 * regret is open. */
static int64_t
most_open(const struct regrets *r)
{
    int64_t most = 0;
    for (int32_t i = 0; i < r->net->nnode; i++)
        for (int32_t k = 0; k < r->net->node[i].ncand; k++)
            if (r->low[i][k] < r->high[i][k] && r->high[i][k] < NET_NEVER) most = MAX(most, r->high[i][k]);
    return most;
}

/* Sets the upper bound to the lower bound, for all regrets whose lower bound is less than `below`, because these
 * lower bounds are exact. */
static void
close_known(struct regrets *r, int64_t below)
{
    for (int32_t i = 0; i < r->net->nnode; i++)
        for (int32_t k = 0; k < r->net->node[i].ncand; k++)
            if (r->low[i][k] < below) r->high[i][k] = MIN(r->high[i][k], r->low[i][k]);
}

/* Raises the lower bounds of all regrets at once, up to `high`. Returns true if tables fit but some were split, so
 * larger tables may close more regrets. */
static bool
bound_all(struct regrets *r, int64_t high, int64_t largest, int64_t *most)
{
    struct cfn *c = cfn_copy(r->folded.c);
    int64_t **at = must_alloc(sizeof *at * (size_t)(c->nvar + 1));
    struct margin_options o = {.below = (r->solved->cost + high) * c->scale, .largest = largest, .most = *most};
    struct arena tmp = {0};
    bool exact = false, fits = keep_possible(r, c, high, -1, 0);
    for (int32_t v = 0; v < c->nvar; v++) at[v] = ARENA_ARRAY(&tmp, int64_t, c->var[v].n);
    fits = fits && margin_raise(c, &o, at, &exact);
    for (int32_t v = 0; v < c->nvar && fits; v++) {
        const struct cfn_var *x = &c->var[v], *all = &r->folded.c->var[v];
        for (int32_t i = 0, j = 0; i < all->n; i++) {
            bool here = j < x->n && x->value[j] == all->value[i];
            r->least[v][i] = MAX(r->least[v][i], here ? at[v][j] : o.below);
            j += here;
        }
    }
    if (fits) tell_all(r);
    if (fits && exact) close_known(r, high);
    free(at);
    arena_fini(&tmp);
    cfn_free(&c);
    *most = o.most;
    return fits && !exact;
}

/* Bounds small regrets first. For small regrets, fewer values of the network remain, so tables are small and need
 * no splitting. */
static void
bound_rising(struct regrets *r)
{
    enum { FIRST = 2048, SMALL = 1 << 8, LARGE = 1 << 18, ENTRIES = 10000000 };
    int64_t most = most_open(r);
    for (int64_t high = 1 + r->solved->cost / FIRST; most > 0 && !solve_stops(r->o); high *= 2) {
        int64_t entries = ENTRIES;
        for (int64_t size = SMALL; size <= LARGE && !solve_stops(r->o); size *= 4)
            if (!bound_all(r, MIN(high, most), size, &entries)) break;
        if (high >= most) return;
        most = most_open(r);
    }
}

/* ---- computing the exact regret of each candidate whose lower and upper bound differ ---- */

struct open_one {
    int64_t high;
    int32_t node, k;
};

static int
by_high(const void *a, const void *b)
{
    const struct open_one *x = a, *y = b;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return x->node != y->node ? x->node - y->node : x->k - y->k;
}

void
regrets_find(struct regrets *r)
{
    int64_t n = 0, most = 1;
    if (!r->begun) return;
    bound_rising(r);
    for (int32_t i = 0; i < r->net->nnode; i++) most += r->net->node[i].ncand;
    struct open_one *open = must_alloc(sizeof *open * (size_t)most);
    for (int32_t i = 0; i < r->net->nnode; i++)
        for (int32_t k = 0; k < r->net->node[i].ncand; k++)
            if (r->low[i][k] < r->high[i][k]) open[n++] = (struct open_one){r->high[i][k], i, k};
    if (n) qsort(open, (size_t)n, sizeof *open, by_high);
    for (int64_t at = 0; at < n && !solve_stops(r->o); at++) {
        const struct open_one *x = &open[at];
        if (r->low[x->node][x->k] < r->high[x->node][x->k]) find_one(r, x->node, x->k);
    }
    free(open);
}
