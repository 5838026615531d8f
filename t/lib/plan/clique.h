/* clique.h - computes a lower bound of the size of a device's arena, for plans in which each act has a fixed offset.
 *
 * Two uses of registers overlap if they may be live at the same time. Overlapping uses must not share a byte. So an
 * arena is at least as large as any set of uses in which every two overlap. The bound is the weight, in bytes, of
 * the heaviest such set. It is at least the bound of live.h, because three uses may overlap pairwise although all
 * three are never live at once. Two uses overlap if neither has ended, with all its readers, before the other is
 * written. Events and their order are those of live.h.
 *
 * "Ended before" is a partial order, so the heaviest set is an antichain of this order. Its weight is computed
 * exactly by a flow, as in live.h: bytes pass from a use to later uses, and the fewest bytes that serve all uses
 * equal the weight of the heaviest antichain (Dilworth 1950, weighted). A real arena may need more, because the
 * bytes of a use must be contiguous. */
#ifndef RILLE_T_CLIQUE_H
#define RILLE_T_CLIQUE_H

#include "t/lib/plan/live.h"

#include <string.h>

struct clique_use {
    int32_t task, out, act;
    int64_t bytes;
};
struct clique {
    struct live live;
    /* nuse: number of uses; nbit: 64-bit words of a set of uses; words: 64-bit words of a set of events */
    int32_t words, nuse, nbit;
    uint64_t *before; /* by event: bits of the event and its predecessors */
    struct clique_use *use;
    uint64_t *then; /* by use: bits of the uses that are written after its end */
};

static bool
clique_bit(const uint64_t *bits, int32_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

/* Computes the set of predecessors of each event. Arcs lead from an event to its predecessors, so a depth-first
 * search finishes the predecessors first. The set of an event is the union of their sets. */
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

/* Returns true if use u has ended, with all its readers, before use `than` is written. */
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
    c->then = ARENA_ARRAY(&c->live.arena, uint64_t, (int64_t)c->nuse * c->nbit + 1);
    for (int32_t u = 0; u < c->nuse; u++)
        for (int32_t v = 0; v < c->nuse; v++)
            if (u != v && clique_ended(c, &c->use[u], &c->use[v]))
                c->then[(int64_t)u * c->nbit + (v >> 6)] |= UINT64_C(1) << (v & 63);
}

/* Returns the use in `left` (a set of uses) that has the most successors, so that no other use in `left` precedes
 * it; -1 if `left` is empty. */
static int32_t
clique_next(const struct clique *c, const uint64_t *left, const int32_t *nthen)
{
    int32_t next = -1;
    for (int32_t w = 0; w < c->nbit; w++)
        for (uint64_t bits = left[w]; bits; bits &= bits - 1) {
            int32_t v = 64 * w + __builtin_ctzll(bits);
            if (next < 0 || nthen[v] > nthen[next]) next = v;
        }
    return next;
}

/* Adds flow arcs from use u to its immediate successors: those successors of u that come after no other successor
 * of u. */
static void
clique_share(const struct clique *c, struct live *flow, int32_t u, const int32_t *nthen, uint64_t *left)
{
    memcpy(left, c->then + (int64_t)u * c->nbit, sizeof *left * (size_t)c->nbit);
    for (int32_t v; (v = clique_next(c, left, nthen)) >= 0;) {
        live_join(flow, 2 * u, 2 * v + 1, INT64_MAX / 2);
        left[v >> 6] &= ~(UINT64_C(1) << (v & 63));
        for (int32_t w = 0; w < c->nbit; w++) left[w] &= ~c->then[(int64_t)v * c->nbit + w];
    }
}

/* Returns the weight of the heaviest antichain. Use u has two flow nodes: 2u for the bytes that the use passes on,
 * 2u+1 for the bytes that it receives. An arc from 2u+1 to 2u lets received bytes be passed on. */
static int64_t
clique_heaviest(struct clique *c)
{
    struct arena *a = &c->live.arena;
    struct live flow = {.n = 2 * c->nuse + 2, .source = 2 * c->nuse, .sink = 2 * c->nuse + 1};
    int32_t *nthen = ARENA_ARRAY(a, int32_t, c->nuse + 1);
    uint64_t *left = ARENA_ARRAY(a, uint64_t, c->nbit);
    live_lists(&flow);
    for (int32_t u = 0; u < c->nuse; u++)
        for (int32_t w = 0; w < c->nbit; w++) nthen[u] += __builtin_popcountll(c->then[(int64_t)u * c->nbit + w]);
    for (int32_t u = 0; u < c->nuse; u++) {
        flow.bytes[2 * u] = c->use[u].bytes;
        flow.bytes[2 * u + 1] = -c->use[u].bytes;
        live_join(&flow, 2 * u + 1, 2 * u, INT64_MAX / 2);
        clique_share(c, &flow, u, nthen, left);
    }
    int64_t most = live_heaviest(&flow);
    arena_fini(&flow.arena);
    return most;
}

/* Returns the lower bound of the device's arena, in bytes: the weight of the heaviest set of uses that all overlap
 * pairwise. The bound holds for all plans with the credits of plan p in which each act has a fixed offset. -1: the
 * program has no stages. */
static int64_t
clique_most(const struct plan *p, int32_t device)
{
    struct clique c = {.live = {.plan = p}};
    if (stages_find(&c.live.stages, p->program, &c.live.arena)) return -1;
    live_nodes(&c.live);
    for (int32_t i = 0; i < p->ntask; i++) live_order(&c.live, i);
    clique_order(&c);
    clique_uses(&c, device);
    int64_t most = clique_heaviest(&c);
    arena_fini(&c.live.arena);
    return most;
}

#endif
