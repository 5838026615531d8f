/* solve.c - reduce, bound, prune, branch. */
#include "sbp/solve.h"

#include "runtime/error.h"
#include "sbp/dual.h"
#include "sbp/reduce.h"
#include "sbp/limit.h"
#include "sbp/local.h"
#include "sbp/trail.h"

#include <stdlib.h>
#include <string.h>

enum {
    SWEEPS = 4,   /* between two looks at the bound */
    PATIENCE = 6, /* looks without much gain before branching */
    DOMAIN = 64,  /* variables of at most so many values are searched for beaten ones */
};

/* ---- one search ---- */

struct search {
    const struct net *net;
    const struct solve_options *o;
    struct trail trail;
    int32_t *value; /* by variable: scratch */
    int32_t nvar;
    int64_t scale, best; /* cost of the best choice, scaled; NET_NEVER: none yet */
    int32_t *choice;     /* that choice */
    const int64_t *const *extra;
    bool root; /* bound it and no more: no branching */
    bool stopped;
};

static bool
stops(struct search *s)
{
    if (!s->stopped && s->o->stop) s->stopped = s->o->stop(s->o->arg);
    return s->stopped;
}

/* Better solutions cost less than this: true costs are integers. With prices of memory they are not. */
static int64_t
below(const struct search *s)
{
    return s->best >= NET_NEVER ? NET_NEVER : s->extra ? s->best : s->best - s->scale + 1;
}

/* What a solution of the reduced network is for the net. */
static void
found(struct search *s, const struct cfn *c, const int32_t *pick, int64_t cost)
{
    if (cost >= s->best) return;
    for (int32_t v = 0; v < c->nvar; v++)
        if (c->var[v].n) s->value[v] = c->var[v].value[pick[v]];
    trail_restore(&s->trail, s->value);
    memcpy(s->choice, s->value, sizeof *s->choice * (size_t)s->net->nnode);
    s->best = cost;
}

static int32_t
left(const struct cfn *c)
{
    int32_t n = 0;
    for (int32_t v = 0; v < c->nvar; v++) n += c->var[v].n > 0;
    return n;
}

enum outcome { CLOSED, SMALLER, STUCK };

/* Sweeps until the network is closed, has become smaller, or the bound no longer rises. *bound: the highest. */
static enum outcome
tighten(struct search *s, struct cfn *c, int64_t *bound)
{
    struct dual d;
    int64_t before = -NET_NEVER;
    enum outcome is = STUCK;
    dual_begin(&d, c);
    for (int idle = 0; idle < PATIENCE && is == STUCK && !stops(s);) {
        for (int i = 0; i < SWEEPS; i++) dual_sweep(&d);
        found(s, c, d.pick, dual_polish(&d));
        dual_bound(&d);
        *bound = MAX(*bound, d.bound);
        if (d.bound >= below(s)) is = CLOSED;
        int64_t gap = s->best - d.bound;
        idle = d.bound - before > gap / 64 ? 0 : idle + 1;
        before = MAX(before, d.bound);
    }
    int64_t gone;
    if (!dual_prune(&d, below(s), &gone))
        is = CLOSED;
    else if (gone > 0)
        is = SMALLER;
    dual_end(&d);
    return is;
}

/* The variable whose second best value costs most, weighed by how many edges it decides. */
static int32_t
branch_variable(struct cfn *c, int32_t *order, int32_t *n)
{
    struct dual d;
    int32_t best = -1;
    double most = -1;
    dual_begin(&d, c);
    dual_bound(&d);
    for (int32_t k = 0; k < d.n; k++) {
        int32_t v = d.order[k];
        int64_t first = INT64_MAX, second = INT64_MAX;
        for (int32_t i = 0; i < c->var[v].n; i++) {
            int64_t at = dual_value_bound(&d, v, i);
            second = at < first ? first : MIN(second, at);
            first = MIN(first, at);
        }
        double gain = ((double)(second - first) + 1) * (c->var[v].nedge + 1) / c->var[v].n;
        if (gain <= most) continue;
        most = gain;
        best = v;
    }
    *n = c->var[best].n;
    for (int32_t i = 0; i < *n; i++) { /* insertion by bound */
        int64_t at = dual_value_bound(&d, best, i);
        int32_t k = i;
        for (; k > 0 && dual_value_bound(&d, best, order[k - 1]) > at; k--) order[k] = order[k - 1];
        order[k] = i;
    }
    dual_end(&d);
    return best;
}

static bool explore(struct search *s, struct cfn *c, int64_t *bound);

/* Each value of one variable by itself. True when all of them are closed. */
static bool
branch(struct search *s, struct cfn *c)
{
    int32_t *order = must_alloc(sizeof *order * UINT16_MAX), n, gone = s->trail.ngone;
    int32_t v = branch_variable(c, order, &n);
    bool closed = true;
    trail_say(&s->trail, "split %d\n", (int)v);
    for (int32_t k = 0; k < n && closed; k++) {
        struct cfn *one = cfn_copy(c);
        uint8_t *keep = must_alloc((size_t)n);
        int64_t bound = 0;
        keep[order[k]] = 1;
        trail_say(&s->trail, "case %d\n", (int)c->var[v].value[order[k]]);
        cfn_keep(one, v, keep);
        closed = explore(s, one, &bound);
        trail_say(&s->trail, "end\n");
        trail_cut(&s->trail, gone);
        cfn_free(&one);
        free(keep);
    }
    free(order);
    return closed;
}

/* True when it has no solution better than the best known one. bound: of this network alone. */
static bool
explore(struct search *s, struct cfn *c, int64_t *bound)
{
    for (bool first = true;; first = false) {
        if (!cfn_reduce(c)) return true;
        if (first && cfn_dominate(c, DOMAIN)) continue;
        if (left(c) == 0) {
            found(s, c, NULL, c->constant);
            *bound = MAX(*bound, c->constant);
            return true;
        }
        enum outcome is = tighten(s, c, bound);
        if (is == CLOSED) return true;
        if (stops(s)) return false;
        if (is == STUCK) break;
    }
    if (s->root) return false;
    size_t len = s->trail.text ? s->trail.text->len : 0;
    bool closed = branch(s, c);
    if (!closed && s->trail.text) { /* an unfinished split proves nothing */
        s->trail.text->len = len;
        s->trail.text->text[len] = 0;
    }
    return closed;
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* Bounds the net, with these costs beside its own, from the best choice known (NET_NEVER: none) on. Returns the bound,
 * scaled; choice and best take what was found. */
static int64_t
search(struct search *s)
{
    struct cfn *c = cfn_new(s->net, s->scale, s->extra);
    int64_t bound = 0;
    c->trail = &s->trail;
    s->value = must_alloc(sizeof *s->value * (size_t)MAX(1, c->nvar));
    bool closed = explore(s, c, &bound);
    trail_cut(&s->trail, 0);
    cfn_free(&c);
    free(s->value);
    return closed || bound > s->best ? s->best : bound;
}

/* ---- without a memory limit ---- */

struct result { /* of a whole search: choice is net->nnode long, valid when cost < NET_NEVER */
    int32_t *choice;
    int64_t cost, bound;
};

static void
solve_free(const struct net *n, const struct solve_options *o, bool root, struct str *proof, struct result *r)
{
    struct search s = {.net = n, .o = o, .best = NET_NEVER, .scale = cfn_scale(n), .choice = r->choice, .root = root};
    s.trail.text = proof;
    if (r->cost < NET_NEVER) s.best = r->cost * s.scale;
    int64_t bound = search(&s);
    r->bound = bound >= NET_NEVER ? NET_NEVER : ceil_div(bound, s.scale);
    if (s.best < NET_NEVER) r->cost = s.best / s.scale;
}

/* ---- with one ---- */

/* A node of the search under a limit: some candidates are ruled out by NET_NEVER in limit->extra. */
struct limited {
    const struct net *net;
    const struct solve_options *o;
    struct limit limit;
    int64_t **ruled_out; /* by node, by candidate: NET_NEVER or 0 */
    int32_t *choice;     /* of the last bound */
    struct result *best;
    int64_t scale, least_peak;
    int32_t budget;      /* bounds that may still be asked */
    int64_t *best_price; /* by time: those of the best bound */
    int64_t best_bound;  /* scaled */
};

/* A choice that meets the limit and costs less becomes the best. */
static void
offer(struct limited *m, const int32_t *choice)
{
    int64_t peak = limit_live(&m->limit, choice);
    m->least_peak = MIN(m->least_peak, peak);
    if (peak > m->net->memory_limit) return;
    int64_t cost = net_cost(m->net, choice);
    if (cost >= m->best->cost) return;
    m->best->cost = cost;
    memcpy(m->best->choice, choice, sizeof *choice * (size_t)m->net->nnode);
}

static void
repair(struct limited *m)
{
    struct local l;
    local_begin(&l, m->net, m->choice);
    if (limit_repair(&m->limit, &l)) offer(m, l.choice);
    m->least_peak = MIN(m->least_peak, limit_live(&m->limit, l.choice));
    local_end(&l);
}

/* A bound for the present prices, scaled; choice is what reached it. NET_NEVER: nothing is possible. */
static int64_t
limited_bound(struct limited *m)
{
    int64_t worth = limit_price(&m->limit);
    for (int32_t i = 0; i < m->net->nnode; i++)
        for (int32_t k = 0; k < m->net->node[i].ncand; k++)
            m->limit.extra[i][k] = cost_add(m->limit.extra[i][k], m->ruled_out[i][k]);
    struct search s = {
        .net = m->net, .o = m->o, .best = NET_NEVER, .scale = m->scale, .choice = m->choice, .root = true};
    s.extra = (const int64_t *const *)m->limit.extra;
    int64_t bound = search(&s);
    m->budget--;
    if (s.best >= NET_NEVER) return bound >= NET_NEVER ? NET_NEVER : bound - worth;
    offer(m, m->choice);
    limit_live(&m->limit, m->choice);
    return bound - worth;
}

static bool
out_of_time(struct limited *m)
{
    return m->budget <= 0 || (m->o->stop && m->o->stop(m->o->arg));
}

/* Prices rise and fall until the bound no longer does. Returns the best bound in units of the net. */
static int64_t
raise(struct limited *m, int32_t rounds)
{
    int64_t most = -NET_NEVER;
    double pace = 1;
    for (int32_t k = 0, idle = 0; k < rounds && !out_of_time(m); k++) {
        int64_t bound = limited_bound(m);
        if (bound >= NET_NEVER) return NET_NEVER;
        idle = bound > most ? 0 : idle + 1;
        most = MAX(most, bound);
        if (bound > m->best_bound && m->best_price) {
            m->best_bound = bound;
            memcpy(m->best_price, m->limit.price, sizeof *m->best_price * (size_t)m->limit.ntime);
        }
        if (m->best->cost < NET_NEVER && ceil_div(most, m->scale) >= m->best->cost) break;
        if (limit_live(&m->limit, m->choice) <= m->net->memory_limit && limit_price(&m->limit) <= 1) break;
        if (k % 4 == 0) repair(m);
        limit_live(&m->limit, m->choice);
        if (idle >= 5) pace /= 2, idle = 0;
        double goal = m->best->cost < NET_NEVER ? (double)m->best->cost * (double)m->scale
                                                : (double)bound + 0.05 * (double)MAX(bound, m->scale);
        limit_step(&m->limit, (double)bound, goal, pace);
    }
    return most <= -NET_NEVER ? 0 : most <= 0 ? 0 : ceil_div(most, m->scale);
}

/* The node that weighs most in the time that is fullest, and is not decided yet. */
static int32_t
heaviest(struct limited *m)
{
    int32_t best = -1;
    int64_t most = -1;
    for (int32_t i = 0; i < m->net->nnode; i++) {
        int64_t low = INT64_MAX, high = -1;
        for (int32_t k = 0; k < m->net->node[i].ncand; k++) {
            if (m->ruled_out[i][k] || m->net->node[i].cost[k] >= NET_NEVER) continue;
            low = MIN(low, m->limit.extra[i][k]);
            high = MAX(high, m->limit.extra[i][k]);
        }
        if (high < 0) continue;
        int32_t open = 0;
        for (int32_t k = 0; k < m->net->node[i].ncand; k++)
            open += !m->ruled_out[i][k] && m->net->node[i].cost[k] < NET_NEVER;
        if (open < 2 || high - low <= most) continue;
        most = high - low;
        best = i;
    }
    return best;
}

/* True when nothing better than the best is in what is not ruled out. */
static bool
limited_branch(struct limited *m, int32_t rounds)
{
    int64_t bound = raise(m, rounds);
    if (bound >= m->best->cost) return true;
    if (out_of_time(m)) return false;
    int32_t v = heaviest(m), n = v < 0 ? 0 : m->net->node[v].ncand;
    if (v < 0) { /* all is decided: the choice is what it is */
        offer(m, m->choice);
        return true;
    }
    bool closed = true;
    int64_t *was = must_alloc(sizeof *was * (size_t)n);
    memcpy(was, m->ruled_out[v], sizeof *was * (size_t)n);
    for (int32_t k = 0; k < n && closed; k++) {
        if (was[k] || m->net->node[v].cost[k] >= NET_NEVER) continue;
        for (int32_t i = 0; i < n; i++) m->ruled_out[v][i] = i == k ? 0 : NET_NEVER;
        closed = limited_branch(m, 6);
    }
    memcpy(m->ruled_out[v], was, sizeof *was * (size_t)n);
    free(was);
    return closed;
}

enum { LIMIT_ROUNDS = 120, LIMIT_NODES = 4000 };

/* The proof of the best bound, at its prices. */
static void
limited_proof(struct limited *m, struct solved *out)
{
    memcpy(m->limit.price, m->best_price, sizeof *m->best_price * (size_t)m->limit.ntime);
    int64_t worth = limit_price(&m->limit);
    struct search s = {
        .net = m->net, .o = m->o, .best = NET_NEVER, .scale = m->scale, .choice = m->choice, .root = true};
    s.extra = (const int64_t *const *)m->limit.extra;
    s.trail.text = &out->proof;
    str_clear(&out->proof);
    int64_t bound = search(&s) - worth;
    out->certified = bound <= 0 ? 0 : MIN(ceil_div(bound, m->scale), m->best->cost);
    out->price = m->best_price;
}

/* From a solution without the limit (r) to one with it. proof: NULL, or takes the proof; prices are in a. */
static void
solve_limited(struct arena *a, const struct net *n, const struct solve_options *o, struct result *r,
              int64_t *least_peak, struct solved *proof)
{
    struct limited m = {.net = n, .o = o, .best = r, .scale = cfn_scale(n), .least_peak = INT64_MAX};
    struct arena tmp = {0};
    int64_t lower = r->bound;
    limit_begin(&m.limit, n);
    m.choice = arena_dup(&tmp, r->choice, sizeof *m.choice * (size_t)MAX(1, n->nnode));
    m.ruled_out = ARENA_ARRAY(&tmp, int64_t *, MAX(1, n->nnode));
    for (int32_t i = 0; i < n->nnode; i++) m.ruled_out[i] = ARENA_ARRAY(&tmp, int64_t, n->node[i].ncand);
    r->cost = NET_NEVER;
    if (o->start && net_cost(n, o->start) < NET_NEVER) offer(&m, o->start);
    m.budget = LIMIT_ROUNDS;
    m.best_bound = -NET_NEVER;
    if (proof) m.best_price = ARENA_ARRAY(a, int64_t, m.limit.ntime);
    int64_t raised = raise(&m, LIMIT_ROUNDS);
    lower = MAX(lower, raised);
    m.budget = n->nnode <= 64 ? LIMIT_NODES : 0;
    if (lower < r->cost && limited_branch(&m, 6)) lower = r->cost;
    r->bound = MIN(lower, r->cost);
    *least_peak = m.least_peak;
    if (proof && m.best_bound > -NET_NEVER) limited_proof(&m, proof);
    limit_end(&m.limit);
    arena_fini(&tmp);
}

/* ---- all modes ---- */

static void
by_rule(const struct net *n, const struct solve_options *o, struct result *r)
{
    struct local l;
    local_begin(&l, n, o->mode == SOLVE_GREEDY ? o->start : NULL);
    if (o->mode == SOLVE_PROPAGATE) choose_outward(&l, o->start);
    if (o->mode == SOLVE_RECURSIVE) choose_by_levels(&l, o->start);
    r->cost = net_cost(n, l.choice);
    if (r->cost < NET_NEVER) memcpy(r->choice, l.choice, sizeof *r->choice * (size_t)n->nnode);
    local_end(&l);
}

static int
nothing_meets(const struct net *n, int64_t least_peak)
{
    return fail(E_PLAN, "memory: no plan found keeps within %lld bytes a device; the least possible found is %lld",
                (long long)n->memory_limit, (long long)least_peak);
}

int
net_solve(struct arena *a, const struct net *n, const struct solve_options *o, struct solved *out)
{
    struct result r = {.cost = NET_NEVER};
    *out = (struct solved){0};
    TRY(net_check(n));
    if (o->mode == SOLVE_GREEDY && !o->start) return fail(E_PLAN, "cost network: greedy needs a choice to start from");
    r.choice = ARENA_ARRAY(a, int32_t, MAX(1, n->nnode));
    bool optimal = o->mode == SOLVE_OPTIMAL;
    if (!optimal || o->start)
        by_rule(n, &(struct solve_options){.mode = optimal ? SOLVE_GREEDY : o->mode, .start = o->start}, &r);
    struct result all = r;
    all.choice = ARENA_ARRAY(a, int32_t, MAX(1, n->nnode));
    memcpy(all.choice, r.choice, sizeof *r.choice * (size_t)n->nnode);
    solve_free(n, o, !optimal, o->proof ? &out->proof : NULL, &all);
    int64_t least_peak = all.cost < NET_NEVER ? net_peak(n, all.choice) : INT64_MAX;
    out->certified = all.bound;
    if (n->memory_limit && all.cost < NET_NEVER && (optimal ? least_peak : net_peak(n, r.choice)) > n->memory_limit)
        solve_limited(a, n, o, &all, &least_peak, o->proof ? out : NULL);
    if (optimal || (n->memory_limit && net_peak(n, r.choice) > n->memory_limit)) r = all;
    r.bound = MIN(all.bound, r.cost);
    if (r.cost >= NET_NEVER && n->memory_limit && least_peak < INT64_MAX) return nothing_meets(n, least_peak);
    if (r.cost >= NET_NEVER) return fail(E_PLAN, "cost network: no choice is possible");
    out->choice = r.choice;
    out->cost = r.cost;
    out->bound = r.bound;
    out->peak = net_peak(n, r.choice);
    out->certified = MIN(out->certified, out->bound);
    out->scale = cfn_scale(n);
    out->ntime = net_times(n);
    return 0;
}

/* ---- regret ---- */

/* What a bound says of every candidate, on the whole network. */
static void
regret_low(const struct net *n, const struct solved *s, int64_t *const *low)
{
    enum { LOOKS = 6 };
    struct cfn *c = cfn_new(n, cfn_scale(n), NULL);
    struct trail none = {0};
    struct dual d;
    c->trail = &none;
    cfn_support(c);
    dual_begin(&d, c);
    for (int k = 0; k < LOOKS * SWEEPS; k++) dual_sweep(&d);
    dual_bound(&d);
    for (int32_t i = 0; i < n->nnode; i++) {
        for (int32_t k = 0; k < n->node[i].ncand; k++) low[i][k] = NET_NEVER;
        for (int32_t k = 0; k < c->var[i].n; k++)
            low[i][c->var[i].value[k]] = MAX(0, ceil_div(dual_value_bound(&d, i, k), c->scale) - s->cost);
    }
    dual_end(&d);
    cfn_free(&c);
}

/* What a plan shows that differs in this node, and in whatever then follows. */
static int64_t
regret_high(struct local *l, const struct solved *s, int32_t node, int32_t k)
{
    int64_t now = local_cost(l, node, s->choice[node]), then = local_cost(l, node, k);
    return then >= NET_NEVER ? NET_NEVER : MAX(0, then - now);
}

/* The best plan in which the node takes candidate k. */
static void
regret_exact(const struct net *n, const struct solved *s, int32_t node, int32_t k, const struct solve_options *o,
             int64_t *low, int64_t *high)
{
    struct net forced = *n;
    struct arena tmp = {0};
    forced.node = arena_dup(&tmp, n->node, sizeof *n->node * (size_t)n->nnode);
    int64_t *cost = ARENA_ARRAY(&tmp, int64_t, n->node[node].ncand);
    for (int32_t i = 0; i < n->node[node].ncand; i++) cost[i] = i == k ? n->node[node].cost[i] : NET_NEVER;
    forced.node[node].cost = cost;
    struct result r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(&tmp, int32_t, MAX(1, n->nnode))};
    int64_t least_peak;
    solve_free(&forced, o, false, NULL, &r);
    if (n->memory_limit && r.cost < NET_NEVER && net_peak(n, r.choice) > n->memory_limit)
        solve_limited(&tmp, &forced, o, &r, &least_peak, NULL);
    *low = r.bound >= NET_NEVER ? NET_NEVER : MAX(*low, r.bound - s->cost);
    *high = r.cost >= NET_NEVER ? NET_NEVER : MIN(*high, MAX(0, r.cost - s->cost));
    arena_fini(&tmp);
}

int
net_regret(const struct net *n, const struct solved *s, bool (*stop)(void *arg), void *arg, int64_t *const *low,
           int64_t *const *high)
{
    struct solve_options o = {.mode = SOLVE_OPTIMAL, .stop = stop, .arg = arg};
    struct local l;
    regret_low(n, s, low);
    local_begin(&l, n, s->choice);
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 0; k < n->node[i].ncand; k++) {
            high[i][k] = n->memory_limit ? NET_NEVER : regret_high(&l, s, i, k);
            if (k == s->choice[i]) low[i][k] = high[i][k] = 0;
            if (n->node[i].cost[k] >= NET_NEVER) low[i][k] = high[i][k] = NET_NEVER;
        }
    local_end(&l);
    for (int32_t i = 0; i < n->nnode; i++)
        for (int32_t k = 0; k < n->node[i].ncand; k++) {
            if (stop && stop(arg)) return 0;
            if (low[i][k] < high[i][k]) regret_exact(n, s, i, k, &o, &low[i][k], &high[i][k]);
        }
    return 0;
}
