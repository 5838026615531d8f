/* call_cost.c - assigns the nodes of a solved net to the calls that made the net. */
#include "actors/session/planner/call_cost.h"

#include <string.h>

struct sharing {
    const struct net *net;
    const int32_t *choice;
    struct arena tmp;
    int32_t *call;       /* by net node; 0: not reached from a call */
    int32_t *first, *at; /* tensors that node v makes or reads: at[first[v]] to at[first[v + 1] - 1] */
    int32_t *queue, nqueue;
};

/* Returns net node number k of tensor t: the maker, then the readers. */
static int32_t
touched(const struct net_tensor *t, int32_t k)
{
    return k ? t->use[k - 1].node : t->maker;
}

static void
find_tensors(struct sharing *w)
{
    const struct net *n = w->net;
    w->first = ARENA_ARRAY(&w->tmp, int32_t, n->nnode + 2);
    for (int32_t i = 0; i < n->ntensor; i++)
        for (int32_t k = 0; k <= n->tensor[i].nuse; k++) w->first[touched(&n->tensor[i], k) + 2]++;
    for (int32_t v = 2; v <= n->nnode + 1; v++) w->first[v] += w->first[v - 1];
    w->at = ARENA_ARRAY(&w->tmp, int32_t, w->first[n->nnode + 1] + 1);
    for (int32_t i = 0; i < n->ntensor; i++)
        for (int32_t k = 0; k <= n->tensor[i].nuse; k++) w->at[w->first[touched(&n->tensor[i], k) + 1]++] = i;
}

/* Queues the calls' own nodes, in the order of calls. A node that several calls made belongs to the first. */
static void
begin_sharing(struct sharing *w, const struct assigned *a, const struct program *p, int32_t ncall)
{
    int32_t *next = ARENA_ARRAY(&w->tmp, int32_t, ncall + 2);
    for (int32_t i = 0; i < a->nprog; i++) {
        int32_t v = a->node[i], call = p->node[i].call;
        if (v >= 0 && call && (!w->call[v] || call < w->call[v])) w->call[v] = call;
    }
    for (int32_t v = 0; v < w->net->nnode; v++)
        if (w->call[v]) next[w->call[v] + 1]++, w->nqueue++;
    for (int32_t c = 1; c <= ncall + 1; c++) next[c] += next[c - 1];
    for (int32_t v = 0; v < w->net->nnode; v++)
        if (w->call[v]) w->queue[next[w->call[v]]++] = v;
}

/* Spreads breadth-first from the calls: the first node to reach a tensor passes its call to all nodes of the tensor. */
static void
spread_queue(struct sharing *w)
{
    bool *seen = ARENA_ARRAY(&w->tmp, bool, w->net->ntensor + 1);
    for (int32_t q = 0; q < w->nqueue; q++) {
        int32_t v = w->queue[q];
        for (int32_t j = w->first[v]; j < w->first[v + 1]; j++) {
            const struct net_tensor *t = &w->net->tensor[w->at[j]];
            if (seen[w->at[j]]) continue;
            seen[w->at[j]] = true;
            for (int32_t k = 0; k <= t->nuse; k++) {
                int32_t to = touched(t, k);
                if (w->call[to]) continue;
                w->call[to] = w->call[v];
                w->queue[w->nqueue++] = to;
            }
        }
    }
}

/* Adds the moves of a tensor. A tensor is moved once to each form; the first call that needs the form pays. */
static void
add_moves(struct sharing *w, const struct net_tensor *t, int64_t *ns)
{
    struct arena tmp = {0};
    int32_t *reader = ARENA_ARRAY(&tmp, int32_t, t->nto + 1);
    const int64_t *price = t->price ? t->price + (int64_t)t->form[w->choice[t->maker]] * t->nto : NULL;
    memset(reader, -1, sizeof *reader * (size_t)t->nto);
    for (int32_t k = 0; k < t->nuse && price; k++) {
        int32_t *r = &reader[t->use[k].form[w->choice[t->use[k].node]]], call = w->call[t->use[k].node];
        if (*r < 0 || call < *r) *r = call;
    }
    for (int32_t to = 0; to < t->nto && price; to++)
        if (reader[to] >= 0) ns[reader[to]] += price[to];
    arena_fini(&tmp);
}

/* Does everything but the costs. */
static void
share_by_call(struct sharing *w, const struct assigned *a, const struct program *p, int32_t ncall)
{
    *w = (struct sharing){.net = &a->net, .choice = a->solved.choice};
    w->call = ARENA_ARRAY(&w->tmp, int32_t, a->net.nnode + 1);
    w->queue = ARENA_ARRAY(&w->tmp, int32_t, a->net.nnode + 1);
    find_tensors(w);
    begin_sharing(w, a, p, ncall);
    spread_queue(w);
}

void
call_cost_times(const struct assigned *a, const struct program *p, int32_t ncall, int64_t *ns)
{
    struct sharing w;
    share_by_call(&w, a, p, ncall);
    memset(ns, 0, sizeof *ns * (size_t)(ncall + 1));
    for (int32_t v = 0; v < a->net.nnode; v++) ns[w.call[v]] += a->net.node[v].cost[w.choice[v]];
    for (int32_t i = 0; i < a->net.ntensor; i++) add_moves(&w, &a->net.tensor[i], ns);
    arena_fini(&w.tmp);
}

/* ---- memory ---- */

static int32_t
fullest_time(struct sharing *w)
{
    int32_t end = net_times(w->net), most = 0;
    int64_t *live = ARENA_ARRAY(&w->tmp, int64_t, end + 1);
    net_live(w->net, w->choice, live);
    for (int32_t t = 1; t < end; t++)
        if (live[t] > live[most]) most = t;
    return most;
}

/* Adds the live bytes of a tensor and its copies: the tensor to the maker's call, each copy to the reader's call. */
static void
add_live_bytes(const struct sharing *w, const struct net_tensor *t, int32_t time, int64_t *bytes)
{
    int32_t from = t->form[w->choice[t->maker]];
    if (t->bytes && t->born <= time && time < t->dies) bytes[w->call[t->maker]] += t->bytes[from];
    for (int32_t k = 0; k < t->nuse && t->copy; k++) {
        const struct net_use *u = &t->use[k];
        int32_t to = u->form[w->choice[u->node]];
        if (u->begin <= time && time < u->end) bytes[w->call[u->node]] += t->copy[(int64_t)from * t->nto + to];
    }
}

void
call_cost_bytes(const struct assigned *a, const struct program *p, int32_t ncall, int64_t *bytes)
{
    struct sharing w;
    share_by_call(&w, a, p, ncall);
    int32_t time = fullest_time(&w);
    memset(bytes, 0, sizeof *bytes * (size_t)(ncall + 1));
    for (int32_t v = 0; v < a->net.nnode; v++)
        if (a->net.node[v].memory && a->net.node[v].time == time)
            bytes[w.call[v]] += a->net.node[v].memory[w.choice[v]];
    for (int32_t i = 0; i < a->net.ntensor; i++) add_live_bytes(&w, &a->net.tensor[i], time, bytes);
    arena_fini(&w.tmp);
}
