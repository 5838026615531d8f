/* limited.c - under a memory limit: prices, parts, branching. */
#include "sbp/limited.h"

#include "sbp/dual.h"
#include "sbp/explore.h"
#include "sbp/nearby.h"

#include <stdlib.h>
#include <string.h>

enum {
    IDLE = 300,
    FEW = 64, /* a net of so many nodes is closed by branching */
    BRANCHES = 4000,
    PATIENCE = 3,     /* looks at one bound */
    MANY = 1500,      /* a folded network of more variables stays large */
    SWEEPS = 6,       /* of that at each price */
    GLANCE = 4,       /* looks at the first bound of that */
    MOST = 100000000, /* work on parts between two bounds */
};

/* A node of the search: some candidates are ruled out, by NET_NEVER in limit.extra. */
struct limited {
    const struct net *net; /* with the times that matter */
    const struct solve_options *o;
    struct limit limit;
    struct folded folded;
    struct nearby nearby;
    bool is_near;        /* nearby has a choice */
    bool branching;      /* bounds are of a part of what is possible */
    int64_t **ruled_out; /* by node, by candidate: NET_NEVER or 0 */
    int32_t *value;      /* by variable of the folded network: its candidate at the last bound */
    int32_t *choice;     /* what that means */
    int32_t *scratch;    /* another choice */
    struct best *best;
    int64_t scale, least_peak;
    int32_t budget;      /* bounds that may still be asked */
    int64_t work;        /* of the last one */
    struct cfn *large;   /* the folded network with the last messages, if it stays large */
    int64_t *best_price; /* by time: those of the best bound */
    int64_t best_bound;  /* scaled */
};

int64_t
limited_ceil(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

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

static bool
out_of_time(struct limited *m)
{
    return m->budget <= 0 || (m->o->stop && m->o->stop(m->o->arg));
}

/* The bound of the network, priced anew; value takes what reached it, if anything did. */
static int64_t
bound_anew(struct limited *m, bool *found)
{
    struct cfn *c = fold_priced(&m->folded, m->limit.extra);
    struct explore s = {.stop = m->o->stop, .arg = m->o->arg, .scale = 1, .best = NET_NEVER, .root = true};
    s.patience = PATIENCE;
    if (m->folded.c->nvar > MANY) s.looks = GLANCE;
    s.nchoice = c->nvar;
    s.choice = m->value;
    int64_t bound = explore(&s, c);
    cfn_free(&c);
    m->work = s.work;
    *found = s.best < NET_NEVER;
    return bound;
}

/* The same for a network that stays large: messages go on from where they were at the last prices, and nothing else is
 * done. */
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

/* A bound for the present prices, scaled; choice is what reached it. NET_NEVER: nothing is possible. */
static int64_t
bound_now(struct limited *m, bool *found)
{
    int64_t worth = limit_price(&m->limit);
    for (int32_t i = 0; i < m->net->nnode; i++)
        for (int32_t k = 0; k < m->net->node[i].ncand; k++)
            m->limit.extra[i][k] = cost_add(m->limit.extra[i][k], m->ruled_out[i][k]);
    bool onward = m->folded.c->nvar > MANY && m->is_near;
    if (onward && !m->large) m->large = cfn_copy(m->folded.c);
    int64_t bound = onward ? bound_onward(m, found) : bound_anew(m, found);
    m->budget--;
    if (!*found) return bound >= NET_NEVER ? NET_NEVER : bound - worth;
    fold_choice(&m->folded, m->value, m->choice);
    offer(m, m->choice);
    limit_live(&m->limit, m->choice);
    return bound - worth;
}

/* ---- what is near ---- */

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
    int64_t work = m->folded.c->nvar > MANY ? 2 * SWEEPS * cfn_entries(m->folded.c) : m->work;
    if (!nearby_look(&m->nearby, MIN(MOST, m->best->cost < NET_NEVER ? work : 4 * work))) return false;
    nearby_get(&m->nearby, m->value);
    fold_choice(&m->folded, m->value, m->scratch);
    offer(m, m->scratch);
    return true;
}

/* ---- prices ---- */

/* What the bound is hoped to be: the best cost, or, while there is none, something above it. */
static double
goal_of(const struct limited *m, double bound, int64_t peak)
{
    if (m->best->cost < NET_NEVER) return (double)m->best->cost * (double)m->scale;
    return bound + (peak / 2 > m->net->memory_limit ? 0.5 : 0.05) * MAX(bound, (double)m->scale);
}

/* Prices say no more, but neighbourhoods may: as long again as it took, from the last that did. */
static void
look_on(struct limited *m, int32_t looks)
{
    for (int32_t k = 0, end = 2 * looks; m->is_near && k < end && !out_of_time(m); k++) {
        int64_t was = m->best->cost;
        if (look_near(m) && m->best->cost < was) end = 2 * k + 2 * looks;
    }
}

/* Prices rise and fall until the bound no longer does. Returns the best bound in units of the net. */
static int64_t
raise(struct limited *m, int32_t rounds)
{
    int64_t most = -NET_NEVER;
    int32_t tried = 0;
    bool near = m->net->nnode > FEW;
    m->limit.steps = 0;
    for (int32_t k = 0, idle = 0; k < rounds && idle < IDLE && !out_of_time(m); k++) {
        bool found;
        int64_t bound = bound_now(m, &found), was = m->best->cost;
        tried++;
        if (bound >= NET_NEVER) return NET_NEVER;
        idle = bound > most + (most > 0 ? most / 100000 : 0) ? 0 : idle + 1;
        most = MAX(most, bound);
        if (bound > m->best_bound && !m->branching) {
            m->best_bound = bound;
            memcpy(m->best_price, m->limit.price, sizeof *m->best_price * (size_t)m->limit.ntime);
        }
        if (m->best->cost < NET_NEVER && limited_ceil(most, m->scale) >= m->best->cost) break;
        if (!found) continue;
        int64_t peak = limit_live(&m->limit, m->choice);
        if (peak <= m->net->memory_limit && limit_price(&m->limit) <= 1) break;
        if (near) {
            start_near(m);
            if (look_near(m) && m->best->cost < was) idle = 0;
        }
        peak = limit_live(&m->limit, m->choice);
        limit_step(&m->limit, (double)bound, goal_of(m, (double)most, peak));
    }
    if (near && m->best->cost < NET_NEVER && limited_ceil(most, m->scale) < m->best->cost) look_on(m, tried);
    return most <= 0 ? 0 : limited_ceil(most, m->scale);
}

/* ---- branching ---- */

/* The node that weighs most in the time that is fullest, and is not decided yet. */
static int32_t
heaviest(struct limited *m)
{
    int32_t best = -1;
    int64_t most = -1;
    for (int32_t i = 0; i < m->net->nnode; i++) {
        int64_t low = INT64_MAX, high = -1;
        int32_t open = 0;
        for (int32_t k = 0; k < m->net->node[i].ncand; k++) {
            if (m->ruled_out[i][k] || m->net->node[i].cost[k] >= NET_NEVER) continue;
            low = MIN(low, m->limit.extra[i][k]);
            high = MAX(high, m->limit.extra[i][k]);
            open++;
        }
        if (open < 2 || high - low <= most) continue;
        most = high - low;
        best = i;
    }
    return best;
}

/* True when nothing better than the best is in what is not ruled out. */
static bool
branch(struct limited *m, int32_t rounds)
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
        closed = branch(m, 6);
    }
    memcpy(m->ruled_out[v], was, sizeof *was * (size_t)n);
    free(was);
    return closed;
}

/* ---- the whole ---- */

/* The proof of the best bound, at its prices; on the network as it is, not folded. time: those that matter. */
static void
prove(struct limited *m, struct arena *a, const struct net *n, const int32_t *time, int32_t ntime, struct solved *out)
{
    memcpy(m->limit.price, m->best_price, sizeof *m->best_price * (size_t)m->limit.ntime);
    int64_t worth = limit_price(&m->limit);
    struct cfn *c = cfn_new(m->net, m->scale, (const int64_t *const *)m->limit.extra);
    struct explore s = {.scale = 1, .best = NET_NEVER, .root = true, .patience = PATIENCE, .looks = 100};
    s.nchoice = m->net->nnode;
    s.choice = m->choice;
    struct str text = {0};
    s.trail.text = &text;
    int64_t bound = explore(&s, c) - worth, *price = ARENA_ARRAY(a, int64_t, net_times(n));
    cfn_free(&c);
    int64_t certified = bound <= 0 ? 0 : MIN(limited_ceil(bound, m->scale), m->best->cost);
    if (certified <= out->certified) { /* the proof that has no prices says as much */
        str_free(&text);
        return;
    }
    for (int32_t t = 0; t < ntime; t++) price[time[t]] = m->best_price[t];
    str_free(&out->proof);
    out->proof = text;
    out->certified = certified;
    out->price = price;
}

static void
limited_begin(struct limited *m, struct arena *tmp)
{
    int32_t n = m->net->nnode;
    limit_begin(&m->limit, m->net);
    m->value = ARENA_ARRAY(tmp, int32_t, m->folded.c->nvar + 1);
    m->scratch = ARENA_ARRAY(tmp, int32_t, n + 1);
    m->best_price = ARENA_ARRAY(tmp, int64_t, m->limit.ntime);
    m->ruled_out = ARENA_ARRAY(tmp, int64_t *, n + 1);
    for (int32_t i = 0; i < n; i++) m->ruled_out[i] = ARENA_ARRAY(tmp, int64_t, m->net->node[i].ncand);
    m->best_bound = -NET_NEVER;
    m->budget = INT32_MAX;
}

void
limited_solve(struct arena *a, const struct net *n, const struct solve_options *o, struct best *r, int64_t *least_peak,
              struct solved *proof)
{
    struct arena tmp = {0};
    int32_t *time, ntime;
    int64_t lower = r->bound;
    struct limited m = {.o = o, .best = r, .scale = cfn_scale(n), .least_peak = INT64_MAX};
    m.net = limit_times(&tmp, n, &time, &ntime);
    m.choice = arena_dup(&tmp, r->choice, sizeof *m.choice * (size_t)MAX(1, n->nnode));
    r->cost = NET_NEVER;
    if (fold_begin(&m.folded, m.net, m.scale)) {
        limited_begin(&m, &tmp);
        if (o->start && net_cost(n, o->start) < NET_NEVER) offer(&m, o->start);
        int64_t raised = raise(&m, INT32_MAX);
        lower = MAX(lower, raised);
        m.budget = n->nnode <= FEW ? BRANCHES : 0;
        m.branching = true;
        if (lower < r->cost && branch(&m, 6)) lower = r->cost;
        if (proof && m.best_bound > -NET_NEVER) prove(&m, a, n, time, ntime, proof);
        if (m.is_near) nearby_end(&m.nearby);
        limit_end(&m.limit);
        fold_end(&m.folded);
        cfn_free(&m.large);
    }
    r->bound = MIN(lower, r->cost);
    *least_peak = m.least_peak;
    arena_fini(&tmp);
}
