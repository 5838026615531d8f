/* net.c - defines the cost and the memory of a choice. The search and the checker follow these definitions. */
#include "sbp/net/net.h"

#include "runtime/base/error.h"
#include "runtime/data/hash.h"
#include "sbp/net/work.h"

#include <string.h>

/* Returns the cost of converting a tensor to the layouts that its readers need; each layout counts once. seen[k] ==
 * mark: layout k has been counted; `mark` must differ for each tensor. */
static int64_t
net_tensor_cost(const struct net_tensor *t, const int32_t *choice, int32_t *seen, int32_t mark)
{
    int64_t sum = 0;
    work_add(4 + 3 * (int64_t)t->nuse);
    for (int32_t k = 0; k < t->nuse; k++) {
        int32_t to = t->use[k].form[choice[t->use[k].node]];
        if (seen[to] == mark) continue;
        seen[to] = mark;
        int64_t price = t->price[(int64_t)t->form[choice[t->maker]] * t->nto + to];
        if (price >= NET_NEVER) return NET_NEVER;
        sum += price;
    }
    return sum;
}

static int32_t
most_forms(const struct net *n)
{
    int32_t most = 1;
    for (int32_t i = 0; i < n->ntensor; i++) most = MAX(most, n->tensor[i].nto);
    return most;
}

int64_t
net_cost(const struct net *n, const int32_t *choice)
{
    int64_t sum = 0;
    struct arena tmp = {0};
    int32_t *seen = ARENA_ARRAY(&tmp, int32_t, most_forms(n));
    for (int32_t i = 0; i < n->nnode && sum < NET_NEVER; i++) {
        int64_t c = n->node[i].cost[choice[i]];
        sum = c >= NET_NEVER ? NET_NEVER : sum + c;
    }
    for (int32_t i = 0; i < n->ntensor && sum < NET_NEVER; i++) {
        int64_t c = net_tensor_cost(&n->tensor[i], choice, seen, i + 1);
        sum = c >= NET_NEVER ? NET_NEVER : sum + c;
    }
    arena_fini(&tmp);
    return sum;
}

int32_t
net_times(const struct net *n)
{
    int32_t last = 1;
    for (int32_t i = 0; i < n->nnode; i++) last = MAX(last, n->node[i].time + 1);
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        last = MAX(last, MAX(t->dies, t->credit ? n->round_end : 0));
        for (int32_t k = 0; t->copy && k < t->nuse; k++) last = MAX(last, t->use[k].end);
    }
    return last;
}

int64_t
net_others(const struct net *n, const struct net_tensor *t, int32_t begin, int32_t end)
{
    return t->credit ? t->credit[n->moment[begin] * n->nmoment + n->moment[end - 1]] - 1 : 0;
}

/* Returns true if an earlier reader needs the same converted copy of the tensor. */
static bool
is_use_shared(const struct net_tensor *t, const int32_t *choice, int32_t use, int32_t to)
{
    for (int32_t k = 0; k < use; k++)
        if (t->use[k].form[choice[t->use[k].node]] == to) return true;
    return false;
}

/* Adds the bytes of a tensor's converted copies to the changes of live bytes. A copy is live from its first to its
 * last reader. */
static void
copies_live(const struct net *n, const struct net_tensor *t, const int32_t *choice, int64_t *live)
{
    const int64_t *copy = t->copy + (int64_t)t->form[choice[t->maker]] * t->nto;
    work_add((int64_t)t->nuse * (2 + t->nuse));
    for (int32_t k = 0; k < t->nuse; k++) {
        int32_t to = t->use[k].form[choice[t->use[k].node]], begin = t->use[k].begin, end = t->use[k].end;
        if (copy[to] == 0 || is_use_shared(t, choice, k, to)) continue;
        for (int32_t j = k + 1; j < t->nuse; j++) {
            if (t->use[j].form[choice[t->use[j].node]] != to) continue;
            begin = MIN(begin, t->use[j].begin);
            end = MAX(end, t->use[j].end);
        }
        int64_t others = copy[to] * net_others(n, t, begin, end);
        live[begin] += copy[to];
        live[end] -= copy[to];
        live[n->round_begin] += others;
        live[n->round_end] -= others;
    }
}

int64_t
net_live(const struct net *n, const int32_t *choice, int64_t *live)
{
    int32_t end = net_times(n);
    int64_t peak = 0;
    work_add(2 * (int64_t)end + 4 * (int64_t)n->nnode + 8 * (int64_t)n->ntensor);
    memset(live, 0, sizeof *live * (size_t)(end + 1));
    for (int32_t i = 0; i < n->nnode; i++) {
        if (!n->node[i].memory) continue;
        live[n->node[i].time] += n->node[i].memory[choice[i]];
        live[n->node[i].time + 1] -= n->node[i].memory[choice[i]];
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        if (t->copy) copies_live(n, t, choice, live);
        if (!t->bytes || t->dies <= t->born) continue;
        live[t->born] += t->bytes[t->form[choice[t->maker]]];
        live[t->dies] -= t->bytes[t->form[choice[t->maker]]];
    }
    for (int32_t t = 0; t < end; t++) {
        if (t) live[t] += live[t - 1];
        peak = MAX(peak, live[t]);
    }
    return peak;
}

int64_t
net_peak(const struct net *n, const int32_t *choice)
{
    struct arena tmp = {0};
    int64_t peak = net_live(n, choice, ARENA_ARRAY(&tmp, int64_t, net_times(n) + 1));
    arena_fini(&tmp);
    return peak;
}

/* ---- finding tensors with equal tables ---- */

static bool
has_same_tables(const struct net_tensor *t, const struct net_tensor *u)
{
    return t->price == u->price && t->moved == u->moved && t->nfrom * t->nto == u->nfrom * u->nto;
}

const int32_t *
net_same_tables(struct arena *a, const struct net *n)
{
    struct arena tmp = {0};
    struct hash_table known = {.arena = &tmp};
    int32_t *same = ARENA_ARRAY(a, int32_t, n->ntensor + 1);
    for (int32_t i = 0; i < n->ntensor; i++) {
        const struct net_tensor *t = &n->tensor[i];
        uint64_t hash = hash_number(hash_address(t->price), (uintptr_t)t->moved);
        uint32_t at = 0;
        const void *first = NULL;
        same[i] = i;
        if (!t->nuse) continue;
        while ((first = hash_next(&known, hash, &at)) && !has_same_tables(t, &n->tensor[hash_index_of(first)]))
            continue;
        if (first)
            same[i] = hash_index_of(first);
        else
            hash_add(&known, hash, hash_index(i));
    }
    arena_fini(&tmp);
    return same;
}

/* ---- checking that a net is valid ---- */

/* Checks that costs are in range. *most: the largest possible cost. */
static int
check_net_costs(const int64_t *cost, int64_t n, const char *what, int32_t of, int64_t *most)
{
    *most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (cost[i] < 0) return fail(E_PLAN, "cost network: %s %d has a negative cost", what, (int)of);
        if (cost[i] < NET_NEVER) *most = MAX(*most, cost[i]);
    }
    return 0;
}

static int
add_most(int64_t most, int64_t *sum)
{
    if (most > NET_NEVER - *sum)
        return fail(E_PLAN, "internal error: the sum of the costs of a plan exceeds %lld; please report it",
                    (long long)NET_NEVER);
    *sum += most;
    return 0;
}

static int
check_net_node(const struct net *n, int32_t i, int64_t *most)
{
    const struct net_node *v = &n->node[i];
    if (v->ncand < 1 || v->ncand > UINT16_MAX)
        return fail(E_PLAN, "cost network: node %d must have 1 to 65535 candidates, found %d", (int)i, (int)v->ncand);
    if (v->time < 0)
        return fail(E_PLAN, "cost network: node %d has time %d; a time must not be negative", (int)i, (int)v->time);
    return check_net_costs(v->cost, v->ncand, "node", i, most);
}

static int
check_forms(const struct net *n, int32_t node, const uint16_t *form, int32_t nform, int32_t tensor)
{
    if (node < 0 || node >= n->nnode)
        return fail(E_PLAN, "cost network: tensor %d names node %d, which does not exist", (int)tensor, (int)node);
    for (int32_t c = 0; c < n->node[node].ncand; c++)
        if (form[c] >= nform) return fail(E_PLAN, "cost network: tensor %d has no form %d", (int)tensor, (int)form[c]);
    return 0;
}

/* Checks a tensor. looked true: another tensor with the same tables was checked before, and *most is set. */
static int
check_tensor(const struct net *n, int32_t i, bool looked, int64_t *most)
{
    const struct net_tensor *t = &n->tensor[i];
    TRY(check_forms(n, t->maker, t->form, t->nfrom, i));
    for (int32_t k = 0; k < t->nuse; k++) TRY(check_forms(n, t->use[k].node, t->use[k].form, t->nto, i));
    if (t->born < 0)
        return fail(E_PLAN, "cost network: tensor %d is produced at time %d; a time must not be negative", (int)i,
                    (int)t->born);
    for (int32_t k = 0; t->copy && k < t->nuse; k++)
        if (t->use[k].begin < 0 || t->use[k].end <= t->use[k].begin)
            return fail(E_PLAN, "cost network: tensor %d must be read in a range of times from 0 on, found %d to %d",
                        (int)i, (int)t->use[k].begin, (int)t->use[k].end);
    return t->nuse && !looked ? check_net_costs(t->price, (int64_t)t->nfrom * t->nto, "tensor", i, most) : 0;
}

static int
check_all(const struct net *n, const int32_t *same, int64_t *most)
{
    int64_t sum = 0, alone = 0;
    for (int32_t i = 0; i < n->nnode; i++) {
        TRY(check_net_node(n, i, &alone));
        TRY(add_most(alone, &sum));
    }
    for (int32_t i = 0; i < n->ntensor; i++) {
        most[i] = most[same[i]];
        TRY(check_tensor(n, i, same[i] < i, &most[i]));
        TRY(add_most(most[i], &sum));
    }
    return 0;
}

int
net_check(const struct net *n)
{
    if (n->memory_limit < 0)
        return fail(E_PLAN, "cost network: the memory limit must not be negative, found %lld bytes",
                    (long long)n->memory_limit);
    struct arena tmp = {0};
    int status = check_all(n, net_same_tables(&tmp, n), ARENA_ARRAY(&tmp, int64_t, n->ntensor + 1));
    arena_fini(&tmp);
    return status;
}
