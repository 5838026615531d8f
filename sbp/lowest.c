/* lowest.c - the least peak, by halving limits. */
#include "sbp/lowest.h"

#include "sbp/divisor.h"
#include "sbp/limited.h"
#include "sbp/squeeze.h"

enum { NODES = 300, WORK = 50000000 };

bool
lowest_is_sought(const struct net *n)
{
    return n->nnode <= NODES;
}

int64_t
lowest_work(void)
{
    return WORK;
}

/* ---- what every peak is ---- */

static int64_t
divide_all(int64_t unit, const int64_t *bytes, int64_t n)
{
    for (int64_t k = 0; bytes && k < n && unit != 1; k++) unit = common_divisor(unit, bytes[k]);
    return unit;
}

/* All peaks are multiples of it. */
static int64_t
unit_of(const struct net *n)
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

static int64_t
least_of(const int64_t *bytes, int32_t n)
{
    int64_t least = bytes[0];
    for (int32_t k = 1; k < n; k++) least = MIN(least, bytes[k]);
    return least;
}

/* No peak is below it: each by itself takes its least. */
static int64_t
peak_alone(const struct net *n)
{
    struct arena tmp = {0};
    int32_t end = net_times(n);
    int64_t *live = ARENA_ARRAY(&tmp, int64_t, end + 1), most = 0;
    for (int32_t i = 0; i < n->nnode; i++) {
        if (!n->node[i].memory) continue;
        live[n->node[i].time] += least_of(n->node[i].memory, n->node[i].ncand);
        live[n->node[i].time + 1] -= least_of(n->node[i].memory, n->node[i].ncand);
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        if (!t->bytes || t->dies <= t->born) continue;
        live[t->born] += least_of(t->bytes, t->nfrom);
        live[t->dies] -= least_of(t->bytes, t->nfrom);
    }
    for (int32_t t = 0; t < end; t++) {
        if (t) live[t] += live[t - 1];
        most = MAX(most, live[t]);
    }
    arena_fini(&tmp);
    return most;
}

/* ---- halving ---- */

/* The least peak that a search within so many bytes saw; *choice: one that it found. */
static int64_t
peak_within(struct arena *a, const struct net *n, int64_t bytes, const struct solve_options *o, const int32_t **choice)
{
    struct arena tmp = {0};
    struct net limited = *n;
    struct copies copies;
    limited.memory_limit = bytes;
    bool apart = copies_begin(&tmp, &limited, &copies);
    const struct net *whole = apart ? &copies.apart : &limited;
    struct best r = {.cost = NET_NEVER, .choice = ARENA_ARRAY(&tmp, int32_t, whole->nnode + 1)};
    int64_t peak = INT64_MAX, end = net_times(whole) + 1, *price = ARENA_ARRAY(&tmp, int64_t, end);
    squeeze(&limited, o, o->start, &r, price, &peak);
    if (r.cost >= NET_NEVER)
        limited_solve(whole, apart ? &copies : NULL, o, &r, price, &peak, ARENA_ARRAY(&tmp, int64_t, end));
    *choice = r.cost < NET_NEVER ? arena_dup(a, r.choice, sizeof **choice * (size_t)MAX(1, n->nnode)) : NULL;
    arena_fini(&tmp);
    return peak;
}

int64_t
lowest_peak(struct arena *a, const struct net *n, const struct solve_options *o, int64_t peak, const int32_t **choice)
{
    *choice = NULL;
    if (!lowest_is_sought(n)) return peak;
    int64_t unit = unit_of(n), bad = (peak_alone(n) - 1) / unit, good = peak / unit, left = WORK;
    struct solve_options counted = {.start = o->start, .work = &left, .within = n->memory_limit};
    while (good - bad > 1 && left > 0 && !(o->stop && o->stop(o->arg))) {
        int64_t half = bad + (good - bad) / 2, found = peak_within(a, n, half * unit, &counted, choice);
        if (*choice && net_peak(n, *choice) <= n->memory_limit) return n->memory_limit;
        good = MIN(good, found / unit);
        if (good > half) bad = half;
    }
    *choice = NULL;
    return good * unit;
}
