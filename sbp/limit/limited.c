/* limited.c - search under a memory limit: Lagrangian prices, neighbourhoods, branching. */
#include "sbp/limit/limited.h"

#include "sbp/net/dual.h"
#include "sbp/search/explore.h"
#include "sbp/limit/merge.h"
#include "sbp/limit/nearby.h"
#include "sbp/limit/parts.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

enum {
    IDLE = 60,              /* bounds without gain before branching */
    IDLE_LARGE = 300,       /* the same, for networks that are not branched or while no choice is known */
    BOUNDS = 4000,          /* bounds of a search without stop() */
    BOUNDS_COUNTED = 150,   /* bounds if work is counted */
    ENTRIES = 100000,       /* table entries that these bounds may read, if that allows more of them */
    BLIND = 200,            /* bounds of partitions while no choice is known, as none may exist */
    BLIND_ENTRIES = 400000, /* table entries that these may read, if that allows more of them */
    PATIENCE = 3,           /* bounding rounds without gain, per bound */
    MANY = 1500,            /* a folded network with more variables is large: it is not branched */
    SWEEPS = 6,             /* dual sweeps of a large network at each price */
    GLANCE = 4,             /* bounding rounds of a large network's first bound */
    MOST = 100000000,       /* work on neighbourhoods between two bounds */
    SPAN = 16,              /* searches around a later choice before the next one is taken */
};

struct limited {
    const struct net *whole; /* the net with only the times that matter */
    const struct copies *copies;
    struct merged merged;
    const struct net *net; /* the merged net */
    const struct solve_options *o;
    struct limit limit;
    struct folded folded;
    struct nearby nearby;
    bool is_near;        /* nearby holds a choice */
    struct nearby other; /* large network: search around the choice of a later bound */
    bool is_other;
    int32_t turn;        /* searches of `other` around its choice so far */
    int64_t **ruled_out; /* see parts.h */
    int32_t *value;      /* by folded variable: candidate at the last bound */
    int32_t *choice;     /* the same, as a choice of the merged net */
    int32_t *scratch;
    int32_t *all;  /* a choice of `whole` */
    int64_t *live; /* its live bytes */
    struct best *best;
    int64_t scale, least_peak;
    int32_t budget;      /* bounds left */
    int32_t blind;       /* bounds of partitions left while no choice is known */
    int64_t work;        /* work of the last bound */
    struct cfn *large;   /* large network: the folded network with the last messages */
    int64_t *best_price; /* by time: prices of the best bound */
    int64_t best_bound;  /* scaled */
};

int64_t
limited_ceil(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* Sets `all` to a choice as one of the whole net with the shortest copies, and live and limit.live to its live
 * bytes. Returns the peak. */
static int64_t
live_of(struct limited *m, const int32_t *choice)
{
    merge_choice(&m->merged, choice, m->all);
    if (m->copies) copies_settle(m->copies, m->all);
    int64_t peak = net_live(m->whole, m->all, m->live);
    for (int32_t t = 0; t < m->merged.ntime; t++) m->limit.live[t] = m->live[m->merged.time[t]];
    return peak;
}

/* Records the choice as the best if it meets the limit and costs less. Sets its live bytes. */
static void
limited_offer(struct limited *m, const int32_t *choice)
{
    int64_t peak = live_of(m, choice);
    m->least_peak = MIN(m->least_peak, peak);
    if (peak > MAX(m->o->within, m->net->memory_limit)) return;
    int64_t cost = net_cost(m->whole, m->all);
    if (cost >= m->best->cost) return;
    m->best->cost = cost;
    memcpy(m->best->choice, m->all, sizeof *m->all * (size_t)m->whole->nnode);
}

/* Returns the scaled cost that a better choice must stay below. */
static int64_t
limited_below(const struct limited *m)
{
    return m->best->cost >= NET_NEVER ? NET_NEVER : (m->best->cost - 1) * m->scale + 1;
}

static bool
is_large_net(const struct limited *m)
{
    return m->folded.c->nvar > MANY;
}

static bool
out_of_time(struct limited *m)
{
    return m->budget <= 0 || (m->o->until && work_done() >= m->o->until) || (m->o->stop && m->o->stop(m->o->arg));
}

/* Bounds the network from scratch at the current prices; value receives the minimiser, if one was found. */
static int64_t
bound_anew(struct limited *m, bool *found)
{
    struct cfn *c = fold_priced(&m->folded, m->limit.extra);
    struct explore s = {.stop = m->o->stop, .arg = m->o->arg, .scale = 1, .best = NET_NEVER, .root = true};
    s.patience = PATIENCE;
    if (is_large_net(m)) s.looks = GLANCE;
    s.nchoice = c->nvar;
    s.choice = m->value;
    int64_t bound = explore(&s, c);
    cfn_free(&c);
    m->work = s.work;
    *found = s.best < NET_NEVER;
    return bound;
}

/* Bounds a large network at the current prices by a few sweeps that continue from the last messages. */
static int64_t
bound_onward(struct limited *m, bool *found)
{
    struct dual d;
    fold_reprice(&m->folded, m->limit.extra, m->large);
    dual_begin(&d, m->large);
    dual_sweep(&d, SWEEPS);
    m->work = 2 * SWEEPS * d.entries;
    *found = dual_polish(&d) < NET_NEVER;
    dual_bound(&d);
    for (int32_t v = 0; *found && v < m->large->nvar; v++) m->value[v] = m->large->var[v].value[d.pick[v]];
    int64_t bound = d.bound;
    dual_end(&d);
    return bound;
}

/* Returns the scaled bound at the current prices; choice receives the minimiser. NET_NEVER: no choice is possible. */
static int64_t
limited_bound_now(struct limited *m, bool *found)
{
    int64_t worth = limit_price(&m->limit);
    for (int32_t i = 0; i < m->net->nnode; i++)
        for (int32_t k = 0; k < m->net->node[i].ncand; k++)
            m->limit.extra[i][k] = cost_add(m->limit.extra[i][k], m->ruled_out[i][k]);
    bool onward = is_large_net(m) && m->is_near;
    if (onward && !m->large) m->large = cfn_copy(m->folded.c);
    int64_t bound = onward ? bound_onward(m, found) : bound_anew(m, found);
    m->budget--;
    if (!*found) return bound >= NET_NEVER ? NET_NEVER : bound - worth;
    fold_choice(&m->folded, m->value, m->choice);
    limited_offer(m, m->choice);
    return bound - worth;
}

/* ---- neighbourhoods ---- */

static void
start_near(struct limited *m)
{
    double before = m->nearby.over;
    int64_t cost = m->nearby.cost;
    if (m->is_near && before == 0) return;
    if (!m->is_near) nearby_begin(&m->nearby, &m->folded, &m->limit, m->o);
    if (m->is_near) {
        int32_t *now = must_alloc(sizeof *now * (size_t)(m->folded.c->nvar + 1));
        nearby_get(&m->nearby, now);
        nearby_set(&m->nearby, m->value);
        if (m->nearby.over > before || (m->nearby.over == before && m->nearby.cost >= cost))
            nearby_set(&m->nearby, now);
        free(now);
    } else {
        nearby_set(&m->nearby, m->value);
    }
    m->is_near = true;
}

static bool
look_near(struct limited *m)
{
    int64_t work = is_large_net(m) ? 2 * SWEEPS * cfn_entries(m->folded.c) : m->work;
    if (!nearby_look(&m->nearby, MIN(MOST, m->best->cost < NET_NEVER ? work : 4 * work))) return false;
    nearby_get(&m->nearby, m->value);
    fold_choice(&m->folded, m->value, m->scratch);
    limited_offer(m, m->scratch);
    return true;
}

/* Searches around a later choice. The first choice within the limit came from poor prices, and its neighbourhood
 * stays expensive. So on a large network every other search starts from the choice of a later bound (in value), if
 * this bound is close to the best. The series ends when its choice meets the limit but is expensive, or after SPAN
 * searches. Returns true if it found a better choice. */
static bool
look_other(struct limited *m, int64_t bound)
{
    if (!m->is_other) nearby_begin(&m->other, &m->folded, &m->limit, m->o);
    m->is_other = true;
    if (m->turn == 0) {
        if (bound < m->best_bound - m->best_bound / 50) return look_near(m);
        nearby_set(&m->other, m->value);
    }
    nearby_look(&m->other, MIN(MOST, 2 * SWEEPS * cfn_entries(m->folded.c)));
    bool keeps = m->other.over == 0, better = keeps && m->other.cost < m->nearby.cost;
    bool dear = keeps && m->other.cost - m->nearby.cost > m->nearby.cost / 50;
    m->turn = dear || better ? 0 : (m->turn + 1) % SPAN;
    if (!better) return false;
    nearby_get(&m->other, m->value);
    nearby_set(&m->nearby, m->value);
    fold_choice(&m->folded, m->value, m->scratch);
    limited_offer(m, m->scratch);
    return true;
}

/* ---- prices ---- */

/* Returns the bound to aim at: the best cost or, while no choice is known, somewhat more than the bound. */
static double
goal_of(const struct limited *m, double bound, int64_t peak)
{
    if (m->best->cost < NET_NEVER) return (double)m->best->cost * (double)m->scale;
    return bound + (peak / 2 > m->net->memory_limit ? 0.5 : 0.05) * MAX(bound, (double)m->scale);
}

/* Searches neighbourhoods after prices stall: twice as many searches as prices tried, more after each gain. */
static void
look_on(struct limited *m, int32_t looks)
{
    for (int32_t k = 0, end = 2 * looks; m->is_near && k < end && !out_of_time(m); k++) {
        int64_t was = m->best->cost;
        if (look_near(m) && m->best->cost < was) end = 2 * k + 2 * looks;
    }
}

/* Returns true after enough bounds without gain. */
static bool
is_search_idle(const struct limited *m, int32_t idle)
{
    return idle >= (is_large_net(m) || m->best->cost >= NET_NEVER ? IDLE_LARGE : IDLE);
}

/* Returns the least gain of a bound that counts as progress. */
static int64_t
worth_while(const struct limited *m)
{
    int64_t gap = m->best->cost >= NET_NEVER ? 0 : limited_below(m) - m->best_bound;
    return MAX(MAX(0, m->best_bound / 100000), m->best_bound < 0 ? 0 : gap / 200);
}

/* Raises the bound by subgradient steps until it stalls. If the network can be branched, half of the budget is left
 * for that, because the bound may rise slowly forever. Returns the best bound, scaled. */
static int64_t
limited_raise(struct limited *m)
{
    int32_t tried = 0, left = is_large_net(m) ? 0 : m->budget / 2;
    for (int32_t idle = 0;
         !is_search_idle(m, idle) && m->best_bound < limited_below(m) && m->budget > left && !out_of_time(m);) {
        bool found;
        int64_t bound = limited_bound_now(m, &found), was = m->best->cost;
        tried++;
        if (bound >= NET_NEVER) return NET_NEVER;
        idle = bound > m->best_bound + worth_while(m) ? 0 : idle + 1;
        if (bound > m->best_bound) {
            m->best_bound = bound;
            memcpy(m->best_price, m->limit.price, sizeof *m->best_price * (size_t)m->limit.ntime);
        }
        if (!found) continue;
        int64_t peak = limit_live(&m->limit, m->choice);
        if (peak <= m->net->memory_limit && limit_price(&m->limit) <= 1) break;
        start_near(m);
        bool by_turns = is_large_net(m) && was < NET_NEVER && tried % 2;
        if ((by_turns ? look_other(m, bound) : look_near(m)) && m->best->cost < was) idle = 0;
        peak = live_of(m, m->choice);
        limit_step(&m->limit, (double)bound, goal_of(m, (double)m->best_bound, peak));
    }
    if (is_large_net(m) && m->best->cost < NET_NEVER && m->best_bound < limited_below(m)) look_on(m, tried);
    return m->best_bound;
}

/* ---- branching ---- */

static int64_t
limited_part_bound(void *of, bool *found)
{
    struct limited *m = of;
    int64_t was = m->best->cost, bound = limited_bound_now(m, found);
    if (m->best->cost >= NET_NEVER) m->blind--;
    if (m->best->cost < was && m->is_near) nearby_set(&m->nearby, m->value);
    return bound;
}

static int64_t
limited_part_below(void *of)
{
    return limited_below(of);
}

static double
limited_part_goal(void *of, double bound)
{
    struct limited *m = of;
    return goal_of(m, bound, m->net->memory_limit);
}

static bool
limited_part_stop(void *of)
{
    const struct limited *m = of;
    return (m->best->cost >= NET_NEVER && m->blind <= 0) || out_of_time(of);
}

static void
limited_part_beside(void *of)
{
    struct limited *m = of;
    if (m->is_near) look_near(m);
}

static int64_t
limited_split(struct limited *m)
{
    struct parts p = {.net = m->net, .limit = &m->limit, .ruled_out = m->ruled_out, .choice = m->choice, .of = m};
    p.bound = limited_part_bound;
    p.below = limited_part_below;
    p.goal = limited_part_goal;
    p.stop = limited_part_stop;
    p.beside = limited_part_beside;
    return parts_bound(&p, MAX(0, m->best_bound), m->best_price);
}

/* ---- the whole ---- */

/* Bounds the network at the limit's prices, with a proof that no solution costs less than `below`; stops when that
 * is shown. below NET_NEVER: stops when the bound stalls. */
static int64_t
proven(const struct limit *l, int64_t scale, int64_t below, struct str *text)
{
    struct cfn *c = cfn_new(l->net, scale, (const int64_t *const *)l->extra);
    struct explore s = {.scale = 1, .best = below, .root = true, .patience = PATIENCE, .looks = 100};
    s.nchoice = l->net->nnode;
    s.choice = must_alloc(sizeof *s.choice * (size_t)MAX(1, s.nchoice));
    s.trail.text = text;
    int64_t bound = explore(&s, c);
    free(s.choice);
    cfn_free(&c);
    return bound;
}

static void
limited_begin(struct limited *m, struct arena *tmp)
{
    int32_t n = m->net->nnode;
    limit_begin(&m->limit, m->net);
    m->value = ARENA_ARRAY(tmp, int32_t, m->folded.c->nvar + 1);
    m->choice = ARENA_ARRAY(tmp, int32_t, n + 1);
    m->scratch = ARENA_ARRAY(tmp, int32_t, n + 1);
    m->all = ARENA_ARRAY(tmp, int32_t, m->whole->nnode + 1);
    m->live = ARENA_ARRAY(tmp, int64_t, net_times(m->whole) + 1);
    m->best->choice = ARENA_ARRAY(tmp, int32_t, m->whole->nnode + 1);
    m->best_price = ARENA_ARRAY(tmp, int64_t, m->limit.ntime);
    m->ruled_out = ARENA_ARRAY(tmp, int64_t *, n + 1);
    for (int32_t i = 0; i < n; i++) m->ruled_out[i] = ARENA_ARRAY(tmp, int64_t, m->net->node[i].ncand);
    m->best_bound = -NET_NEVER;
    m->blind = (int32_t)MAX(BLIND, BLIND_ENTRIES / MAX(1, cfn_entries(m->folded.c)));
    m->budget = m->o->stop ? INT32_MAX : BOUNDS;
    if (m->o->until) m->budget = (int32_t)MIN(BOUNDS, MAX(BOUNDS_COUNTED, ENTRIES / MAX(1, cfn_entries(m->folded.c))));
}

static void
limited_end(struct limited *m)
{
    if (m->is_near) nearby_end(&m->nearby);
    if (m->is_other) nearby_end(&m->other);
    limit_end(&m->limit);
    cfn_free(&m->large);
}

/* Returns an unscaled bound on the merged net; m->best receives a better choice, if one was found. */
static int64_t
solve_merged(struct limited *m)
{
    int64_t bound = limited_raise(m), parts = bound;
    if (bound < limited_below(m) && !is_large_net(m)) parts = limited_split(m);
    bound = MAX(bound, parts);
    return bound <= 0 ? 0 : bound >= NET_NEVER ? NET_NEVER : limited_ceil(bound, m->scale);
}

/* Starts neighbourhood search from a choice known to meet the limit. */
static void
begin_near(struct limited *m, const int32_t *choice)
{
    if (!merge_find(&m->merged, choice, m->choice) || !fold_find(&m->folded, m->choice, m->value)) return;
    start_near(m);
}

/* Sets the initial prices. The price of a removed time is added to the next time kept, because bytes live then are
 * live there, too; otherwise the price matters little. */
static void
begin_prices(struct limited *m, const int32_t *time, int32_t ntime, int32_t end, const int64_t *price)
{
    int32_t at = 0;
    for (int32_t t = 0; t < end; t++) {
        while (at + 1 < m->limit.ntime && at + 1 < ntime && time[m->merged.time[at]] < t) at++;
        if (m->limit.ntime) m->limit.price[at] += price[t] * m->scale;
    }
}

/* Writes the prices of the best bound, by time of n. */
static void
tell_prices(const struct limited *m, const struct net *n, const int32_t *time, int64_t *price)
{
    int64_t finer = MAX(1, m->scale / cfn_scale(n));
    memset(price, 0, sizeof *price * (size_t)net_times(n));
    for (int32_t t = 0; t < m->limit.ntime && m->best_bound > -NET_NEVER; t++)
        price[time[m->merged.time[t]]] = m->best_price[t] / finer;
}

void
limited_solve(const struct net *n, const struct copies *copies, const struct solve_options *o, struct best *r,
              const int64_t *price, int64_t *least_peak, int64_t *best_price)
{
    struct arena tmp = {0};
    int32_t *time, ntime;
    struct best best = {.cost = r->cost};
    struct limited m = {.o = o, .best = &best, .copies = copies, .net = &m.merged.net, .least_peak = *least_peak};
    m.whole = limit_times(&tmp, n, &time, &ntime);
    if (merge_begin(&m.merged, m.whole) && fold_begin(&m.folded, m.net, m.scale = cfn_scale(m.net))) {
        limited_begin(&m, &tmp);
        if (price) begin_prices(&m, time, ntime, net_times(n), price);
        if (best.cost < NET_NEVER) begin_near(&m, r->choice);
        int64_t bound = solve_merged(&m);
        r->bound = MAX(r->bound, bound);
        if (best.cost < r->cost) memcpy(r->choice, best.choice, sizeof *r->choice * (size_t)n->nnode);
        r->cost = best.cost;
        tell_prices(&m, n, time, best_price);
        limited_end(&m);
        fold_end(&m.folded);
    }
    merge_end(&m.merged);
    r->bound = MIN(r->bound, r->cost);
    *least_peak = m.least_peak;
    arena_fini(&tmp);
}

int64_t
limited_prove(const struct net *n, int64_t *price, int64_t most, struct str *text)
{
    struct arena tmp = {0};
    struct limit l;
    int32_t *time, ntime;
    limit_begin(&l, limit_times(&tmp, n, &time, &ntime));
    for (int32_t t = 0; t < MIN(ntime, l.ntime); t++) l.price[t] = price[time[t]];
    int64_t scale = cfn_scale(n), worth = limit_price(&l), bound = proven(&l, scale, NET_NEVER, NULL) - worth;
    int64_t certified = bound <= 0 ? 0 : MIN(limited_ceil(bound, scale), most);
    int64_t below = (certified - 1) * scale + 1 + worth;
    if (certified > 0 && proven(&l, scale, below, text) < below) {
        certified = 0;
        str_clear(text);
    }
    for (int32_t t = 0; t < MIN(ntime, l.ntime); t++) price[time[t]] = l.price[t];
    limit_end(&l);
    arena_fini(&tmp);
    return certified;
}
