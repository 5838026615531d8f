/* squeeze.c - finds a choice within a memory limit: column generation with prices of memory, and mixtures of two
 * choices by layer. */
#include "sbp/limit/squeeze.h"

#include "runtime/data/hash.h"
#include "sbp/search/along.h"
#include "sbp/search/around.h"
#include "sbp/search/explore.h"
#include "sbp/search/fewer.h"
#include "sbp/limit/limit.h"
#include "sbp/net/work.h"

#include <math.h>
#include <string.h>

enum {
    TURNS = 48,        /* maximum number of choices */
    QUICK = 6,         /* maximum number of choices if the search must end at a count of work (`quick`) */
    WORK = 2000000000, /* counted work (work.h) after which a search limited to QUICK choices ends */
    SURE = 6,          /* number of choices made regardless of the clock, until one is within the limit */
    TIMES = 4,         /* maximum number of times with a price */
    LOOKS = 12,        /* number of bounding rounds per price vector */
    SWEEPS = 4,        /* number of sweeps over the prices; a sweep improves the prices one by one */
    /* at the highest price, the bytes of a choice cost this many times the choice's cost without prices */
    DEAREST = 1000
};

/* a recorded choice; over: the choice's live bytes minus the limit, at each time that has a price */
struct found {
    const int32_t *choice;
    double cost, over[TIMES];
    bool fits;
};
struct squeeze {
    const struct net *net;
    const struct solve_options *o;
    struct limit limit;
    struct best *best;
    struct lowest *lowest;
    int32_t *choice; /* the current choice */
    int32_t time[TIMES], ntime;
    /* price: by time in `time`: cost of a byte that is live at this time, ns; dearest: highest price allowed */
    double price[TIMES], dearest;
    struct found found[TURNS];
    int32_t nfound, first; /* nfound: number of choices; first: index of the first choice of this search */
    int64_t until;         /* with `quick`: count of work at which this search ends */
};

/* ---- making the net in which live bytes cost their price ---- */

struct priced { /* a price table that was made for a tensor; tensors with the same table share it */
    const int64_t *price, *copy, *span, *is;
    int32_t nto;
};
struct pricing {
    struct arena arena;
    const struct net *net;
    const struct limit *limit;
    /* choice: by node. A converted copy is live, and costs its price, from its first to its last reader in this
     * choice; NULL: from the first to the last node that reads it in any choice */
    const int32_t *choice;
    struct net to;
    struct hash_table arrays, tables;
};

/* Caps a cost, so that the sum of all costs stays far below NET_NEVER. */
static int64_t
squeeze_worth(int64_t price, int64_t bytes)
{
    return limit_worth(price, bytes, NET_NEVER >> 16);
}

static const int64_t *
priced_node(struct pricing *p, int32_t i)
{
    const struct net_node *v = &p->net->node[i];
    int64_t *cost = ARENA_ARRAY(&p->arena, int64_t, v->ncand);
    for (int32_t k = 0; k < v->ncand; k++) cost[k] = cost_add(v->cost[k], MIN(p->limit->extra[i][k], NET_NEVER >> 16));
    return hash_keep(&p->arrays, cost, sizeof *cost * (size_t)v->ncand);
}

static bool
use_may_want(const struct net *n, const struct net_use *u, int32_t form)
{
    for (int32_t k = 0; k < n->node[u->node].ncand; k++)
        if (u->form[k] == form && n->node[u->node].cost[k] < NET_NEVER) return true;
    return false;
}

static int64_t
during_rounds(const struct pricing *p)
{
    return p->limit->sum[p->net->round_end] - p->limit->sum[p->net->round_begin];
}

/* The live range of a converted copy, in times; end 0: the copy is never made. */
struct span {
    int32_t begin, end;
};

/* Returns the live range of a copy: from the first to the last reader that needs the form in the choice p->choice.
 * p->choice NULL: from the first to the last reader that may need the form in any choice. */
static struct span
span_of_all(const struct pricing *p, const struct net_tensor *t, int32_t form)
{
    struct span s = {INT32_MAX, 0};
    for (int32_t k = 0; k < t->nuse; k++) {
        const struct net_use *u = &t->use[k];
        if (p->choice ? u->form[p->choice[u->node]] != form : !use_may_want(p->net, u, form)) continue;
        s.begin = MIN(s.begin, u->begin);
        s.end = MAX(s.end, u->end);
    }
    return s;
}

/* Returns the cheapest live range that a copy can have if only one reader needs it. */
static struct span
span_of_one(const struct pricing *p, const struct net_tensor *t, int32_t form)
{
    const int64_t *sum = p->limit->sum;
    struct span s = {0};
    for (int32_t k = 0; k < t->nuse; k++) {
        const struct net_use *u = &t->use[k];
        if (!use_may_want(p->net, u, form)) continue;
        if (!s.end || sum[u->end] - sum[u->begin] < sum[s.end] - sum[s.begin]) s = (struct span){u->begin, u->end};
    }
    return s;
}

/* Returns, by form, the price of a byte of a tensor's copy; NULL: all prices are 0. */
static const int64_t *
span_prices(struct pricing *p, const struct net_tensor *t)
{
    int64_t *price = ARENA_ARRAY(&p->arena, int64_t, t->nto);
    bool any = false;
    for (int32_t f = 0; f < t->nto; f++) {
        struct span s = span_of_all(p, t, f);
        if (!s.end && p->choice) s = span_of_one(p, t, f);
        if (!s.end) continue;
        int64_t others = net_others(p->net, t, s.begin, s.end);
        price[f] = p->limit->sum[s.end] - p->limit->sum[s.begin];
        if (others) price[f] += MIN(during_rounds(p), (INT64_MAX - price[f]) / others) * others;
        any = any || price[f];
    }
    return any ? hash_keep(&p->arrays, price, sizeof *price * (size_t)t->nto) : NULL;
}

static const int64_t *
priced_table(struct pricing *p, const struct net_tensor *t)
{
    const int64_t *span = t->copy && t->nuse ? span_prices(p, t) : NULL;
    if (!span) return t->price;
    uint64_t hash = hash_number(hash_number((uint64_t)(uintptr_t)t->price, (uint64_t)(uintptr_t)t->copy),
                                (uint64_t)(uintptr_t)span);
    uint32_t at = 0;
    struct priced *x;
    while ((x = hash_next(&p->tables, hash, &at)))
        if (x->price == t->price && x->copy == t->copy && x->span == span && x->nto == t->nto) return x->is;
    int64_t n = (int64_t)t->nfrom * t->nto, *is = ARENA_ARRAY(&p->arena, int64_t, n);
    for (int64_t k = 0; k < n; k++) is[k] = cost_add(t->price[k], squeeze_worth(span[k % t->nto], t->copy[k]));
    x = ARENA_NEW(&p->arena, struct priced);
    *x = (struct priced){t->price, t->copy, span, is, t->nto};
    hash_add(&p->tables, hash, x);
    return is;
}

static void
price_net(struct pricing *p)
{
    const struct net *n = p->net;
    p->arrays.arena = p->tables.arena = &p->arena;
    p->to = *n;
    p->to.memory_limit = 0;
    p->to.node = arena_dup(&p->arena, n->node, sizeof *n->node * (size_t)MAX(1, n->nnode));
    p->to.tensor = arena_dup(&p->arena, n->tensor, sizeof *n->tensor * (size_t)MAX(1, n->ntensor));
    for (int32_t i = 0; i < n->nnode; i++) p->to.node[i].cost = priced_node(p, i);
    for (int32_t i = 0; i < n->ntensor; i++) p->to.tensor[i].price = priced_table(p, &n->tensor[i]);
}

/* ---- generating and recording choices ---- */

static bool
squeeze_stops(const struct squeeze *q)
{
    bool sure = q->best->cost >= NET_NEVER && q->nfound - q->first < SURE;
    if (q->o->quick && (q->nfound - q->first >= QUICK || work_done() > q->until)) return true;
    return !sure && q->o->stop && q->o->stop(q->o->arg);
}

/* Keeps the current choice if it is within the limit and the best so far. Returns true if it is within the limit. */
static bool
squeeze_offer(struct squeeze *q)
{
    int64_t peak = limit_live(&q->limit, q->choice), cost = net_cost(q->net, q->choice);
    if (cost >= NET_NEVER) return false;
    if (peak < q->lowest->peak) {
        q->lowest->peak = peak;
        memcpy(q->lowest->choice, q->choice, sizeof *q->choice * (size_t)q->net->nnode);
    }
    if (peak > q->net->memory_limit) return false;
    if (cost < q->best->cost) {
        q->best->cost = cost;
        memcpy(q->best->choice, q->choice, sizeof *q->choice * (size_t)q->net->nnode);
    }
    return true;
}

static double
over(const struct squeeze *q, int32_t time)
{
    return (double)(q->limit.live[time] - q->net->memory_limit);
}

/* Records the current choice. Returns false if one of equal cost and bytes is known, or the list is full. */
static bool
remember_choice(struct squeeze *q)
{
    struct found *f = &q->found[q->nfound];
    if (q->nfound == TURNS) return false;
    *f = (struct found){.fits = squeeze_offer(q), .cost = (double)net_cost(q->net, q->choice)};
    for (int32_t k = 0; k < q->ntime; k++) f->over[k] = over(q, q->time[k]);
    for (int32_t i = 0; i < q->nfound; i++)
        if (q->found[i].cost == f->cost && !memcmp(q->found[i].over, f->over, sizeof f->over)) return false;
    f->choice = arena_dup(&q->limit.arena, q->choice, sizeof *q->choice * (size_t)q->net->nnode);
    q->nfound++;
    return true;
}

/* Improves the current choice at these prices. With several mesh axes, searching one axis at a time finds as good
 * choices as a short search over all axes jointly. */
static void
improve_choice(struct squeeze *q, const struct net *n)
{
    struct explore s = {.scale = cfn_scale(n), .root = true, .looks = LOOKS, .nchoice = n->nnode, .choice = q->choice};
    int64_t cost = net_cost(n, q->choice);
    if (along_axes(n, s.scale, NULL, NULL, NULL, q->choice, &cost)) return;
    struct around near = {.net = n};
    struct cfn *c = cfn_new(n, s.scale, NULL);
    s.best = cost * s.scale;
    around_ask(&near, &s);
    explore(&s, c);
    cfn_free(&c);
    around_end(&near);
}

/* ---- choosing the prices for the next choice ---- */

static int32_t
fullest_moment(const struct squeeze *q)
{
    int32_t most = 0;
    for (int32_t t = 1; t < q->limit.ntime; t++)
        if (q->limit.live[t] > q->limit.live[most]) most = t;
    return most;
}

/* Adds a price, initially the highest, for the time with the most live bytes, if these exceed the limit. Returns
 * false if that time has a price, or no more prices are allowed. */
static bool
price_fullest(struct squeeze *q)
{
    int32_t time = fullest_moment(q);
    if (over(q, time) <= 0 || q->ntime == TIMES) return false;
    for (int32_t k = 0; k < q->ntime; k++)
        if (q->time[k] == time) return false;
    q->time[q->ntime] = time;
    q->price[q->ntime] = q->dearest;
    for (int32_t i = 0; i < q->nfound; i++) {
        limit_live(&q->limit, q->found[i].choice);
        q->found[i].over[q->ntime] = over(q, time);
    }
    q->ntime++;
    return true;
}

/* Returns the value of the Lagrangian dual at these prices: the least cost at these prices over all recorded
 * choices, minus the sum of the prices times the limit. */
static double
dual_at(const struct squeeze *q)
{
    double least = INFINITY;
    for (int32_t i = 0; i < q->nfound; i++) {
        double sum = q->found[i].cost;
        for (int32_t k = 0; k < q->ntime; k++) sum += q->price[k] * q->found[i].over[k];
        least = MIN(least, sum);
    }
    return least;
}

/* Returns the price of time[k] at which choices x and y cost the same, with all other prices fixed. Negative: no
 * such price lies between 0 and the highest price. */
static double
crossing(const struct squeeze *q, const struct found *x, const struct found *y, int32_t k)
{
    double gap = y->cost - x->cost, slope = x->over[k] - y->over[k];
    for (int32_t m = 0; m < q->ntime; m++)
        if (m != k) gap += q->price[m] * (y->over[m] - x->over[m]);
    return slope == 0 || gap / slope > q->dearest ? -1 : gap / slope;
}

/* Sets the price of the k-th time so that the dual is largest, with the other prices fixed. The dual is piecewise
 * linear, so only crossings and end points are tried. */
static void
best_price(struct squeeze *q, int32_t k)
{
    double best = 0, most = -INFINITY;
    for (int32_t i = -2; i < q->nfound; i++)
        for (int32_t j = 0; j < MAX(1, i); j++) {
            double at = i == -2 ? 0 : i == -1 ? q->dearest : i == 0 ? -1 : crossing(q, &q->found[i], &q->found[j], k);
            if (at < 0) continue;
            q->price[k] = at;
            double dual = dual_at(q);
            if (dual <= most) continue;
            most = dual;
            best = at;
        }
    q->price[k] = best;
}

static void
set_prices(struct squeeze *q)
{
    memset(q->limit.price, 0, sizeof *q->limit.price * (size_t)q->limit.ntime);
    for (int32_t k = 0; k < q->ntime; k++) q->limit.price[q->time[k]] = (int64_t)(q->price[k] * (1 << LIMIT_SHIFT));
}

/* Generates choices until one recurs. beside true: a copy costs its price from its first to its last reader in the
 * current choice; false: from the first to the last node that may read it in any choice. */
static void
search_prices(struct squeeze *q, bool beside)
{
    q->first = q->nfound;
    q->until = work_done() + WORK;
    for (bool news = true; news && q->nfound < TURNS && !squeeze_stops(q); news = remember_choice(q)) {
        struct pricing p = {.net = q->net, .limit = &q->limit, .choice = beside ? q->choice : NULL};
        bool more = price_fullest(q);
        for (int k = 0; k < SWEEPS * q->ntime && !more; k++) best_price(q, k % q->ntime);
        set_prices(q);
        limit_price(&q->limit);
        price_net(&p);
        improve_choice(q, &p.to);
        arena_fini(&p.arena);
    }
    for (int k = 0; k < SWEEPS * q->ntime; k++) best_price(q, k % q->ntime);
    set_prices(q);
}

/* ---- mixing the layers of two choices ---- */

/* Makes a mixture: layers before `cut` from `low`, layers from `cut` on from `high`, and nodes without a layer from
 * `rest`. */
static void
mix(struct squeeze *q, const struct fewer *f, const int32_t *low, const int32_t *high, const int32_t *rest, int32_t cut)
{
    for (int32_t i = 0; i < q->net->nnode; i++) {
        int32_t layer = f->like.layer[i];
        q->choice[i] = layer < 0 ? rest[i] : layer < cut ? low[i] : high[i];
    }
}

/* Makes a mixture of choice x, which is within the limit, and choice y. Takes the first (`first`) or last layers
 * from y, as many as the limit allows (bisection), and the other layers from x. */
static void
mix_most(struct squeeze *q, const struct fewer *f, const struct found *x, const struct found *y, bool first,
         const int32_t *rest)
{
    int32_t fits = 0, over = f->like.nlayer + 1;
    while (over - fits > 1) {
        int32_t n = (fits + over) / 2;
        if (first)
            mix(q, f, y->choice, x->choice, rest, n);
        else
            mix(q, f, x->choice, y->choice, rest, f->like.nlayer - n);
        *(squeeze_offer(q) ? &fits : &over) = n;
    }
}

static void
mix_found(struct squeeze *q)
{
    struct fewer f;
    if (!fewer_begin(&f, q->net)) return;
    for (const struct found *x = q->found; x < q->found + q->nfound; x++)
        for (const struct found *y = q->found; y < q->found + q->nfound && x->fits; y++)
            for (int how = 0; how < 4 && !y->fits && y->cost < (double)q->best->cost; how++)
                mix_most(q, &f, x, y, how & 1, how & 2 ? x->choice : y->choice);
    fewer_end(&f);
}

void
squeeze(const struct net *n, const struct solve_options *o, const int32_t *start, struct best *r, int64_t *price,
        struct lowest *lowest)
{
    struct squeeze q = {.net = n, .o = o, .best = r, .lowest = lowest};
    limit_begin(&q.limit, n);
    q.choice = arena_dup(&q.limit.arena, start, sizeof *start * (size_t)MAX(1, n->nnode));
    q.dearest = DEAREST * (double)MAX(1, net_cost(n, start)) / (double)MAX(1, limit_live(&q.limit, start));
    if (o->other) {
        memcpy(q.choice, o->other, sizeof *start * (size_t)n->nnode);
        remember_choice(&q);
        memcpy(q.choice, start, sizeof *start * (size_t)n->nnode);
    }
    remember_choice(&q);
    search_prices(&q, false);
    memcpy(q.choice, r->cost < NET_NEVER ? r->choice : lowest->choice, sizeof *start * (size_t)n->nnode);
    limit_live(&q.limit, q.choice);
    search_prices(&q, true);
    mix_found(&q);
    memcpy(price, q.limit.price, sizeof *price * (size_t)q.limit.ntime);
    limit_end(&q.limit);
}
