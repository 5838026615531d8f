/* peak_bound.c - lower bound on the peak: Lagrangian prices of bytes, then branching. */
#include "sbp/limit/peak_bound.h"

#include "sbp/limit/copies.h"
#include "sbp/divisor.h"
#include "sbp/net/dual.h"
#include "sbp/search/explore.h"
#include "sbp/limit/limit.h"
#include "sbp/limit/merge.h"
#include "sbp/limit/parts.h"
#include "sbp/net/reduce.h"
#include "sbp/net/work.h"

#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide;
enum {
    STEPS = 100,  /* subgradient steps before branching */
    IDLE = 20,    /* steps without gain before they end */
    PATIENCE = 3, /* bounding rounds without gain, per bound */
    SWEEPS = 3,   /* dual sweeps before pruning */
    FINE = 20,    /* fractional bits of a byte; fewer if sums would exceed 2^ROOM */
    ROOM = 48,    /* bits of the largest sum */
};

struct floor {
    const struct peak_bound_options *o;
    const struct net *net; /* the net with zero costs */
    struct copies copies;
    bool has_copies;
    struct merged merged;
    struct folded folded;
    struct limit limit;
    int64_t **ruled_out; /* see parts.h */
    int64_t unit, fine;  /* divisor of all peaks, bytes; fractions per byte */
    int64_t bound, peak; /* bytes */
    int64_t *price;      /* by time: prices of the best bound */
    int32_t *value;      /* by variable: its candidate at the last bound */
    int32_t *choice;     /* choice of the merged net */
    int32_t *all;        /* choice of the net with copies as nodes */
    int64_t *live;       /* not used */
    int32_t *best;       /* choice of the net that has the peak */
    bool found;
};

/* ---- divisor of peaks, simple bound ---- */

static int64_t
divide_all(int64_t unit, const int64_t *bytes, int64_t n)
{
    for (int64_t k = 0; bytes && k < n && unit != 1; k++) unit = common_divisor(unit, bytes[k]);
    return unit;
}

int64_t
peak_bound_unit(const struct net *n)
{
    int64_t unit = 0;
    for (int32_t i = 0; i < n->nnode; i++) unit = divide_all(unit, n->node[i].memory, n->node[i].ncand);
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        unit = divide_all(unit, t->bytes, t->nfrom);
        unit = divide_all(unit, t->copy, t->nuse ? (int64_t)t->nfrom * t->nto : 0);
    }
    return MAX(1, unit);
}

/* Returns the fewest bytes of a node's possible candidates. */
static int64_t
least_bytes_of_node(const struct net_node *v, const int64_t *bytes, const uint16_t *form)
{
    int64_t least = INT64_MAX;
    for (int32_t k = 0; k < v->ncand; k++)
        if (v->cost[k] < NET_NEVER) least = MIN(least, bytes[form ? form[k] : k]);
    return least == INT64_MAX ? 0 : least;
}

int64_t
peak_bound_alone(const struct net *n)
{
    struct arena tmp = {0};
    int32_t end = net_times(n);
    int64_t *live = ARENA_ARRAY(&tmp, int64_t, end + 1), most = 0;
    for (int32_t i = 0; i < n->nnode; i++) {
        if (!n->node[i].memory) continue;
        int64_t least = least_bytes_of_node(&n->node[i], n->node[i].memory, NULL);
        live[n->node[i].time] += least;
        live[n->node[i].time + 1] -= least;
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        if (!t->bytes || t->dies <= t->born) continue;
        int64_t least = least_bytes_of_node(&n->node[t->maker], t->bytes, t->form);
        live[t->born] += least;
        live[t->dies] -= least;
    }
    for (int32_t t = 0; t < end; t++) {
        if (t) live[t] += live[t - 1];
        most = MAX(most, live[t]);
    }
    arena_fini(&tmp);
    return most;
}

/* ---- the net without costs ---- */

static const int64_t *
free_of_cost(struct arena *a, const int64_t *cost, int64_t n)
{
    int64_t *to = ARENA_ARRAY(a, int64_t, MAX(1, n));
    for (int64_t k = 0; k < n; k++) to[k] = cost[k] >= NET_NEVER ? NET_NEVER : 0;
    return to;
}

static struct net *
net_of_bytes(struct arena *a, const struct net *n, int64_t limit)
{
    struct net *to = arena_dup(a, n, sizeof *n);
    to->memory_limit = limit;
    to->node = arena_dup(a, n->node, sizeof *n->node * (size_t)MAX(1, n->nnode));
    to->tensor = arena_dup(a, n->tensor, sizeof *n->tensor * (size_t)MAX(1, n->ntensor));
    for (int32_t i = 0; i < n->nnode; i++) to->node[i].cost = free_of_cost(a, n->node[i].cost, n->node[i].ncand);
    for (int32_t i = 0; i < n->ntensor; i++) {
        struct net_tensor *t = &to->tensor[i];
        if (t->nuse) t->price = free_of_cost(a, t->price, (int64_t)t->nfrom * t->nto);
    }
    return to;
}

/* ---- bounds ---- */

/* Sets limit.live, and keeps the choice if its peak is lower. */
static void
peak_offer(struct floor *f)
{
    merge_choice(&f->merged, f->choice, f->all);
    if (f->has_copies) copies_settle(&f->copies, f->all);
    limit_live(&f->limit, f->choice);
    int64_t peak = net_peak(f->net, f->all);
    if (peak >= f->peak) return;
    f->peak = peak;
    f->found = true;
    memcpy(f->best, f->all, sizeof *f->best * (size_t)f->net->nnode);
}

/* Scales the prices to a sum of one byte. */
static void
normalize_shares(struct floor *f)
{
    wide sum = 0;
    for (int32_t t = 0; t < f->limit.ntime; t++) sum += f->limit.price[t];
    for (int32_t t = 0; t < f->limit.ntime; t++)
        f->limit.price[t] = sum ? (int64_t)(((wide)f->limit.price[t] * f->fine << LIMIT_SHIFT) / sum)
                                : (f->fine << LIMIT_SHIFT) / f->limit.ntime;
}

/* Returns the folded network with current prices, in which ruled-out candidates are impossible. */
static struct cfn *
priced(struct floor *f)
{
    for (int32_t i = 0; i < f->merged.net.nnode; i++)
        for (int32_t k = 0; k < f->merged.net.node[i].ncand; k++)
            f->limit.extra[i][k] = cost_add(f->limit.extra[i][k], f->ruled_out[i][k]);
    return fold_priced(&f->folded, f->limit.extra);
}

/* Returns a lower bound on the peak, in fractions of a byte; choice and limit.live are set to its minimiser.
 * NET_NEVER: no choice is possible. */
static int64_t
peak_bound_now(struct floor *f, bool *found)
{
    normalize_shares(f);
    limit_price(&f->limit);
    struct cfn *c = priced(f);
    struct explore s = {.stop = f->o->stop, .arg = f->o->arg, .scale = 1, .best = NET_NEVER, .root = true};
    s.patience = PATIENCE;
    s.nchoice = c->nvar;
    s.choice = f->value;
    int64_t bound = explore(&s, c);
    cfn_free(&c);
    *found = s.best < NET_NEVER;
    if (*found) fold_choice(&f->folded, f->value, f->choice);
    if (*found) peak_offer(f);
    return bound;
}

/* Returns the bound at which the known peak is proved optimal, because peaks are multiples of `unit`. */
static int64_t
enough(const struct floor *f)
{
    return (f->peak - f->unit) * f->fine + 1;
}

static bool
bound_ends(const struct floor *f)
{
    return work_done() >= f->o->until || (f->o->stop && f->o->stop(f->o->arg));
}

/* Raises f->bound to a bound given in fractions, rounded up to a multiple of `unit`. */
static void
raise_to(struct floor *f, int64_t bound)
{
    int64_t step = f->unit * f->fine,
            bytes = bound >= enough(f) ? f->peak : (MAX(0, bound) + step - 1) / step * f->unit;
    f->bound = MAX(f->bound, bytes);
}

/* Takes subgradient steps; returns the best bound. */
static int64_t
peak_raise(struct floor *f)
{
    int64_t best = 0;
    for (int32_t k = 0, idle = 0; k < STEPS && idle < IDLE && best < enough(f) && !bound_ends(f); k++) {
        bool found;
        int64_t bound = peak_bound_now(f, &found);
        idle = bound > best + f->fine * f->unit / 64 ? 0 : idle + 1;
        if (bound > best) memcpy(f->price, f->limit.price, sizeof *f->price * (size_t)f->limit.ntime);
        best = MAX(best, bound);
        if (!found) break;
        f->merged.net.memory_limit = MAX(1, f->peak - f->unit);
        limit_step(&f->limit, (double)bound, (double)f->peak * (double)f->fine);
    }
    return best;
}

/* ---- pruning ---- */

static bool
is_peak_supported(struct cfn *c)
{
    struct trail none = {0};
    c->trail = &none;
    bool is = cfn_support(c);
    trail_cut(&none, 0);
    c->trail = NULL;
    return is;
}

/* Drops for good the values with which the peak cannot be lower, by the bound at current prices (reduced-cost
 * fixing). Returns true if any was dropped; *none: no choice is left. */
static bool
prune(struct floor *f, bool *none)
{
    struct cfn *to = f->folded.c;
    bool gone = false;
    if (!is_peak_supported(to)) return *none = true;
    normalize_shares(f);
    limit_price(&f->limit);
    struct cfn *c = priced(f);
    struct dual d;
    dual_begin(&d, c);
    dual_sweep(&d, SWEEPS);
    dual_bound(&d);
    for (int32_t k = 0; k < d.n && !*none; k++) {
        struct cfn_var *x = &to->var[d.order[k]];
        const int64_t *at = dual_value_bounds(&d, k);
        uint8_t *keep = must_alloc((size_t)x->n);
        int32_t left = 0;
        for (int32_t i = 0; i < x->n; i++) left += keep[i] = at[i] < enough(f);
        gone = gone || left < x->n;
        *none = left == 0;
        if (left && left < x->n) cfn_keep(to, d.order[k], keep);
        free(keep);
    }
    dual_end(&d);
    cfn_free(&c);
    return gone;
}

/* Prunes at the best prices, then at each priced time alone. */
static bool
prune_all(struct floor *f, bool *none)
{
    memcpy(f->limit.price, f->price, sizeof *f->price * (size_t)f->limit.ntime);
    bool gone = prune(f, none);
    for (int32_t t = 0; t < f->limit.ntime && !*none && !bound_ends(f); t++) {
        if (!f->price[t]) continue;
        memset(f->limit.price, 0, sizeof *f->limit.price * (size_t)f->limit.ntime);
        f->limit.price[t] = 1;
        gone = prune(f, none) || gone;
    }
    memcpy(f->limit.price, f->price, sizeof *f->price * (size_t)f->limit.ntime);
    return gone;
}

/* ---- branching ---- */

static int64_t
peak_part_bound(void *of, bool *found)
{
    struct floor *f = of;
    f->merged.net.memory_limit = MAX(1, f->peak - f->unit);
    return peak_bound_now(of, found);
}

static int64_t
peak_part_below(void *of)
{
    return enough(of);
}

static double
peak_part_goal(void *of, double bound)
{
    const struct floor *f = of;
    return MAX(bound, (double)f->peak * (double)f->fine);
}

static bool
peak_part_stop(void *of)
{
    return bound_ends(of);
}

static void
peak_part_beside(void *of)
{
    (void)of;
}

static int64_t
peak_split(struct floor *f, int64_t bound)
{
    struct parts p = {.net = &f->merged.net, .limit = &f->limit, .ruled_out = f->ruled_out, .choice = f->choice};
    p.bound = peak_part_bound;
    p.below = peak_part_below;
    p.goal = peak_part_goal;
    p.stop = peak_part_stop;
    p.beside = peak_part_beside;
    p.of = f;
    return parts_bound(&p, bound, f->price);
}

/* ---- the whole ---- */

/* Returns an upper bound on every peak: the most bytes of all nodes and tensors together. */
static int64_t
most_bytes_of_net(const struct net *n)
{
    int64_t most = 0;
    for (int32_t i = 0; i < n->ntensor; i++) {
        int64_t bytes = 0;
        for (int32_t k = 0; n->tensor[i].bytes && k < n->tensor[i].nfrom; k++)
            bytes = MAX(bytes, n->tensor[i].bytes[k]);
        most += bytes;
    }
    for (int32_t i = 0; i < n->nnode; i++) {
        int64_t bytes = 0;
        for (int32_t k = 0; n->node[i].memory && k < n->node[i].ncand; k++) bytes = MAX(bytes, n->node[i].memory[k]);
        most += bytes;
    }
    return most;
}

static void
search_peak(struct floor *f, struct arena *tmp)
{
    int32_t n = f->merged.net.nnode;
    limit_begin(&f->limit, &f->merged.net);
    f->price = ARENA_ARRAY(tmp, int64_t, f->limit.ntime + 1);
    f->value = ARENA_ARRAY(tmp, int32_t, f->folded.c->nvar + 1);
    f->choice = ARENA_ARRAY(tmp, int32_t, n + 1);
    f->ruled_out = ARENA_ARRAY(tmp, int64_t *, n + 1);
    for (int32_t i = 0; i < n; i++) f->ruled_out[i] = ARENA_ARRAY(tmp, int64_t, f->merged.net.node[i].ncand);
    int64_t bound = f->limit.ntime ? peak_raise(f) : 0;
    raise_to(f, bound);
    for (bool more = f->limit.ntime > 0, none = false; more && f->bound < f->peak && !bound_ends(f);) {
        more = prune_all(f, &none);
        if (more && !none) bound = MAX(bound, peak_raise(f));
        raise_to(f, none ? enough(f) : bound);
    }
    if (f->limit.ntime && f->o->split && f->bound < f->peak && !bound_ends(f)) raise_to(f, peak_split(f, bound));
    limit_end(&f->limit);
}

void
peak_bound_find(struct arena *a, const struct net *n, const struct peak_bound_options *o, int64_t *bound, int64_t *peak,
                const int32_t **choice)
{
    struct arena tmp = {0};
    struct floor f = {.o = o, .unit = peak_bound_unit(n), .bound = *bound};
    const struct net *whole = f.net = net_of_bytes(&tmp, n, MAX(1, *bound));
    int32_t *time, ntime;
    f.has_copies = copies_begin(&tmp, f.net, &f.copies);
    if (f.has_copies) whole = &f.copies.apart;
    f.all = ARENA_ARRAY(&tmp, int32_t, whole->nnode + 1);
    f.best = ARENA_ARRAY(&tmp, int32_t, n->nnode + 1);
    int64_t most = most_bytes_of_net(whole) + f.unit;
    f.peak = MIN(*peak, most);
    for (f.fine = (int64_t)1 << FINE; f.fine > 1 && (wide)most * f.fine > (wide)1 << ROOM;) f.fine /= 2;
    if (merge_begin(&f.merged, limit_times(&tmp, whole, &time, &ntime)) && fold_begin(&f.folded, &f.merged.net, 1)) {
        search_peak(&f, &tmp);
        fold_end(&f.folded);
    }
    merge_end(&f.merged);
    *bound = f.bound;
    *peak = f.peak;
    *choice = f.found ? arena_dup(a, f.best, sizeof *f.best * (size_t)MAX(1, n->nnode)) : NULL;
    arena_fini(&tmp);
}
