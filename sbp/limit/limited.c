/* limited.c - bounds under a memory limit: Lagrangian prices of bytes, improved by subgradient steps. */
#include "sbp/limit/limited.h"

#include "sbp/limit/limit.h"
#include "sbp/net/dual.h"
#include "sbp/net/fold.h"
#include "sbp/search/explore.h"

#include <stdlib.h>
#include <string.h>

enum {
    IDLE = 30,    /* number of bounding rounds without gain after which the search ends */
    BOUNDS = 300, /* maximum number of bounding rounds of a search */
    SWEEPS = 6,   /* number of dual sweeps per price vector */
    PATIENCE = 3, /* bounding rounds without gain after which a proof ends */
};

struct limited {
    const struct net *net, *relaxed; /* relaxed: the net without copies, with only the relevant times */
    const struct solve_options *o;
    struct limit limit;
    struct folded folded;
    struct cfn *priced; /* folded network at the current prices, with the messages of the last sweep */
    struct best *best;
    int64_t scale;
    /* solution that the last bounding round found; value: by folded variable; choice: by node */
    int32_t *value, *choice;
    int64_t *best_price; /* by time of `relaxed`: prices of the best bound */
    int64_t best_bound;  /* best bound so far, scaled */
};

int64_t
limited_ceil(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* Keeps the choice that the last bounding round found, if the choice meets the memory limit and costs less than the
 * best choice so far. */
static void
limited_offer(struct limited *m)
{
    int64_t cost = net_cost(m->net, m->choice);
    if (cost >= m->best->cost || net_peak(m->net, m->choice) > m->net->memory_limit) return;
    m->best->cost = cost;
    memcpy(m->best->choice, m->choice, sizeof *m->choice * (size_t)m->net->nnode);
}

/* Returns the scaled bound at the current prices, after a few sweeps that continue from the last messages. */
static int64_t
limited_bound_now(struct limited *m)
{
    struct dual d;
    int64_t worth = limit_price(&m->limit);
    fold_reprice(&m->folded, m->limit.extra, m->priced);
    dual_begin(&d, m->priced);
    dual_sweep(&d, SWEEPS);
    dual_polish(&d);
    dual_bound(&d);
    for (int32_t v = 0; v < m->priced->nvar; v++) m->value[v] = m->priced->var[v].value[d.pick[v]];
    dual_end(&d);
    fold_choice(&m->folded, m->value, m->choice);
    limited_offer(m);
    limit_live(&m->limit, m->choice);
    return d.bound - worth;
}

/* Returns the scaled bound to aim at: the cost of the best choice or, if no choice is known, a little more than the
 * current bound. */
static double
limited_goal(const struct limited *m)
{
    double scale = (double)m->scale, bound = MAX((double)m->best_bound, (double)m->best->bound * scale);
    return m->best->cost < NET_NEVER ? (double)m->best->cost * scale : 1.05 * bound;
}

static bool
limited_stops(const struct limited *m)
{
    bool optimal = m->best->cost < NET_NEVER && m->best_bound > (m->best->cost - 1) * m->scale;
    return optimal || (m->o->stop && m->o->stop(m->o->arg));
}

/* Raises the bound by subgradient steps until it stalls. */
static void
limited_raise(struct limited *m)
{
    for (int32_t k = 0, idle = 0; k < BOUNDS && idle < IDLE && !limited_stops(m); k++) {
        int64_t bound = limited_bound_now(m);
        idle = bound > m->best_bound + m->best_bound / 100000 ? 0 : idle + 1;
        if (bound > m->best_bound) {
            m->best_bound = bound;
            memcpy(m->best_price, m->limit.price, sizeof *m->best_price * (size_t)m->limit.ntime);
        }
        limit_step(&m->limit, (double)bound, limited_goal(m));
    }
}

static void
limited_begin(struct limited *m, struct arena *tmp, const int32_t *time, const int64_t *price)
{
    limit_begin(&m->limit, m->relaxed);
    m->value = ARENA_ARRAY(tmp, int32_t, m->folded.c->nvar + 1);
    m->choice = ARENA_ARRAY(tmp, int32_t, m->net->nnode + 1);
    m->best_price = ARENA_ARRAY(tmp, int64_t, m->limit.ntime);
    m->priced = cfn_copy(m->folded.c);
    for (int32_t t = 0; t < m->limit.ntime; t++) m->limit.price[t] = price[time[t]] * m->scale;
}

void
limited_bound(const struct net *n, const struct solve_options *o, struct best *r, int64_t *price)
{
    struct arena tmp = {0};
    int32_t *time, ntime;
    struct limited m = {.net = n, .o = o, .best = r, .scale = cfn_scale(n)};
    m.relaxed = limit_times(&tmp, n, &time, &ntime);
    if (ntime && fold_begin(&m.folded, m.relaxed, m.scale)) {
        limited_begin(&m, &tmp, time, price);
        limited_raise(&m);
        memset(price, 0, sizeof *price * (size_t)net_times(n));
        for (int32_t t = 0; t < m.limit.ntime; t++) price[time[t]] = m.best_price[t];
        r->bound = MAX(r->bound, limited_ceil(m.best_bound, m.scale));
        cfn_free(&m.priced);
        limit_end(&m.limit);
        fold_end(&m.folded);
    }
    r->bound = MIN(r->bound, r->cost);
    arena_fini(&tmp);
}

/* Returns a lower bound on the cost of all solutions at the current prices. Appends to `text` the steps that prove
 * the bound. Stops when the bound reaches `below` or stalls; below NET_NEVER: only when it stalls. */
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
