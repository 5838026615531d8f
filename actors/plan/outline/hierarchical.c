/* hierarchical.c - hierarchical reduction: a sum that is passed from host to host. Finds the segments (legs) of
 * the sum, and decides whether passing the sum is faster than reading all addends.
 *
 * The cost depends on the bytes through the busiest host, and on the number of sequential hops (latency). Bytes
 * are counted for each cell of the tensor. A cell is the intersection of a source shard and a destination shard;
 * the owners of a cell are the ranks that compute the sum there. t/plan/hierarchical.c compares the counted bytes
 * with the bytes of plans. */
#include "actors/plan/outline/hierarchical.h"

#include "boxing/deal.h"
#include "boxing/relay.h"

#include <math.h>
#include <string.h>

enum {
    MOST_LEGS = 256,
    MOST_CHUNKS = 16,
};
/* State of counting the bytes that each host sends and receives over the network. Unless noted, arrays are by
 * host. */
struct wires {
    struct local_set *mines;
    const struct box_cost *cost;
    struct grid from, to;
    struct deal deal;
    int32_t nmemory;
    double *in, *out;      /* number of addends on this host, for the replica `counted` */
    int32_t *addend;       /* replica for which `addend` was counted: mesh position of its first addend; -1: none */
    int32_t counted;       /* fraction of the current sum that owners (reducing ranks) on this host compute */
    double *owned;         /* fraction of the sum that owners on this host hold */
    int32_t *wants, stamp; /* wants: stamp of the last sum that this host needed; stamp: number of the current sum */
    int32_t nwants;        /* number of hosts that need the current sum */
    /* by host and replica: stamp of the last sum for which the host read this replica's addends */
    int32_t *reads;
};

static int32_t
wire_memory_at(const struct wires *w, const struct grid *g, int32_t pos)
{
    const struct place *p = g->layout->place;
    return local_set_memory(w->mines, p->kind, p->rank[pos]);
}

static int32_t
addend_memory(const struct wires *w, int32_t corner, int32_t addend, int32_t replica)
{
    return wire_memory_at(w, &w->from, grid_pos(&w->from, (struct spot){corner, addend, replica}));
}

/* ---- finding segments ---- */

/* Finds the segments of a hierarchical reduction, as ranges of addends that are on one host. An addend begins a new
 * segment if, in any tile and replica, it is on another host than the addend before it. */
static int32_t
find_legs(const struct wires *w, struct arena *a, int32_t *first)
{
    bool *begins = ARENA_ARRAY(a, bool, w->from.naddend);
    int32_t n = 0;
    for (int32_t pos = 0; pos < w->from.layout->place->nrank; pos++) {
        struct spot s = grid_spot(&w->from, pos);
        if (s.addend == 0 || begins[s.addend]) continue;
        begins[s.addend] = wire_memory_at(w, &w->from, pos) != addend_memory(w, s.corner, s.addend - 1, s.replica);
    }
    first[n++] = 0;
    for (int32_t i = 1; i < w->from.naddend; i++)
        if (begins[i]) first[n++] = i;
    first[n] = w->from.naddend;
    return n;
}

/* ---- counting the bytes sent between hosts ---- */

static void
count_addends(struct wires *w, int32_t corner, int32_t replica)
{
    int32_t first = grid_pos(&w->from, (struct spot){corner, 0, replica});
    if (w->counted == first) return;
    w->counted = first;
    memset(w->addend, 0, sizeof *w->addend * (size_t)w->nmemory);
    for (int32_t i = 0; i < w->from.naddend; i++) w->addend[addend_memory(w, corner, i, replica)]++;
}

/* Counts the traffic if host `memory` reads `bytes` of each addend of the current replica that is on another host. */
static void
count_reads(struct wires *w, int32_t memory, double bytes)
{
    w->in[memory] += bytes * (w->from.naddend - w->addend[memory]);
    for (int32_t m = 0; m < w->nmemory; m++)
        if (m != memory) w->out[m] += bytes * w->addend[m];
}

static void
begin_results(struct wires *w)
{
    w->stamp++;
    w->nwants = 0;
}

static void
want_result(struct wires *w, int32_t memory)
{
    w->nwants += w->wants[memory] != w->stamp;
    w->wants[memory] = w->stamp;
}

/* Counts the traffic if owners (reducing ranks) send `bytes` of the sum once to each host that needs the sum. */
static void
count_wanted(struct wires *w, double bytes)
{
    for (int32_t m = 0; m < w->nmemory; m++) {
        bool wants = w->wants[m] == w->stamp;
        if (wants) w->in[m] += bytes * (1 - w->owned[m]);
        w->out[m] += bytes * w->owned[m] * (w->nwants - wants);
    }
}

static void
count_results(struct wires *w, int32_t corner, double bytes)
{
    begin_results(w);
    for (int32_t k = 0; k < w->to.nreplica; k++)
        want_result(w, wire_memory_at(w, &w->to, grid_pos(&w->to, (struct spot){corner, 0, k})));
    count_wanted(w, bytes);
}

static void
count_direct_cell(struct wires *w, int32_t tile, int32_t corner, double numel)
{
    deal_cell(&w->deal, tile, corner, 0);
    deal_owners(&w->deal, 0);
    bool direct = w->deal.direct;
    double share = direct ? 1 : 1.0 / w->deal.nowner;
    int32_t stamp = ++w->stamp; /* a new stamp: no host has read addends for this sum yet */
    memset(w->owned, 0, sizeof *w->owned * (size_t)w->nmemory);
    for (int32_t k = 0; k < w->deal.nowner; k++) {
        int32_t pos = w->deal.owner[k], m = wire_memory_at(w, &w->from, pos), own = grid_spot(&w->from, pos).replica;
        int32_t *reads = &w->reads[m * w->from.nreplica + own];
        /* if replicas of one host read the same data, the data counts once */
        if (direct && *reads == stamp) continue;
        *reads = stamp;
        count_addends(w, tile, own);
        w->owned[m] += share;
        count_reads(w, m, share * numel * (double)w->from.width);
    }
    if (!direct) count_results(w, corner, numel * (double)w->to.width);
}

/* Counts the traffic if the owners in segment `from` send their partial sums to the owners in segment `to`. An
 * owner is a rank that computes a fraction of the sum, and it sends this fraction only. */
static void
count_hand(struct wires *w, const struct relay *r, int32_t tile, int32_t from, int32_t to, double bytes)
{
    for (int32_t k = 0; k < r->nshare; k++) {
        int32_t m = wire_memory_at(w, &w->from, relay_owner(r, tile, from, k));
        int32_t n = wire_memory_at(w, &w->from, relay_owner(r, tile, to, k));
        if (m == n) continue;
        w->out[m] += bytes / r->nshare;
        w->in[n] += bytes / r->nshare;
    }
}

static void
own_shares(struct wires *w, const struct relay *r, int32_t tile, int32_t leg)
{
    memset(w->owned, 0, sizeof *w->owned * (size_t)w->nmemory);
    for (int32_t k = 0; k < r->nshare; k++)
        w->owned[wire_memory_at(w, &w->from, relay_owner(r, tile, leg, k))] += 1.0 / r->nshare;
}

/* Counts the traffic inside a segment when the complete sum travels back: the segment's owners (reducing ranks)
 * send the sum to all ranks of the segment that hold addends. */
static void
count_leg_results(struct wires *w, const struct relay *r, int32_t tile, int32_t leg, double bytes)
{
    own_shares(w, r, tile, leg);
    begin_results(w);
    for (int32_t i = r->how->first[leg]; i < r->how->first[leg + 1]; i++)
        for (int32_t k = 0; k < w->from.nreplica; k++) want_result(w, addend_memory(w, tile, i, k));
    count_wanted(w, bytes);
}

/* Counts the traffic between segments for all cells of a tile at once. Leaves in owned[] the fraction of the sum
 * that each host's owners compute. */
static void
count_hands(struct wires *w, const struct relay *r, int32_t tile, double numel)
{
    int32_t nleg = r->how->nleg;
    double sum = numel * (double)w->to.width;
    for (int32_t leg = 1; leg < nleg; leg++) {
        count_hand(w, r, tile, leg - 1, leg, numel * (double)w->from.width);
        if (r->how->back) count_hand(w, r, tile, leg, leg - 1, sum);
    }
    for (int32_t leg = 0; r->how->back && leg < nleg; leg++) count_leg_results(w, r, tile, leg, sum);
    own_shares(w, r, tile, nleg - 1);
}

static void
count_tile(struct wires *w, const struct relay *r, int32_t tile)
{
    struct box part;
    struct cell_walk c;
    int ndim = w->from.type->ndim;
    layout_box(w->from.layout, w->from.type, tile, &part);
    if (r) count_hands(w, r, tile, (double)box_numel(&part, ndim));
    if (r && r->how->back) return;
    for (bool more = cell_begin(&c, &w->to, &part); more; more = cell_next(&c)) {
        double numel = (double)box_numel(&c.box, ndim);
        if (r)
            count_results(w, c.corner, numel * (double)w->to.width);
        else
            count_direct_cell(w, tile, c.corner, numel);
    }
}

/* Returns the bytes that the busiest host sends or receives, whichever is more. r: the hierarchical reduction; NULL:
 * owners read all addends. */
static double
busiest(struct wires *w, const struct relay *r)
{
    double most = 0;
    memset(w->in, 0, sizeof *w->in * (size_t)w->nmemory);
    memset(w->out, 0, sizeof *w->out * (size_t)w->nmemory);
    for (int32_t pos = 0; pos < w->from.layout->place->nrank; pos++)
        if (grid_spot(&w->from, pos).corner == pos) count_tile(w, r, pos);
    for (int32_t m = 0; m < w->nmemory; m++) most = MAX(most, MAX(w->in[m], w->out[m]));
    return most;
}

/* ---- the time of a hierarchical reduction ---- */

/* Returns the time of the hierarchical reduction, ns. The data pass from host to host (legs) in chunks: the first
 * chunk passes all legs, and the other chunks follow in a pipeline. Each further chunk costs one more message per
 * leg; by measurement a message occupies both ends for a quarter of the latency. */
static double
handed_ns(const struct wires *w, const struct box_relay *how, double bytes)
{
    double n = how->nchunk, times = how->back ? 2 * how->nleg - 2 : how->nleg;
    return bytes * w->cost->wire_ns_per_byte * (n + times - 1) / n + w->cost->wire_ns * (times + 1 + (n - 1) / 4);
}

/* Sets how->nchunk to the number of chunks with the shortest time. Returns the cost with so many chunks. */
static struct wire_price
choose_chunks(struct wires *w, struct box_relay *how)
{
    struct relay r = relay_of(&w->from, how);
    struct wire_price price = {busiest(w, &r), INFINITY};
    for (int32_t n = 1, best = 1; n <= MOST_CHUNKS + 1; n++) {
        how->nchunk = n <= MOST_CHUNKS ? n : best;
        double ns = handed_ns(w, how, price.bytes);
        if (ns < price.ns) price.ns = ns, best = n;
    }
    return price;
}

static struct wire_price
price_owners(struct wires *w)
{
    double bytes = busiest(w, NULL);
    return (struct wire_price){bytes, bytes * w->cost->wire_ns_per_byte + 2 * w->cost->wire_ns};
}

static void
wires_init(struct wires *w, struct arena *tmp)
{
    const struct plan_map *map = w->mines->map;
    w->nmemory = 1;
    for (int32_t i = 0; i < map->nrange; i++) w->nmemory = MAX(w->nmemory, map->range[i].memory + 1);
    w->addend = ARENA_ARRAY(tmp, int32_t, w->nmemory);
    w->counted = -1;
    w->in = ARENA_ARRAY(tmp, double, w->nmemory);
    w->out = ARENA_ARRAY(tmp, double, w->nmemory);
    w->owned = ARENA_ARRAY(tmp, double, w->nmemory);
    w->wants = ARENA_ARRAY(tmp, int32_t, w->nmemory);
    w->reads = ARENA_ARRAY(tmp, int32_t, w->nmemory * w->from.nreplica);
    deal_init(&w->deal, tmp, &w->from, &w->to);
}

/* Returns true if the cluster map contains all devices of the placement. */
static bool
knows(const struct local_set *m, const struct place *p)
{
    for (int32_t i = 0; i < p->nrank; i++)
        if (local_set_memory(m, p->kind, p->rank[i]) < 0) return false;
    return true;
}

static bool
choose_segments(struct wires *w, struct arena *a, struct arena *tmp, struct hierarchical *out)
{
    int32_t *first = ARENA_ARRAY(tmp, int32_t, w->from.naddend + 1), n = find_legs(w, tmp, first);
    struct type part = layout_shard(w->from.layout, w->from.type, 0);
    if (n < 2 || n > MOST_LEGS || type_numel(&part) == 0) return false;
    struct box_relay how = {.nleg = n, .first = first, .nchunk = 1}, back = how;
    back.back = relay_may_go_back(w->from.layout, w->to.layout);
    wires_init(w, tmp);
    out->owners = price_owners(w);
    out->handed = choose_chunks(w, &how);
    struct wire_price returns = back.back ? choose_chunks(w, &back) : out->handed;
    if (returns.ns < out->handed.ns) out->handed = returns, how = back;
    if (out->handed.ns >= out->owners.ns) return true;
    how.first = arena_dup(a, first, sizeof *first * (size_t)(n + 1));
    out->relay = arena_dup(a, &how, sizeof how);
    return true;
}

bool
hierarchical_of(struct arena *a, struct local_set *m, const struct box_cost *cost, const struct type *t,
                const struct layout *from, const struct layout *to, struct hierarchical *out)
{
    struct wires w = {.mines = m, .cost = cost, .from = grid_of(from, t), .to = grid_of(to, t)};
    struct arena tmp = {0};
    *out = (struct hierarchical){NULL, {0, 0}, {0, 0}};
    if (!m->map || w.from.naddend == 1 || w.to.naddend > 1) return false;
    if (!knows(m, from->place) || !knows(m, to->place)) return false;
    bool priced = choose_segments(&w, a, &tmp, out);
    arena_fini(&tmp);
    return priced;
}
