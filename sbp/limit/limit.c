/* limit.c - Lagrangian prices of memory: costs of bytes at given prices, and subgradient steps. */
#include "sbp/limit/limit.h"

#include "sbp/net/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IDLE = 6 }; /* number of steps without gain after which the step length shrinks */

/* ---- listing the relevant times ---- */

static int64_t
most_bytes_of_node(const struct net_node *v, const int64_t *bytes, const uint16_t *form)
{
    int64_t most = 0;
    for (int32_t k = 0; k < v->ncand; k++)
        if (v->cost[k] < NET_NEVER) most = MAX(most, bytes[form ? form[k] : k]);
    return most;
}

/* Changes of live bytes at one time. begin, more: number of the live ranges that begin at this time, and the sum
 * of their largest possible bytes. end, less: the same numbers for the live ranges whose last time this is. */
struct happening {
    int32_t begin, end;
    int64_t more, less;
};

static void
happens(struct happening *h, int32_t born, int32_t dies, int64_t bytes)
{
    if (bytes <= 0 || dies <= born) return;
    h[born].begin++;
    h[born].more += bytes;
    h[dies - 1].end++;
    h[dies - 1].less += bytes;
}

/* Lists the relevant times; returns their number. A time is relevant if three conditions hold: choices may exceed
 * the limit at this time, a live range ends with this time, and a live range has begun since the last end of any
 * live range. */
static int32_t
list_happening_times(const struct net *n, const struct happening *h, int32_t end, int32_t *time)
{
    int32_t count = 0;
    int64_t live = 0;
    bool begun = false;
    for (int32_t t = 0; t < end; t++) {
        begun = begun || h[t].begin;
        live += h[t].more;
        if (begun && h[t].end && live > n->memory_limit) time[count++] = t;
        if (h[t].end) begun = false;
        live -= h[t].less;
    }
    return count;
}

/* Returns the number of listed times before t. */
static int32_t
first_time_from(const int32_t *time, int32_t ntime, int32_t t)
{
    int32_t low = 0, high = ntime;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if (time[middle] < t)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct net *
limit_times(struct arena *a, const struct net *n, int32_t **time, int32_t *ntime)
{
    struct net *to = arena_dup(a, n, sizeof *n);
    int32_t end = net_times(n);
    struct happening *h = must_alloc(sizeof *h * (size_t)(end + 1));
    to->node = arena_dup(a, n->node, sizeof *n->node * (size_t)MAX(1, n->nnode));
    to->tensor = arena_dup(a, n->tensor, sizeof *n->tensor * (size_t)MAX(1, n->ntensor));
    for (int32_t i = 0; i < n->nnode; i++)
        if (n->node[i].memory)
            happens(h, n->node[i].time, n->node[i].time + 1, most_bytes_of_node(&n->node[i], n->node[i].memory, NULL));
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        if (t->bytes) happens(h, t->born, t->dies, most_bytes_of_node(&n->node[t->maker], t->bytes, t->form));
    }
    *time = ARENA_ARRAY(a, int32_t, end + 1);
    *ntime = list_happening_times(n, h, end, *time);
    free(h);
    for (int32_t i = 0; i < n->nnode; i++) {
        int32_t at = first_time_from(*time, *ntime, n->node[i].time);
        bool matters = at < *ntime && (*time)[at] == n->node[i].time;
        to->node[i].time = matters ? at : 0;
        if (!matters) to->node[i].memory = NULL;
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        to->tensor[i].born = first_time_from(*time, *ntime, n->tensor[i].born);
        to->tensor[i].dies = first_time_from(*time, *ntime, n->tensor[i].dies);
        to->tensor[i].copy = NULL;
    }
    return to;
}

/* ---- bounding the peak from below ---- */

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
limit_least_peak(const struct net *n)
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

/* ---- pricing bytes, and improving the prices ---- */

static void
list_tensors(struct limit *m)
{
    const struct net *n = m->net;
    m->first = ARENA_ARRAY(&m->arena, int32_t, n->nnode + 2);
    m->tensor = ARENA_ARRAY(&m->arena, int32_t, n->ntensor + 1);
    for (int32_t i = 0; i < n->ntensor; i++)
        if (n->tensor[i].bytes && n->tensor[i].dies > n->tensor[i].born) m->first[n->tensor[i].maker + 2]++;
    for (int32_t i = 0; i < n->nnode; i++) m->first[i + 2] += m->first[i + 1];
    for (int32_t i = 0; i < n->ntensor; i++)
        if (n->tensor[i].bytes && n->tensor[i].dies > n->tensor[i].born)
            m->tensor[m->first[n->tensor[i].maker + 1]++] = i;
}

void
limit_begin(struct limit *m, const struct net *n)
{
    *m = (struct limit){.net = n, .ntime = net_times(n)};
    m->price = ARENA_ARRAY(&m->arena, int64_t, m->ntime);
    m->sum = ARENA_ARRAY(&m->arena, int64_t, m->ntime + 1);
    m->live = ARENA_ARRAY(&m->arena, int64_t, m->ntime + 1);
    m->way = ARENA_ARRAY(&m->arena, double, m->ntime);
    m->best_way = ARENA_ARRAY(&m->arena, double, m->ntime);
    m->best_price = ARENA_ARRAY(&m->arena, int64_t, m->ntime);
    list_tensors(m);
    m->extra = ARENA_ARRAY(&m->arena, int64_t *, MAX(1, n->nnode));
    for (int32_t i = 0; i < n->nnode; i++) m->extra[i] = ARENA_ARRAY(&m->arena, int64_t, n->node[i].ncand);
}

void
limit_end(struct limit *m)
{
    arena_fini(&m->arena);
}

int64_t
limit_worth(int64_t price, int64_t bytes, int64_t most)
{
    __extension__ typedef __int128 wide;
    wide x = (wide)price * bytes >> LIMIT_SHIFT;
    return x >= most ? most : (int64_t)x;
}

/* Returns the cost of bytes at a price, capped at NET_NEVER / 64. limit_price() halves the prices until all sums of
 * costs are below the cap. */
static int64_t
limit_bytes_worth(int64_t price, int64_t bytes)
{
    return limit_worth(price, bytes, NET_NEVER / 64);
}

static void
price_tensor(struct limit *m, const struct net_tensor *t)
{
    int64_t price = m->sum[t->dies] - m->sum[t->born], *extra = m->extra[t->maker];
    for (int32_t k = 0; price && k < m->net->node[t->maker].ncand; k++)
        extra[k] = MIN(NET_NEVER / 64, extra[k] + limit_bytes_worth(price, t->bytes[t->form[k]]));
}

/* Fills in two arrays from the prices: m->sum, their prefix sums, and m->extra, the cost of each candidate's
 * bytes. Returns an upper bound on the sum of all these costs and of the memory limit times the sum of the prices. */
static double
fill_peaks(struct limit *m)
{
    const struct net *n = m->net;
    double all = 0;
    for (int32_t t = 0; t < m->ntime; t++) m->sum[t + 1] = m->sum[t] + m->price[t];
    for (int32_t i = 0; i < n->nnode; i++) {
        const struct net_node *v = &n->node[i];
        int64_t most = 0;
        work_add(v->ncand * (2 + 3 * (int64_t)(m->first[i + 1] - m->first[i])));
        for (int32_t k = 0; k < v->ncand; k++)
            m->extra[i][k] = v->memory ? limit_bytes_worth(m->price[v->time], v->memory[k]) : 0;
        for (int32_t k = m->first[i]; k < m->first[i + 1]; k++) price_tensor(m, &n->tensor[m->tensor[k]]);
        for (int32_t k = 0; k < v->ncand; k++) most = MAX(most, m->extra[i][k]);
        all += (double)most;
    }
    return all + (double)limit_bytes_worth(m->sum[m->ntime], n->memory_limit);
}

int64_t
limit_price(struct limit *m)
{
    while (fill_peaks(m) > (double)(NET_NEVER / 64))
        for (int32_t t = 0; t < m->ntime; t++) m->price[t] /= 2;
    return limit_bytes_worth(m->sum[m->ntime], m->net->memory_limit) + 1;
}

int64_t
limit_live(struct limit *m, const int32_t *choice)
{
    return net_live(m->net, choice, m->live);
}

/* Sets the step direction to the subgradient. If the subgradient and the last direction form an obtuse angle, adds a
 * multiple of the last direction, so that the new direction and the last one form no obtuse angle (deflected
 * subgradient: Camerini, Fratta & Maffioli 1975). */
static void
deflect(struct limit *m)
{
    double limit = (double)m->net->memory_limit, cross = 0, old = 0;
    for (int32_t t = 0; t < m->ntime; t++) {
        double over = (double)m->live[t] / limit - 1;
        if (over <= 0 && m->price[t] == 0) m->way[t] = MAX(0, m->way[t]);
        cross += over * m->way[t];
        old += m->way[t] * m->way[t];
    }
    double keep = cross < 0 && old > 0 ? -1.5 * cross / old : 0;
    for (int32_t t = 0; t < m->ntime; t++) m->way[t] = (double)m->live[t] / limit - 1 + keep * m->way[t];
}

/* Shortens the step length, and returns to the best prices so far. */
static void
shorten_times(struct limit *m)
{
    m->pace *= 0.6;
    m->idle = 0;
    memcpy(m->price, m->best_price, sizeof *m->price * (size_t)m->ntime);
    memcpy(m->way, m->best_way, sizeof *m->way * (size_t)m->ntime);
}

void
limit_step(struct limit *m, double bound, double goal)
{
    double limit = (double)m->net->memory_limit, norm = 0;
    if (m->steps++ == 0) {
        memset(m->way, 0, sizeof *m->way * (size_t)m->ntime);
        m->pace = 1;
        m->best = -INFINITY;
    }
    deflect(m);
    m->idle++;
    if (bound > m->best) {
        m->best = bound;
        m->idle = 0;
        memcpy(m->best_price, m->price, sizeof *m->price * (size_t)m->ntime);
        memcpy(m->best_way, m->way, sizeof *m->way * (size_t)m->ntime);
    } else if (m->idle >= IDLE) {
        shorten_times(m);
        bound = m->best;
    }
    for (int32_t t = 0; t < m->ntime; t++)
        if (m->way[t] > 0 || m->price[t] > 0) norm += m->way[t] * m->way[t];
    if (norm <= 0) return;
    double step = m->pace * MAX(goal - bound, 1) / norm / limit * (1 << LIMIT_SHIFT), most = 0x1p60 / m->ntime;
    for (int32_t t = 0; t < m->ntime; t++) {
        double price = (double)m->price[t] + step * m->way[t];
        m->price[t] = price <= 0 ? 0 : (int64_t)MIN(price, most);
    }
}
