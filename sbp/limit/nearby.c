/* nearby.c - large neighbourhood search under a memory limit. */
#include "sbp/limit/nearby.h"

#include "sbp/search/explore.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 16, MEDIUM = 500, LARGE = 8 * MEDIUM, HUB = 64, TRIES = 5 };

static uint64_t
draw_below(struct nearby *w, uint64_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (w->random >> 33) % n;
}

/* ---- bytes of variables ---- */

struct taking {
    int32_t begin, end;
    const int64_t *bytes; /* by form, or by candidate of the node */
    const uint16_t *form; /* by candidate; NULL: bytes is by candidate */
};

/* Calls `with` for each live range of bytes that depend on the node's candidate. */
static void
each_taking(const struct nearby *w, int32_t node, void (*with)(void *arg, const struct taking *t), void *arg)
{
    const struct net *n = w->f->net;
    const struct net_node *v = &n->node[node];
    work_add(4 + 8 * (int64_t)(w->limit->first[node + 1] - w->limit->first[node]));
    if (v->memory) with(arg, &(struct taking){v->time, v->time + 1, v->memory, NULL});
    for (int32_t k = w->limit->first[node]; k < w->limit->first[node + 1]; k++) {
        const struct net_tensor *t = &n->tensor[w->limit->tensor[k]];
        with(arg, &(struct taking){t->born, t->dies, t->bytes, t->form});
    }
}

static int32_t
implied_candidate(const struct folded *f, const struct fold_node *m, int32_t var, int32_t i)
{
    int32_t c = f->c->var[var].value[i];
    return m->to ? m->to[c] : c;
}

struct adding { /* argument of add_taking: adds a candidate's bytes to the changes of live bytes */
    int64_t *change;
    int32_t candidate, sign;
};

static void
add_taking(void *arg, const struct taking *t)
{
    const struct adding *a = arg;
    int64_t bytes = a->sign * t->bytes[t->form ? t->form[a->candidate] : a->candidate];
    a->change[t->begin] += bytes;
    a->change[t->end] -= bytes;
}

static void
add_var(const struct nearby *w, int32_t var, int32_t i, int sign, int64_t *change)
{
    for (int32_t k = w->f->first[var]; k < w->f->first[var + 1]; k++) {
        const struct fold_node *m = &w->f->node[k];
        struct adding a = {change, implied_candidate(w->f, m, var, i), sign};
        each_taking(w, m->node, add_taking, &a);
    }
}

static void
widen_span(void *arg, const struct taking *t)
{
    int32_t *span = arg;
    span[0] = MIN(span[0], t->begin);
    span[1] = MAX(span[1], t->end);
}

/* ---- begin, end ---- */

void
nearby_begin(struct nearby *w, const struct folded *f, struct limit *m, const struct solve_options *o)
{
    int32_t n = f->c->nvar, large = MIN(LARGE, n), most = 1;
    *w = (struct nearby){.f = f, .limit = m, .o = o, .ntime = m->ntime, .random = 1, .size = 2 * SMALL, .most = MEDIUM};
    for (int32_t v = 0; v < n; v++) most = MAX(most, f->c->var[v].n);
    w->begin = ARENA_ARRAY(&w->arena, int32_t, n + 1);
    w->end = ARENA_ARRAY(&w->arena, int32_t, n + 1);
    w->pick = ARENA_ARRAY(&w->arena, int32_t, n + 1);
    w->live = ARENA_ARRAY(&w->arena, int64_t, m->ntime + 1);
    w->then = ARENA_ARRAY(&w->arena, int64_t, m->ntime + 1);
    w->price = ARENA_ARRAY(&w->arena, int64_t, m->ntime + 1);
    w->sum = ARENA_ARRAY(&w->arena, int64_t, m->ntime + 1);
    w->near = ARENA_ARRAY(&w->arena, int32_t, n + 1);
    w->at = ARENA_ARRAY(&w->arena, int32_t, n + 1);
    w->tried = ARENA_ARRAY(&w->arena, int32_t, 2 * (LARGE + 1));
    w->extra = ARENA_ARRAY(&w->arena, int64_t *, large + 1);
    for (int32_t k = 0; k <= large; k++) w->extra[k] = ARENA_ARRAY(&w->arena, int64_t, most);
    for (int32_t v = 0; v < n; v++) {
        int32_t span[2] = {INT32_MAX, 0};
        for (int32_t k = f->first[v]; k < f->first[v + 1]; k++) each_taking(w, f->node[k].node, widen_span, span);
        w->begin[v] = span[0];
        w->end[v] = span[1];
        w->at[v] = -1;
    }
}

void
nearby_end(struct nearby *w)
{
    arena_fini(&w->arena);
}

static double
over_limit(const struct nearby *w, const int64_t *live)
{
    double sum = 0;
    for (int32_t t = 0; t < w->ntime; t++)
        if (live[t] > w->f->net->memory_limit) sum += (double)(live[t] - w->f->net->memory_limit);
    return sum;
}

static int64_t
cost_of_pick(const struct folded *f, const int32_t *pick)
{
    int64_t sum = f->c->constant;
    for (int32_t v = 0; v < f->c->nvar; v++) sum = cost_add(sum, f->c->var[v].cost[pick[v]]);
    for (int32_t k = 0; k < f->c->nedge; k++) {
        const struct cfn_edge *e = &f->c->edge[k];
        if (e->table) sum = cost_add(sum, edge_cost(f->c, e, e->u, pick[e->u], pick[e->v]));
    }
    return sum;
}

static void
running_sum(int64_t *x, int32_t n)
{
    for (int32_t t = 1; t < n; t++) x[t] += x[t - 1];
}

void
nearby_set(struct nearby *w, const int32_t *candidate)
{
    const struct folded *f = w->f;
    memset(w->live, 0, sizeof *w->live * (size_t)(w->ntime + 1));
    for (int32_t v = 0; v < f->c->nvar; v++) {
        for (w->pick[v] = 0; f->c->var[v].value[w->pick[v]] != candidate[v]; w->pick[v]++) {
        }
        add_var(w, v, w->pick[v], 1, w->live);
    }
    for (int32_t k = 0; k < f->nsure; k++) {
        struct adding a = {w->live, f->sure[k].candidate, 1};
        each_taking(w, f->sure[k].node, add_taking, &a);
    }
    running_sum(w->live, w->ntime);
    w->cost = cost_of_pick(f, w->pick);
    w->over = over_limit(w, w->live);
}

void
nearby_get(const struct nearby *w, int32_t *candidate)
{
    for (int32_t v = 0; v < w->f->c->nvar; v++) candidate[v] = w->f->c->var[v].value[w->pick[v]];
}

/* ---- choosing a neighbourhood ---- */

static void
add_near_variable(struct nearby *w, int32_t v)
{
    if (w->at[v] >= 0 || w->nnear >= w->size) return;
    w->at[v] = w->nnear;
    w->near[w->nnear++] = v;
}

static void
take_around_variable(struct nearby *w, int32_t v)
{
    const struct cfn_var *x = &w->f->c->var[v];
    int32_t n = MIN(x->nedge, HUB), from = n < x->nedge ? (int32_t)draw_below(w, (uint64_t)x->nedge) : 0;
    for (int32_t k = 0; k < n; k++) add_near_variable(w, edge_other(&w->f->c->edge[x->edge[(from + k) % x->nedge]], v));
}

/* Returns a random time over the limit; if none is, a nearly full time; -1: none. */
static int32_t
full_time(struct nearby *w)
{
    int64_t limit = w->f->net->memory_limit;
    int32_t from = (int32_t)draw_below(w, (uint64_t)w->ntime), found = -1;
    for (int32_t k = 0; k < w->ntime; k++) {
        int32_t t = (from + k) % w->ntime;
        if (w->live[t] > limit) return t;
        if (found < 0 && w->over == 0 && w->live[t] > limit - limit / 32) found = t;
    }
    return found;
}

/* Returns a random variable with bytes live at t, outside the neighbourhood; an arbitrary variable if all are
 * inside. */
static int32_t
alive_at(struct nearby *w, int32_t t)
{
    int32_t n = w->f->c->nvar, from = (int32_t)draw_below(w, (uint64_t)n);
    for (int32_t k = 0; k < n; k++) {
        int32_t v = (from + k) % n;
        if (w->begin[v] <= t && t < w->end[v] && w->at[v] < 0) return v;
    }
    return from;
}

/* Chooses seed variables and adds their neighbours, breadth first. */
static void
choose_near_variables(struct nearby *w)
{
    int32_t t = w->over > 0 || draw_below(w, 2) ? full_time(w) : -1, seeds = 1 + (int32_t)draw_below(w, 4);
    w->nnear = 0;
    if (draw_below(w, 4) == 0) seeds = w->size;
    for (int32_t k = 0; k < seeds && w->nnear < w->size; k++)
        add_near_variable(w, t >= 0 ? alive_at(w, t) : (int32_t)draw_below(w, (uint64_t)w->f->c->nvar));
    for (int32_t k = 0; k < w->nnear && w->nnear < w->size; k++) take_around_variable(w, w->near[k]);
}

static void
release_near(struct nearby *w)
{
    for (int32_t k = 0; k < w->nnear; k++) w->at[w->near[k]] = -1;
}

/* ---- solving a neighbourhood ---- */

struct pricing {
    const struct nearby *w;
    int32_t candidate;
    int64_t sum;
};

static void
price_taking(void *arg, const struct taking *t)
{
    struct pricing *p = arg;
    int64_t price = p->w->sum[t->end] - p->w->sum[t->begin];
    if (price) p->sum += limit_worth(price, t->bytes[t->form ? t->form[p->candidate] : p->candidate], NET_NEVER / 1024);
}

static void
price_near(struct nearby *w)
{
    w->sum[0] = 0;
    for (int32_t t = 0; t < w->ntime; t++) w->sum[t + 1] = w->sum[t] + w->price[t];
    for (int32_t k = 0; k < w->nnear; k++) {
        int32_t v = w->near[k];
        for (int32_t i = 0; i < w->f->c->var[v].n; i++) {
            struct pricing p = {.w = w};
            for (int32_t j = w->f->first[v]; j < w->f->first[v + 1]; j++) {
                p.candidate = implied_candidate(w->f, &w->f->node[j], v, i);
                each_taking(w, w->f->node[j].node, price_taking, &p);
            }
            w->extra[k][i] = p.sum;
        }
    }
}

/* Builds the network of the neighbourhood. Costs of edges to fixed variables become unary. */
static struct cfn *
near_network(const struct nearby *w)
{
    const struct cfn *all = w->f->c;
    struct cfn *c = must_alloc(sizeof *c);
    *c = (struct cfn){.nvar = w->nnear, .scale = all->scale};
    c->var = must_alloc(sizeof *c->var * (size_t)w->nnear);
    c->rank = must_alloc(sizeof *c->rank * (size_t)w->nnear);
    for (int32_t k = 0; k < w->nnear; k++) {
        const struct cfn_var *x = &all->var[w->near[k]];
        struct cfn_var *y = &c->var[k];
        y->n = x->n;
        y->cost = must_alloc(sizeof *y->cost * (size_t)x->n);
        y->value = must_alloc(sizeof *y->value * (size_t)x->n);
        c->rank[k] = all->rank[w->near[k]];
        for (int32_t i = 0; i < x->n; i++) {
            y->cost[i] = cost_add(x->cost[i], w->extra[k][i]);
            y->value[i] = (uint16_t)i;
        }
    }
    for (int32_t k = 0; k < w->nnear; k++) {
        int32_t v = w->near[k];
        const struct cfn_var *x = &all->var[v];
        for (int32_t j = 0; j < x->nedge; j++) {
            const struct cfn_edge *e = &all->edge[x->edge[j]];
            int32_t o = edge_other(e, v);
            work_add(4 + x->n);
            if (w->at[o] >= 0) {
                if (e->u == v) cfn_join(c, k, w->at[o], e->table);
                continue;
            }
            for (int32_t i = 0; i < x->n; i++)
                c->var[k].cost[i] = cost_add(c->var[k].cost[i], edge_cost(all, e, v, i, w->pick[o]));
        }
    }
    return c;
}

/* Returns the neighbourhood's cost with all its edges; *priced: with memory prices, too. pick: by position in
 * `near`. */
static int64_t
near_cost(const struct nearby *w, const int32_t *pick, int64_t *priced)
{
    const struct cfn *all = w->f->c;
    int64_t sum = 0;
    *priced = 0;
    for (int32_t k = 0; k < w->nnear; k++) {
        int32_t v = w->near[k];
        sum = cost_add(sum, all->var[v].cost[pick[k]]);
        *priced += w->extra[k][pick[k]];
        for (int32_t j = 0; j < all->var[v].nedge; j++) {
            const struct cfn_edge *e = &all->edge[all->var[v].edge[j]];
            int32_t o = edge_other(e, v), place = w->at[o];
            if (place >= 0 && e->v == v) continue;
            sum = cost_add(sum, edge_cost(all, e, v, pick[k], place >= 0 ? pick[place] : w->pick[o]));
        }
    }
    *priced = cost_add(*priced, sum);
    return sum;
}

static void
live_then(struct nearby *w)
{
    memset(w->then, 0, sizeof *w->then * (size_t)(w->ntime + 1));
    for (int32_t k = 0; k < w->nnear; k++) {
        int32_t v = w->near[k];
        if (w->tried[k] == w->pick[v]) continue;
        add_var(w, v, w->pick[v], -1, w->then);
        add_var(w, v, w->tried[k], 1, w->then);
    }
    running_sum(w->then, w->ntime);
    for (int32_t t = 0; t < w->ntime; t++) w->then[t] += w->live[t];
}

/* Raises prices at the times that the attempt overfilled, enough to rule out the attempt. */
static void
raise_prices(struct nearby *w, int64_t gain)
{
    int64_t limit = w->f->net->memory_limit;
    double all = 0;
    for (int32_t t = 0; t < w->ntime; t++) {
        double over = (double)(w->then[t] - limit), more = (double)(w->then[t] - w->live[t]);
        if (over > 0) all += over * MAX(more, over / 8);
    }
    if (all <= 0) return;
    double step = 1.5 * ((double)gain + (double)w->f->c->scale) / all * (1 << LIMIT_SHIFT), most = 0x1p60 / w->ntime;
    for (int32_t t = 0; t < w->ntime; t++) {
        double over = (double)(w->then[t] - limit);
        if (over > 0) w->price[t] += (int64_t)MIN(step * over, most - (double)MIN(w->price[t], (int64_t)most));
    }
}

static void
accept(struct nearby *w, int64_t cost, double over)
{
    for (int32_t k = 0; k < w->nnear; k++) w->pick[w->near[k]] = w->tried[k];
    memcpy(w->live, w->then, sizeof *w->live * (size_t)w->ntime);
    w->cost = cost;
    w->over = over;
}

/* Solves one neighbourhood, at rising prices. Returns true if the choice improved. */
static bool
try_near_variables(struct nearby *w)
{
    int32_t *now = w->tried + LARGE + 1;
    for (int32_t k = 0; k < w->nnear; k++) now[k] = w->pick[w->near[k]];
    memcpy(w->price, w->limit->price, sizeof *w->price * (size_t)w->ntime);
    memcpy(w->then, w->live, sizeof *w->then * (size_t)w->ntime);
    for (int try = 0; try < TRIES; try++) {
        int64_t priced_now, priced_then;
        price_near(w);
        int64_t was = near_cost(w, now, &priced_now);
        if (w->over > 0 && try == 0) { /* reduce the excess at any cost */
            raise_prices(w, MIN(was, NET_NEVER / 1024) / 16);
            price_near(w);
            near_cost(w, now, &priced_now);
        }
        struct cfn *c = near_network(w);
        struct explore s = {.stop = w->o->stop,
                            .arg = w->o->arg,
                            .scale = 1,
                            .best = NET_NEVER,
                            .root = true,
                            .patience = 2,
                            .looks = 8};
        s.nchoice = w->nnear;
        s.choice = w->tried;
        explore(&s, c);
        w->work += s.work + w->ntime;
        work_add(4 * (int64_t)w->ntime);
        cfn_free(&c);
        if (s.best >= NET_NEVER) return false;
        int64_t then = near_cost(w, w->tried, &priced_then);
        live_then(w);
        double over = over_limit(w, w->then);
        if (over < w->over || (over == w->over && then <= was)) {
            bool better = over < w->over || then < was;
            accept(w, w->cost - was + then, over);
            return better;
        }
        if (over <= w->over) return false; /* costs more, with no less excess */
        raise_prices(w, MAX(0, priced_now - priced_then));
    }
    return false;
}

bool
nearby_look(struct nearby *w, int64_t work)
{
    bool any = false;
    if (w->f->c->nvar == 0 || w->ntime == 0) return false;
    for (work += w->work; w->work < work;) {
        if (w->o->stop && w->o->stop(w->o->arg)) break;
        w->work += w->ntime + w->f->c->nvar;
        work_add(w->ntime + w->f->c->nvar);
        choose_near_variables(w);
        bool better = try_near_variables(w);
        release_near(w);
        any = any || better;
        w->size = better ? MAX(SMALL, w->size - w->size / 16) : w->size + 1 + w->size / 32;
        if (w->size < MIN(w->most, w->f->c->nvar)) continue;
        w->size = SMALL + (int32_t)draw_below(w, 4 * SMALL);
        w->most = w->most < LARGE ? 2 * w->most : MEDIUM;
    }
    return any;
}
