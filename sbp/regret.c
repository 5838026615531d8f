/* regret.c - the dual of the whole, and of each candidate what may still be better. */
#include "sbp/regret.h"

#include "sbp/dual.h"
#include "sbp/explore.h"
#include "sbp/limited.h"
#include "sbp/reduce.h"

#include <stdlib.h>
#include <string.h>

enum { SWEEPS = 24, MOST_SWEEPS = 400, PART = 1000 }; /* it goes on while a look gains that part of the gap */

static bool
stops(const struct solve_options *o)
{
    return o->stop && o->stop(o->arg);
}

/* Until that gains little. */
static void
raise(struct dual *d, const struct regrets *r)
{
    int64_t before = -NET_NEVER, cost = r->solved->cost * d->c->scale;
    for (int k = 0; k < MOST_SWEEPS && !stops(r->o); k += SWEEPS) {
        dual_sweep(d, SWEEPS);
        dual_bound(d);
        if (d->bound >= cost || d->bound - before <= (cost - before) / PART) return;
        before = d->bound;
    }
}

static void
take_bounds(struct regrets *r, struct dual *d)
{
    const struct net *n = r->net;
    struct cfn *c = r->base;
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 0; k < n->node[i].ncand; k++) r->low[i][k] = NET_NEVER;
    for (int32_t k = 0; k < d->n; k++) {
        int32_t i = d->order[k];
        const int64_t *at = dual_value_bounds(d, k);
        for (int32_t j = 0; i < n->nnode && j < c->var[i].n; j++)
            r->low[i][c->var[i].value[j]] = MAX(0, limited_ceil(at[j], c->scale) - r->solved->cost);
    }
}

void
regrets_begin(struct regrets *r, const struct net *n, const struct solved *s, const struct solve_options *o,
              int64_t *const *low, int64_t *const *high)
{
    int32_t most = 1;
    *r = (struct regrets){.net = n, .solved = s, .o = o, .low = low, .high = high};
    for (int32_t i = 0; i < n->nnode; i++) {
        memset(low[i], 0, sizeof *low[i] * (size_t)n->node[i].ncand);
        most = MAX(most, n->node[i].ncand);
    }
    if (stops(o)) return;
    struct trail none = {0};
    struct dual d;
    r->choice = must_alloc(sizeof *r->choice * (size_t)MAX(1, n->nnode));
    r->keep = must_alloc((size_t)most);
    r->base = cfn_new(n, cfn_scale(n), NULL);
    r->base->trail = &none;
    cfn_support(r->base);
    dual_begin(&d, r->base);
    raise(&d, r);
    dual_bound(&d);
    take_bounds(r, &d);
    dual_end(&d);
    trail_cut(&none, 0);
    r->base->trail = NULL;
}

void
regrets_end(struct regrets *r)
{
    cfn_free(&r->base);
    free(r->choice);
    free(r->keep);
}

void
regrets_offer(struct regrets *r, const int32_t *choice, int64_t cost)
{
    for (int32_t i = 0; i < r->net->nnode && cost < NET_NEVER; i++) {
        int64_t *high = &r->high[i][choice[i]];
        *high = MIN(*high, MAX(0, cost - r->solved->cost));
    }
}

/* Keeps what plans that cost less than is known of this one may take; false: there is none. */
static bool
keep_possible(struct regrets *r, struct cfn *c, int32_t node, int32_t k)
{
    int64_t high = r->high[node][k];
    for (int32_t i = 0; i < r->net->nnode; i++) {
        struct cfn_var *x = &c->var[i];
        int32_t left = 0, n = x->n;
        for (int32_t j = 0; j < n; j++)
            left += r->keep[j] = i == node ? x->value[j] == k : r->low[i][x->value[j]] < high;
        if (n && !left) return false;
        cfn_keep(c, i, r->keep);
    }
    return true;
}

/* Finds the best plan in which a node takes candidate k, or bounds it when o->stop() ends the search. */
static void
find_one(struct regrets *r, int32_t node, int32_t k)
{
    int64_t *low = &r->low[node][k], *high = &r->high[node][k], cost = r->solved->cost;
    struct cfn *c = cfn_copy(r->base);
    struct explore s = {.stop = r->o->stop, .arg = r->o->arg, .scale = c->scale, .best = NET_NEVER};
    s.nchoice = r->net->nnode;
    s.choice = r->choice;
    if (*high < NET_NEVER) s.best = (cost + *high) * c->scale;
    int64_t known = s.best, bound = keep_possible(r, c, node, k) ? explore(&s, c) : known;
    cfn_free(&c);
    if (s.best < known) regrets_offer(r, r->choice, s.best / s.scale);
    if (bound >= NET_NEVER) *high = NET_NEVER;
    *low = bound >= NET_NEVER ? NET_NEVER : MAX(*low, MIN(*high, limited_ceil(bound, s.scale) - cost));
}

/* ---- all of them ---- */

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
    for (int32_t i = 0; i < r->net->nnode; i++) most += r->net->node[i].ncand;
    struct open_one *open = must_alloc(sizeof *open * (size_t)most);
    for (int32_t i = 0; i < r->net->nnode; i++)
        for (int32_t k = 0; k < r->net->node[i].ncand; k++)
            if (r->low[i][k] < r->high[i][k]) open[n++] = (struct open_one){r->high[i][k], i, k};
    if (n) qsort(open, (size_t)n, sizeof *open, by_high);
    for (int64_t at = 0; at < n && r->base && !stops(r->o); at++)
        if (r->low[open[at].node][open[at].k] < r->high[open[at].node][open[at].k])
            find_one(r, open[at].node, open[at].k);
    free(open);
}
