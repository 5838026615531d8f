/* legs.c - a sum that is handed on from memory to memory: where its legs begin, and whether it pays.
 *
 * What counts is the memory that most bytes go into or out of, and how often something must arrive before it goes on.
 * All ways are counted on one tile of the source, whose cells stand for those of the others. */
#include "actors/plan/legs.h"

#include "boxing/deal.h"
#include "boxing/relay.h"

#include <math.h>
#include <string.h>

enum {
    MOST_LEGS = 256,
    MOST_CHUNKS = 16,
};
/* What goes over wires, by memory. */
struct wires {
    struct mines *mines;
    const struct box_cost *cost;
    struct grid from, to;
    struct deal deal;
    int32_t nmemory;
    int32_t *addend;       /* of a replica: how many addends lie there */
    double *in, *out;      /* bytes */
    double *owned;         /* of a sum: the part of it that owners there have */
    int32_t *wants, stamp; /* who has members of the cell with this stamp */
};

static int32_t
memory_at(const struct wires *w, const struct grid *g, int32_t pos)
{
    const struct place *p = g->layout->place;
    return mines_memory(w->mines, p->kind, p->rank[pos]);
}

static int32_t
addend_memory(const struct wires *w, int32_t corner, int32_t addend, int32_t replica)
{
    return memory_at(w, &w->from, grid_pos(&w->from, (struct spot){corner, addend, replica}));
}

/* ---- where legs begin ---- */

/* An addend begins a leg if it lies in another memory than the one before it, in any tile and replica. */
static int32_t
find_legs(const struct wires *w, struct arena *a, int32_t *first)
{
    bool *begins = ARENA_ARRAY(a, bool, w->from.naddend);
    int32_t n = 0;
    for (int32_t pos = 0; pos < w->from.layout->place->nrank; pos++) {
        struct spot s = grid_spot(&w->from, pos);
        if (s.addend == 0 || begins[s.addend]) continue;
        begins[s.addend] = memory_at(w, &w->from, pos) != addend_memory(w, s.corner, s.addend - 1, s.replica);
    }
    first[n++] = 0;
    for (int32_t i = 1; i < w->from.naddend; i++)
        if (begins[i]) first[n++] = i;
    first[n] = w->from.naddend;
    return n;
}

/* ---- what crosses ---- */

static void
count_addends(struct wires *w, int32_t replica)
{
    memset(w->addend, 0, sizeof *w->addend * (size_t)w->nmemory);
    for (int32_t i = 0; i < w->from.naddend; i++) w->addend[addend_memory(w, 0, i, replica)]++;
}

/* The sum, of which owners have their parts, comes once to each memory that wants the cell. */
static void
count_results(struct wires *w, int32_t corner, double bytes)
{
    int32_t first = ++w->stamp, nwants = 0;
    for (int32_t k = 0; k < w->to.nreplica; k++) {
        int32_t m = memory_at(w, &w->to, grid_pos(&w->to, (struct spot){corner, 0, k}));
        if (w->wants[m] == first) continue;
        w->wants[m] = first;
        w->in[m] += bytes * (1 - w->owned[m]);
        nwants++;
    }
    for (int32_t m = 0; m < w->nmemory; m++) w->out[m] += bytes * w->owned[m] * (nwants - (w->wants[m] == first));
}

static void
count_direct_cell(struct wires *w, int32_t corner, double numel)
{
    deal_cell(&w->deal, 0, corner, 0);
    deal_owners(&w->deal, 0);
    double share = w->deal.direct ? 1 : 1.0 / w->deal.nowner;
    memset(w->owned, 0, sizeof *w->owned * (size_t)w->nmemory);
    for (int32_t k = 0, replica = -1; k < w->deal.nowner; k++) {
        int32_t pos = w->deal.owner[k], m = memory_at(w, &w->from, pos), own = grid_spot(&w->from, pos).replica;
        if (own != replica) count_addends(w, replica = own);
        if (w->deal.direct && w->owned[m] > 0) continue; /* what one there receives, all do */
        w->owned[m] += share;
        w->in[m] += share * numel * (double)w->from.width * (w->from.naddend - w->addend[m]);
    }
    if (!w->deal.direct) count_results(w, corner, numel * (double)w->to.width);
}

/* From the owners of a leg to those of another: a cell, each its shares. */
static void
count_hand(struct wires *w, const struct relay *r, int32_t from, int32_t to, double bytes)
{
    for (int32_t k = 0; k < r->nshare; k++) {
        int32_t m = memory_at(w, &w->from, relay_owner(r, 0, from, k));
        int32_t n = memory_at(w, &w->from, relay_owner(r, 0, to, k));
        if (m == n) continue;
        w->out[m] += bytes / r->nshare;
        w->in[n] += bytes / r->nshare;
    }
}

static void
count_handed_cell(struct wires *w, const struct relay *r, int32_t corner, double numel)
{
    int32_t nleg = r->how->nleg;
    for (int32_t leg = 1; leg < nleg; leg++) {
        count_hand(w, r, leg - 1, leg, numel * (double)w->from.width);
        if (r->how->back) count_hand(w, r, leg, leg - 1, numel * (double)w->to.width);
    }
    if (r->how->back) return;
    memset(w->owned, 0, sizeof *w->owned * (size_t)w->nmemory);
    for (int32_t k = 0; k < r->nshare; k++)
        w->owned[memory_at(w, &w->from, relay_owner(r, 0, nleg - 1, k))] += 1.0 / r->nshare;
    count_results(w, corner, numel * (double)w->to.width);
}

/* Bytes of the busiest memory, one way. r: NULL of owners that read all. */
static double
busiest(struct wires *w, const struct relay *r)
{
    struct box part;
    struct cell_walk c;
    double most = 0;
    memset(w->in, 0, sizeof *w->in * (size_t)w->nmemory);
    memset(w->out, 0, sizeof *w->out * (size_t)w->nmemory);
    layout_box(w->from.layout, w->from.type, 0, &part);
    for (bool more = cell_begin(&c, &w->to, &part); more; more = cell_next(&c)) {
        double numel = (double)box_numel(&c.box, w->from.type->ndim);
        if (r)
            count_handed_cell(w, r, c.corner, numel);
        else
            count_direct_cell(w, c.corner, numel);
    }
    for (int32_t m = 0; m < w->nmemory; m++) most = MAX(most, MAX(w->in[m], w->out[m]));
    return most;
}

/* ---- whether it pays ---- */

/* What is handed on so often is there when the first chunk has come all the way, and the others behind it; a chunk more
 * is a message more on each link, which costs both ends less than waiting for it does. */
static double
handed_ns(const struct wires *w, const struct box_relay *how, double bytes)
{
    double n = how->nchunk, times = how->back ? 2 * how->nleg - 2 : how->nleg;
    return bytes * w->cost->wire_ns_per_byte * (n + times - 1) / n + w->cost->wire_ns * (times + 1 + (n - 1) / 4);
}

/* The number of chunks with which it is done soonest. */
static double
choose_chunks(struct wires *w, struct box_relay *how)
{
    struct relay r = relay_of(&w->from, how);
    double bytes = busiest(w, &r), least = INFINITY;
    for (int32_t n = 1, best = 1; n <= MOST_CHUNKS + 1; n++) {
        how->nchunk = n <= MOST_CHUNKS ? n : best;
        double ns = handed_ns(w, how, bytes);
        if (ns < least) least = ns, best = n;
    }
    return least;
}

static double
direct_ns(struct wires *w)
{
    return busiest(w, NULL) * w->cost->wire_ns_per_byte + 2 * w->cost->wire_ns;
}

static void
wires_init(struct wires *w, struct arena *tmp)
{
    const struct plan_map *map = w->mines->map;
    w->nmemory = 1;
    for (int32_t i = 0; i < map->nrange; i++) w->nmemory = MAX(w->nmemory, map->range[i].memory + 1);
    w->addend = ARENA_ARRAY(tmp, int32_t, w->nmemory);
    w->in = ARENA_ARRAY(tmp, double, w->nmemory);
    w->out = ARENA_ARRAY(tmp, double, w->nmemory);
    w->owned = ARENA_ARRAY(tmp, double, w->nmemory);
    w->wants = ARENA_ARRAY(tmp, int32_t, w->nmemory);
    deal_init(&w->deal, tmp, &w->from, &w->to);
}

/* Has the map all devices of the placement? */
static bool
knows(const struct mines *m, const struct place *p)
{
    for (int32_t i = 0; i < p->nrank; i++)
        if (mines_memory(m, p->kind, p->rank[i]) < 0) return false;
    return true;
}

static const struct box_relay *
choose(struct wires *w, struct arena *a, struct arena *tmp)
{
    int32_t *first = ARENA_ARRAY(tmp, int32_t, w->from.naddend + 1), n = find_legs(w, tmp, first);
    struct type part = layout_shard(w->from.layout, w->from.type, 0);
    if (n < 2 || n > MOST_LEGS || type_numel(&part) == 0) return NULL;
    struct box_relay how = {.nleg = n, .first = first, .nchunk = 1}, back = how;
    back.back = relay_may_go_back(w->from.layout, w->to.layout);
    wires_init(w, tmp);
    double ns = choose_chunks(w, &how), back_ns = back.back ? choose_chunks(w, &back) : INFINITY;
    if (MIN(ns, back_ns) >= direct_ns(w)) return NULL;
    if (back_ns < ns) how = back;
    how.first = arena_dup(a, first, sizeof *first * (size_t)(n + 1));
    return arena_dup(a, &how, sizeof how);
}

const struct box_relay *
legs_of(struct arena *a, struct mines *m, const struct box_cost *cost, const struct type *t, const struct layout *from,
        const struct layout *to)
{
    struct wires w = {.mines = m, .cost = cost, .from = grid_of(from, t), .to = grid_of(to, t)};
    struct arena tmp = {0};
    if (!m->map || w.from.naddend == 1 || w.to.naddend > 1) return NULL;
    if (!knows(m, from->place) || !knows(m, to->place)) return NULL;
    const struct box_relay *how = choose(&w, a, &tmp);
    arena_fini(&tmp);
    return how;
}
