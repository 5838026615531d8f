/* solve.c - the solver modes, with and without a memory limit, and regrets. */
#include "sbp/solve/solve.h"

#include "runtime/base/error.h"
#include "sbp/search/along.h"
#include "sbp/search/around.h"
#include "sbp/net/dual.h"
#include "sbp/search/explore.h"
#include "sbp/limit/limit.h"
#include "sbp/limit/limited.h"
#include "sbp/search/local.h"
#include "sbp/solve/regret.h"
#include "sbp/limit/squeeze.h"
#include "sbp/search/ties.h"

#include <string.h>

enum {
    /* maximum number of bounding rounds of the search that ignores the memory limit; few, because the choice that it
     * finds may exceed the limit */
    GLANCE = 4,
    /* maximum number of nodes; a larger net is only bounded before the limit is checked, because a search takes too
     * long */
    LARGE = 20000,
};

/* ---- solving a net without a memory limit ---- */

bool
solve_stops(const struct solve_options *o)
{
    return o->stop && o->stop(o->arg);
}

/* Returns the sum of the nodes' least costs: a lower bound, as if all conversions were free. */
static int64_t
work_alone(const struct net *n)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < n->nnode; i++) {
        int64_t least = NET_NEVER;
        for (int32_t k = 0; k < n->node[i].ncand; k++) least = MIN(least, n->node[i].cost[k]);
        sum = MIN(NET_NEVER, sum + least);
    }
    return sum;
}

/* Solves n without the memory limit, starting from the choice in r, if any. root: only bounds. looks: as in
 * explore.h. */
static void
solve_free(const struct net *n, const struct solve_options *o, bool root, int32_t looks, struct str *proof,
           struct best *r)
{
    struct explore s = {.stop = o->stop, .arg = o->arg, .scale = cfn_scale(n), .best = NET_NEVER, .root = root};
    s.nchoice = n->nnode;
    s.choice = r->choice;
    s.looks = looks;
    s.trail.text = proof;
    struct around near = {.net = n};
    if (!root && r->cost < NET_NEVER) along_axes(n, s.scale, o->stop, o->arg, o->other, r->choice, &r->cost);
    if (r->cost < NET_NEVER && solve_stops(o)) { /* no time is left for the complete network */
        r->bound = MIN(r->cost, work_alone(n));
        return;
    }
    if (!root) around_ask(&near, &s);
    if (r->cost < NET_NEVER) s.best = r->cost * s.scale;
    struct cfn *c = cfn_new(n, s.scale, NULL);
    int64_t bound = explore(&s, c);
    cfn_free(&c);
    around_end(&near);
    r->bound = bound >= NET_NEVER ? NET_NEVER : MAX(limited_ceil(bound, s.scale), work_alone(n));
    if (s.best < NET_NEVER) r->cost = s.best / s.scale;
}

/* ---- solving a net in any mode ---- */

/* Applies a rule, and keeps its choice if that costs less than the choice in r. */
static void
by_rule(const struct net *n, enum solve_mode mode, const int32_t *start, struct best *r)
{
    struct local l;
    local_begin(&l, n, mode == SOLVE_GREEDY ? start : NULL);
    if (mode == SOLVE_GREEDY) choose_possible(&l);
    if (mode == SOLVE_PROPAGATE) choose_outward(&l, start);
    if (mode == SOLVE_RECURSIVE) choose_by_levels(&l, start);
    int64_t cost = net_cost(n, l.choice);
    if (cost < r->cost) {
        r->cost = cost;
        memcpy(r->choice, l.choice, sizeof *r->choice * (size_t)n->nnode);
    }
    local_end(&l);
}

/* Applies the rules. SOLVE_OPTIMAL starts from the best result of all rules. Any other mode applies the rule of that
 * mode or, if that rule finds no choice, the first rule that finds one. */
static void
by_rules(const struct net *n, const struct solve_options *o, struct best *r)
{
    bool optimal = o->mode == SOLVE_OPTIMAL;
    if (!optimal && (o->mode != SOLVE_GREEDY || o->start)) by_rule(n, o->mode, o->start, r);
    for (int mode = 0; mode < SOLVE_OPTIMAL && o->start; mode++)
        if (optimal || r->cost >= NET_NEVER) by_rule(n, (enum solve_mode)mode, o->start, r);
}

/* Fails because no choice within the limit was found. The text reports the least peak known, and a lower bound on
 * every peak. */
static int
nothing_meets(const struct net *n, int64_t least_peak, int64_t floor)
{
    const char *s = n->memory_limit == 1 ? "" : "s";
    if (floor >= least_peak)
        return fail(E_PLAN, "memory: no plan fits in %lld byte%s per device; the least possible is %lld",
                    (long long)n->memory_limit, s, (long long)least_peak);
    return fail(
        E_PLAN,
        "memory: no plan %sfits in %lld byte%s per device; none needs less than %lld, and the least found is %lld",
        floor > n->memory_limit ? "" : "found ", (long long)n->memory_limit, s, (long long)floor,
        (long long)least_peak);
}

/* Solves without the limit, in a few bounding rounds. Returns true if more rounds would not help: the choice exceeds
 * the limit, or no choice is possible. */
static bool
ends_at_once(const struct net *n, const struct solve_options *o, struct best *r)
{
    solve_free(n, o, n->nnode > LARGE, GLANCE, NULL, r);
    if (r->cost >= NET_NEVER) return r->bound >= NET_NEVER; /* NET_NEVER is proved if a few rounds suffice */
    return net_peak(n, r->choice) > n->memory_limit;
}

/* Searches for the least peak as if no choice were within the limit, so that the result does not depend on the
 * limit. Returns true, with that choice in r, if it is within the limit. */
static bool
find_lowest(struct arena *a, const struct net *n, const struct solve_options *o, const int32_t *start, struct best *r,
            struct lowest *lowest)
{
    struct net least = *n;
    least.memory_limit = 1;
    squeeze(&least, o, start, r, ARENA_ARRAY(a, int64_t, net_times(n) + 1), lowest);
    if (lowest->peak > n->memory_limit) return false;
    r->cost = net_cost(n, lowest->choice);
    memcpy(r->choice, lowest->choice, sizeof *r->choice * (size_t)n->nnode);
    return true;
}

/* Solves within the limit. r: in: the best choice without the limit; out: the best choice within it. */
static void
solve_limited(struct arena *a, const struct net *n, const struct solve_options *o, struct best *r,
              struct lowest *lowest, struct solved *out)
{
    const int32_t *start = arena_dup(a, r->choice, sizeof *start * (size_t)n->nnode);
    out->price = ARENA_ARRAY(a, int64_t, net_times(n) + 1);
    str_clear(&out->proof);
    out->owed = o->proof;
    out->certified = 0;
    r->cost = NET_NEVER;
    if (o->quick && !find_lowest(a, n, o, start, r, lowest)) return;
    squeeze(n, o, start, r, out->price, lowest);
    if (!o->quick && !solve_stops(o)) limited_bound(n, o, r, out->price);
}

static struct best
copy_best(struct arena *a, const struct net *n, const struct best *r)
{
    struct best to = *r;
    to.choice = arena_dup(a, r->choice, sizeof *r->choice * (size_t)MAX(1, n->nnode));
    return to;
}

/* Finds a choice according to the mode, and stores it in *r. lowest: receives the choice with the least peak found. */
static void
find_choice(struct arena *a, const struct net *n, const struct solve_options *o, struct best *r, struct lowest *lowest,
            struct solved *out)
{
    bool optimal = o->mode == SOLVE_OPTIMAL, over = false;
    by_rules(n, o, r);
    bool root = !optimal && r->cost < NET_NEVER; /* a choice is known, so only its bound is missing */
    struct best all = copy_best(a, n, r);
    if (n->memory_limit && optimal) over = ends_at_once(n, o, &all);
    bool closed = n->memory_limit && optimal && all.cost == all.bound && !o->proof;
    bool enough = o->quick && n->memory_limit && all.cost < NET_NEVER;
    if (!over && !closed && !enough) solve_free(n, o, root, 0, o->proof ? &out->proof : NULL, &all);
    if (all.cost < NET_NEVER) *lowest = (struct lowest){net_peak(n, all.choice), copy_best(a, n, &all).choice};
    out->certified = all.bound;
    if (n->memory_limit && all.cost < NET_NEVER && (root ? net_peak(n, r->choice) : lowest->peak) > n->memory_limit)
        solve_limited(a, n, o, &all, lowest, out);
    if (!root || (n->memory_limit && net_peak(n, r->choice) > n->memory_limit)) *r = all;
    r->bound = MIN(all.bound, r->cost);
}

static int
solve_all(struct arena *a, const struct net *n, const struct solve_options *o, struct solved *out)
{
    struct best r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(a, int32_t, MAX(1, n->nnode))};
    struct lowest lowest = {.peak = INT64_MAX};
    find_choice(a, n, o, &r, &lowest, out);
    if (r.cost >= NET_NEVER && n->memory_limit && lowest.peak < INT64_MAX) {
        out->floor = limit_least_peak(n);
        out->peak = lowest.peak;
        return nothing_meets(n, lowest.peak, out->floor);
    }
    if (r.cost >= NET_NEVER)
        return fail(E_PLAN, r.bound >= NET_NEVER ? "planner: no choice of layouts is possible"
                                                 : "planner: no choice of layouts was found before the time limit");
    out->choice = r.choice;
    out->net = n;
    out->cost = r.cost;
    out->bound = r.bound;
    out->certified = MIN(out->certified, out->bound);
    out->scale = cfn_scale(n);
    out->ntime = net_times(n);
    return 0;
}

/* Replaces the choice by a choice with the same cost that sends fewer bytes, if there is one. */
static void
settle_ties(struct arena *a, const struct net *n, const struct solve_options *o, struct solved *out)
{
    int32_t *choice = arena_dup(a, out->choice, sizeof *choice * (size_t)MAX(1, n->nnode));
    if (!ties_break(n, o->stop, o->arg, choice)) return;
    int64_t cost = net_cost(n, choice);
    if (cost > out->cost) return;
    out->choice = choice;
    out->cost = cost;
}

int
net_solve(struct arena *a, const struct net *n, const struct solve_options *o, struct solved *out)
{
    *out = (struct solved){0};
    TRY(net_check(n));
    if (o->mode == SOLVE_GREEDY && !o->start) return fail(E_PLAN, "cost network: greedy needs a choice to start from");
    TRY(solve_all(a, n, o, out));
    if (o->mode == SOLVE_OPTIMAL) settle_ties(a, n, o, out);
    out->peak = net_peak(n, out->choice);
    return 0;
}

void
net_prove(struct arena *a, struct solved *s)
{
    int64_t *price[] = {s->price, ARENA_ARRAY(a, int64_t, s->ntime + 1)};
    for (int k = 0; k < 2 && s->owed; k++) { /* if the first pass proves nothing, the second pass uses prices of 0 */
        s->certified = limited_prove(s->net, price[k], s->bound, &s->proof);
        s->price = price[k];
        s->owed = s->certified == 0;
    }
    s->owed = false;
}

/* ---- computing the regrets ---- */

/* Builds a plan in which the node takes candidate k and the nodes around it adapt. Returns the plan's cost; l holds
 * the plan. */
static int64_t
plan_with(struct local *l, const struct solved *s, int32_t node, int32_t k)
{
    memcpy(l->choice, s->choice, sizeof *l->choice * (size_t)l->net->nnode);
    l->choice[node] = k;
    choose_around(l, node);
    return net_cost(l->net, l->choice);
}

/* Computes a lower bound on the best plan within the limit in which the node takes candidate k. */
static void
regret_limited(const struct net *n, const struct solved *s, int32_t node, int32_t k, const struct solve_options *o,
               int64_t *low, int64_t *high)
{
    struct net forced = *n;
    struct arena tmp = {0};
    forced.node = arena_dup(&tmp, n->node, sizeof *n->node * (size_t)n->nnode);
    int64_t *cost = ARENA_ARRAY(&tmp, int64_t, n->node[node].ncand);
    for (int32_t i = 0; i < n->node[node].ncand; i++) cost[i] = i == k ? n->node[node].cost[i] : NET_NEVER;
    forced.node[node].cost = cost;
    struct best r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(&tmp, int32_t, MAX(1, n->nnode))};
    struct lowest lowest = {INT64_MAX, ARENA_ARRAY(&tmp, int32_t, MAX(1, n->nnode))};
    struct solved within = {0};
    solve_free(&forced, o, false, 0, NULL, &r);
    if (r.cost < NET_NEVER && net_peak(n, r.choice) > n->memory_limit)
        solve_limited(&tmp, &forced, o, &r, &lowest, &within);
    *low = r.bound >= NET_NEVER ? NET_NEVER : MAX(*low, r.bound - s->cost);
    *high = r.cost >= NET_NEVER ? NET_NEVER : MIN(*high, MAX(0, r.cost - s->cost));
    arena_fini(&tmp);
}

/* Returns the cost of the choice in l with only this node changed; NET_NEVER: impossible. */
static int64_t
cost_alone(struct local *l, const struct solved *s, int32_t node, int32_t k)
{
    int64_t now = local_cost(l, node, s->choice[node], NET_NEVER);
    int64_t then = local_cost(l, node, k, NET_NEVER);
    return then >= NET_NEVER ? NET_NEVER : s->cost - now + then;
}

int
net_regret(const struct net *n, const struct solved *s, bool (*stop)(void *arg), void *arg, int64_t *const *low,
           int64_t *const *high)
{
    /* maximum number of candidates x nodes, which takes a small fraction of a second */
    enum { MOST_WORK = 4000000 };
    struct solve_options o = {.mode = SOLVE_OPTIMAL, .stop = stop, .arg = arg};
    struct local l;
    struct regrets r;
    int64_t work = 0;
    regrets_begin(&r, n, s, &o, low, high);
    local_begin(&l, n, s->choice);
    for (int32_t i = 0; i < n->nnode; i++) work += (int64_t)n->node[i].ncand * n->nnode;
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 0; k < n->node[i].ncand; k++) high[i][k] = NET_NEVER;
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 0; k < n->node[i].ncand; k++) {
            bool near = work <= MOST_WORK && !n->memory_limit;
            int64_t cost = near ? plan_with(&l, s, i, k) : n->memory_limit ? NET_NEVER : cost_alone(&l, s, i, k);
            if (near) regrets_offer(&r, l.choice, cost);
            if (cost < NET_NEVER) high[i][k] = MIN(high[i][k], MAX(0, cost - s->cost));
            if (k == s->choice[i]) low[i][k] = high[i][k] = 0;
            if (n->node[i].cost[k] >= NET_NEVER) low[i][k] = high[i][k] = NET_NEVER;
        }
    if (!n->memory_limit) regrets_find(&r);
    for (int32_t i = 0; i < n->nnode && n->memory_limit; i++)
        for (int32_t k = 0; k < n->node[i].ncand && !solve_stops(&o); k++)
            if (low[i][k] < high[i][k]) regret_limited(n, s, i, k, &o, &low[i][k], &high[i][k]);
    local_end(&l);
    regrets_end(&r);
    return 0;
}
