/* limit.c - prices of memory, and choices that meet a limit. */
#include "sbp/limit.h"

#include <math.h>
#include <string.h>

void
limit_begin(struct limit *m, const struct net *n)
{
    *m = (struct limit){.net = n, .ntime = net_times(n)};
    m->price = ARENA_ARRAY(&m->arena, int64_t, m->ntime);
    m->sum = ARENA_ARRAY(&m->arena, int64_t, m->ntime + 1);
    m->live = ARENA_ARRAY(&m->arena, int64_t, m->ntime + 1);
    m->extra = ARENA_ARRAY(&m->arena, int64_t *, MAX(1, n->nnode));
    for (int32_t i = 0; i < n->nnode; i++) m->extra[i] = ARENA_ARRAY(&m->arena, int64_t, n->node[i].ncand);
}

void
limit_end(struct limit *m)
{
    arena_fini(&m->arena);
}

static int64_t
worth(int64_t price, int64_t bytes)
{
    __extension__ typedef __int128 wide;
    wide x = (wide)price * bytes >> LIMIT_SHIFT;
    return x >= NET_NEVER / 1024 ? NET_NEVER / 1024 : (int64_t)x;
}

int64_t
limit_price(struct limit *m)
{
    const struct net *n = m->net;
    for (int32_t t = 0; t < m->ntime; t++) m->sum[t + 1] = m->sum[t] + m->price[t];
    for (int32_t i = 0; i < n->nnode; i++) {
        const struct net_node *v = &n->node[i];
        for (int32_t k = 0; k < v->ncand; k++) m->extra[i][k] = v->memory ? worth(m->price[v->time], v->memory[k]) : 0;
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        if (!t->bytes || t->dies <= t->born) continue;
        int64_t price = m->sum[t->dies] - m->sum[t->born];
        for (int32_t k = 0; price && k < n->node[t->maker].ncand; k++)
            m->extra[t->maker][k] += worth(price, t->bytes[t->form[k]]);
    }
    return worth(m->sum[m->ntime], n->memory_limit) + 1;
}

int64_t
limit_live(struct limit *m, const int32_t *choice)
{
    const struct net *n = m->net;
    int64_t peak = 0;
    memset(m->live, 0, sizeof *m->live * (size_t)(m->ntime + 1));
    for (int32_t i = 0; i < n->nnode; i++) {
        if (!n->node[i].memory) continue;
        m->live[n->node[i].time] += n->node[i].memory[choice[i]];
        m->live[n->node[i].time + 1] -= n->node[i].memory[choice[i]];
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        if (!t->bytes || t->dies <= t->born) continue;
        m->live[t->born] += t->bytes[t->form[choice[t->maker]]];
        m->live[t->dies] -= t->bytes[t->form[choice[t->maker]]];
    }
    for (int32_t t = 0; t < m->ntime; t++) {
        if (t) m->live[t] += m->live[t - 1];
        peak = MAX(peak, m->live[t]);
    }
    return peak;
}

void
limit_step(struct limit *m, double bound, double goal, double pace)
{
    double limit = (double)m->net->memory_limit, norm = 0;
    for (int32_t t = 0; t < m->ntime; t++) {
        double over = (double)m->live[t] / limit - 1;
        if (over > 0 || m->price[t] > 0) norm += over * over;
    }
    if (norm <= 0) return;
    double step = pace * MAX(goal - bound, 1) / norm / limit * (1 << LIMIT_SHIFT);
    for (int32_t t = 0; t < m->ntime; t++) {
        double price = (double)m->price[t] + step * ((double)m->live[t] / limit - 1);
        m->price[t] = price <= 0 ? 0 : price > 0x1p60 / m->ntime ? (int64_t)(0x1p60 / m->ntime) : (int64_t)price;
    }
}

/* ---- repair ---- */

static int32_t
fullest(const struct limit *m)
{
    int32_t best = 0;
    for (int32_t t = 1; t < m->ntime; t++)
        if (m->live[t] > m->live[best]) best = t;
    return best;
}

static int64_t
bytes_at(const struct net *n, const struct local *l, int32_t node, int32_t k, int32_t time)
{
    const struct net_node *v = &n->node[node];
    int64_t sum = v->memory && v->time == time ? v->memory[k] : 0;
    for (int32_t i = l->first[node]; i < l->first[node + 1]; i++) {
        const struct net_tensor *t = &n->tensor[l->tensor[i]];
        if (t->maker == node && t->bytes && t->born <= time && time < t->dies) sum += t->bytes[t->form[k]];
    }
    return sum;
}

static void
account(struct limit *m, const struct local *l, int32_t node, int32_t k, int sign)
{
    const struct net *n = m->net;
    const struct net_node *v = &n->node[node];
    if (v->memory) m->live[v->time] += sign * v->memory[k];
    for (int32_t i = l->first[node]; i < l->first[node + 1]; i++) {
        const struct net_tensor *t = &n->tensor[l->tensor[i]];
        if (t->maker != node || !t->bytes) continue;
        for (int32_t at = t->born; at < t->dies; at++) m->live[at] += sign * t->bytes[t->form[k]];
    }
}

/* The change that costs least for each byte it frees at that time; a change that frees more than is wanted is judged by
 * what is wanted. */
static bool
best_change(struct limit *m, struct local *l, int32_t time, int64_t wanted, int32_t *node, int32_t *cand)
{
    const struct net *n = m->net;
    double least = INFINITY;
    for (int32_t i = 0; i < n->nnode; i++) {
        int64_t now = bytes_at(n, l, i, l->choice[i], time), cost = -1;
        for (int32_t k = 0; now > 0 && k < n->node[i].ncand; k++) {
            int64_t freed = now - bytes_at(n, l, i, k, time);
            if (freed <= 0) continue;
            if (cost < 0) cost = local_cost(l, i, l->choice[i]);
            int64_t then = local_cost(l, i, k);
            if (then >= NET_NEVER) continue;
            double rate = ((double)(then - cost) + 1) / (double)MIN(freed, wanted);
            if (rate >= least) continue;
            least = rate;
            *node = i;
            *cand = k;
        }
    }
    return least < INFINITY;
}

bool
limit_repair(struct limit *m, struct local *l)
{
    limit_live(m, l->choice);
    for (int32_t step = 0; step < 4 * m->net->nnode; step++) {
        int32_t t = fullest(m), node = 0, cand = 0;
        if (m->live[t] <= m->net->memory_limit) return true;
        if (!best_change(m, l, t, m->live[t] - m->net->memory_limit, &node, &cand)) return false;
        account(m, l, node, l->choice[node], -1);
        l->choice[node] = cand;
        account(m, l, node, cand, 1);
    }
    return false;
}
