/* lowest.c - least peak memory: lower bound, bisection of the limit, branching. */
#include "sbp/limit/lowest.h"

#include "sbp/limit/peak_bound.h"
#include "sbp/limit/limited.h"
#include "sbp/limit/squeeze.h"
#include "sbp/net/work.h"

enum { NODES = 300, WORK = 150000000 };

bool
lowest_is_sought(const struct net *n)
{
    return n->nnode <= NODES;
}

int64_t
lowest_until(void)
{
    return work_done() + WORK;
}

/* ---- bisection ---- */

/* Returns the least peak seen by a search with this limit; *choice: the choice within it that was found; NULL: none. */
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

/* Bisects limits between the bound and the known peak. Returns the least peak found; *choice: as in lowest.h. */
static int64_t
halve(struct arena *a, const struct net *n, const struct solve_options *o, int64_t bound, int64_t peak,
      const int32_t **choice)
{
    int64_t unit = peak_bound_unit(n), bad = (bound - 1) / unit, good = peak / unit;
    struct solve_options counted = {.start = o->start, .until = lowest_until(), .within = n->memory_limit};
    while (good - bad > 1 && work_done() < counted.until && !(o->stop && o->stop(o->arg))) {
        int64_t half = bad + (good - bad) / 2, found = peak_within(a, n, half * unit, &counted, choice);
        if (*choice && net_peak(n, *choice) <= n->memory_limit) return n->memory_limit;
        good = MIN(good, found / unit);
        if (good > half) bad = half;
    }
    *choice = NULL;
    return good * unit;
}

int64_t
lowest_peak(struct arena *a, const struct net *n, const struct solve_options *o, int64_t peak, int64_t *bound,
            const int32_t **choice)
{
    *choice = NULL;
    *bound = peak_bound_alone(n);
    if (!lowest_is_sought(n)) return peak;
    for (int split = 0; split < 2 && *bound < peak; split++) {
        struct peak_bound_options f = {.until = lowest_until(), .split = split, .stop = o->stop, .arg = o->arg};
        peak_bound_find(a, n, &f, bound, &peak, choice);
        if (*choice && peak <= n->memory_limit) return peak;
        *choice = NULL;
        if (!split && *bound < peak) peak = halve(a, n, o, *bound, peak, choice);
        if (*choice) return peak;
    }
    return peak;
}
