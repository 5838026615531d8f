/* clique.h - how few bytes a device's registers can take where each act has a place of its own: uses of which every two
 * may be live at once have no byte in common, whatever else happens, so no arena is smaller than all of them.
 *
 * That is more than what can be in use at one moment (live.h): of three uses each two may meet, and never all three.
 * Two may meet if neither has ended, with all who read it, before the other is written; events and what comes before
 * them are live.h's. Which uses are taken is a search, from each use on in turn; what it finds is a bound however good
 * it is.
 */
#ifndef RILLE_T_CLIQUE_H
#define RILLE_T_CLIQUE_H

#include "t/live.h"

#include <stdlib.h>
#include <string.h>

struct clique_use {
    int32_t task, out, act;
    int64_t bytes;
};
struct clique {
    struct live live;
    int32_t words, nuse, nbit; /* of 64 events; of 64 uses */
    uint64_t *before;          /* by event: those that come before it, and itself */
    struct clique_use *use;
    uint64_t *meets, *left; /* by use; who may still be taken */
};

static bool
clique_bit(const uint64_t *bits, int32_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

/* Arcs of live.h lead from an event to those before it: a list of events each behind those, then what adds up. */
static void
clique_order(struct clique *c)
{
    struct live *l = &c->live;
    int32_t n = l->source, top = 0;
    int32_t *at = ARENA_ARRAY(&l->arena, int32_t, n), *stack = ARENA_ARRAY(&l->arena, int32_t, n + 1);
    uint8_t *state = ARENA_ARRAY(&l->arena, uint8_t, n);
    c->words = n / 64 + 1;
    c->before = ARENA_ARRAY(&l->arena, uint64_t, (int64_t)n * c->words);
    for (int32_t v = 0; v < n; v++) at[v] = l->out[v];
    for (int32_t v = 0; v < n; v++)
        for (stack[top++] = v; top > 0;) {
            int32_t x = stack[top - 1], e = at[x];
            if (state[x] == 2) {
                top--;
                continue;
            }
            state[x] = 1;
            if (e >= 0) at[x] = l->arc[e].next;
            if (e >= 0 && l->arc[e].room > 0 && state[l->arc[e].to] == 0) stack[top++] = l->arc[e].to;
            if (e >= 0) continue;
            uint64_t *mine = c->before + (int64_t)x * c->words;
            mine[x >> 6] |= UINT64_C(1) << (x & 63);
            for (int32_t k = l->out[x]; k >= 0; k = l->arc[k].next) {
                const uint64_t *theirs = c->before + (int64_t)l->arc[k].to * c->words;
                for (int32_t w = 0; w < c->words && l->arc[k].room > 0; w++) mine[w] |= theirs[w];
            }
            state[x] = 2;
            top--;
        }
}

/* Has the use ended, with all who read it, before that one is written? */
static bool
clique_ended(const struct clique *c, const struct clique_use *u, const struct clique_use *than)
{
    const struct plan *p = c->live.plan;
    const struct out_port *o = &p->task[u->task].out[u->out];
    const uint64_t *before = c->before + (int64_t)live_begin(&c->live, than->task, than->act) * c->words;
    bool ended = o->nfan > 0;
    for (int32_t f = 0; f < o->nfan && ended; f++)
        for (int32_t r = 0; r < o->fan[f].nreader && ended; r++) {
            const struct reader *to = &o->fan[f].reader[r];
            int64_t hold = p->task[to->task].in[to->port].hold;
            ended = clique_bit(before, live_end(&c->live, to->task, (u->act / o->every + 1) * hold - 1));
        }
    return ended;
}

static void
clique_uses(struct clique *c, int32_t device)
{
    const struct plan *p = c->live.plan;
    int32_t n = c->live.source / 2;
    c->use = ARENA_ARRAY(&c->live.arena, struct clique_use, n + 1);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            const struct out_port *o = &p->task[i].out[k];
            if (o->where.kind != IN_ARENA || o->where.index != device || o->bytes == 0) continue;
            for (int32_t a = 0; a < p->task[i].nact; a += o->every)
                c->use[c->nuse++] = (struct clique_use){i, k, a, where_stride(o->bytes)};
        }
    c->nbit = c->nuse / 64 + 1;
    c->left = ARENA_ARRAY(&c->live.arena, uint64_t, c->nbit);
    c->meets = ARENA_ARRAY(&c->live.arena, uint64_t, (int64_t)c->nuse * c->nbit + 1);
    for (int32_t u = 0; u < c->nuse; u++)
        for (int32_t v = 0; v < c->nuse; v++) {
            const struct clique_use *x = &c->use[u], *y = &c->use[v];
            if (u == v || clique_ended(c, x, y) || clique_ended(c, y, x)) continue;
            c->meets[(int64_t)u * c->nbit + (v >> 6)] |= UINT64_C(1) << (v & 63);
        }
}

/* Bytes of those that may still be taken beside use u. */
static int64_t
clique_beside(const struct clique *c, int32_t u)
{
    const uint64_t *meets = c->meets + (int64_t)u * c->nbit;
    int64_t bytes = c->use[u].bytes;
    for (int32_t w = 0; w < c->nbit; w++)
        for (uint64_t bits = c->left[w] & meets[w]; bits; bits &= bits - 1)
            bytes += c->use[64 * w + __builtin_ctzll(bits)].bytes;
    return bytes;
}

static void
clique_take(struct clique *c, int32_t u, int64_t *bytes)
{
    *bytes += c->use[u].bytes;
    for (int32_t w = 0; w < c->nbit; w++) c->left[w] &= c->meets[(int64_t)u * c->nbit + w];
}

/* From a use on, those that meet most first. */
static int64_t
clique_in_order(struct clique *c, int32_t u, const int32_t *order)
{
    int64_t bytes = 0;
    memset(c->left, 0xff, sizeof *c->left * (size_t)c->nbit);
    clique_take(c, u, &bytes);
    for (int32_t i = 0; i < c->nuse; i++)
        if (clique_bit(c->left, order[i])) clique_take(c, order[i], &bytes);
    return bytes;
}

/* From a use on, always whoever leaves the most to take. */
static int64_t
clique_from(struct clique *c, int32_t u)
{
    int64_t bytes = 0;
    memset(c->left, 0xff, sizeof *c->left * (size_t)c->nbit);
    while (u >= 0) {
        int64_t most = 0;
        clique_take(c, u, &bytes);
        u = -1;
        for (int32_t v = 0; v < c->nuse; v++) {
            int64_t beside = clique_bit(c->left, v) ? clique_beside(c, v) : 0;
            if (beside > most) most = beside, u = v;
        }
    }
    return bytes;
}

struct clique_met {
    int64_t bytes;
    int32_t use;
};

static int
clique_compare(const void *x, const void *y)
{
    const struct clique_met *a = x, *b = y;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : a->use - b->use;
}

/* Uses, by the bytes of those that they may meet. */
static const int32_t *
clique_by_met(struct clique *c)
{
    struct clique_met *met = ARENA_ARRAY(&c->live.arena, struct clique_met, c->nuse + 1);
    int32_t *order = ARENA_ARRAY(&c->live.arena, int32_t, c->nuse + 1);
    memset(c->left, 0xff, sizeof *c->left * (size_t)c->nbit);
    for (int32_t u = 0; u < c->nuse; u++) met[u] = (struct clique_met){clique_beside(c, u), u};
    qsort(met, (size_t)c->nuse, sizeof *met, clique_compare);
    for (int32_t u = 0; u < c->nuse; u++) order[u] = met[u].use;
    return order;
}

/* The least bytes that a device's registers take in any plan that has these credits and places for acts; -1: the
 * program has no stages. */
static int64_t
clique_most(const struct plan *p, int32_t device)
{
    struct clique c = {.live = {.plan = p}};
    enum { STARTS = 16 };
    int64_t most = 0;
    if (stages_find(&c.live.stages, p->program, &c.live.arena)) return -1;
    live_nodes(&c.live);
    for (int32_t i = 0; i < p->ntask; i++) live_order(&c.live, i);
    clique_order(&c);
    clique_uses(&c, device);
    const int32_t *order = clique_by_met(&c);
    for (int32_t u = 0; u < c.nuse; u++) most = MAX(most, clique_in_order(&c, u, order));
    for (int32_t u = 0; u < c.nuse; u += 1 + c.nuse / STARTS) most = MAX(most, clique_from(&c, u));
    arena_fini(&c.live.arena);
    return most;
}

#endif
