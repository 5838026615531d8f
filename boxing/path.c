/* path.c - searches for the cheapest sequence of hops (collective steps) that sends as few bytes as the direct
 * exchange.
 *
 * No sequence sends fewer bytes than the bound, so every intermediate layout must be on a shortest path: bytes(from,
 * mid) + bytes(mid, to) = bytes(from, to). box_bytes is a closed form, and the test rejects most layouts. Over the
 * rest, Bellman's recursion finds the cheapest sequence of each length, one length after the other (hops are few).
 *
 * On many axes too many layouts remain: 25,000 for the sums of 64 ranks in six axes of two. For such meshes the
 * search prunes: it continues only from states that may become the cheapest, given a lower bound for the bytes that
 * are left to move. It does not price a hop if the path already costs more than the best path so far. Layouts that
 * differ only by a permutation of equal axes share a representative, so 84 of the 25,000 layouts remain. Axes are
 * interchangeable only if all shards are equal: if a rank has one element more, the axis that gives it the element
 * matters.
 *
 * Without P, equal totals mean equal shares: no rank receives less than in the direct exchange. With P, ranks are
 * compared hop by hop (quota.h). A state in which some rank receives more is dropped at once, so that it does not
 * replace a valid state of the same layout. If tiles are uneven, this test leaves few paths. On large meshes only
 * the corner ranks are examined: balanced cuts make the first shards the largest and the last the smallest. */
#include "boxing/path.h"

#include "boxing/quota.h"
#include "boxing/bytes.h"
#include "boxing/name.h"
#include "boxing/plan.h"
#include "runtime/base/error.h"
#include "runtime/data/sorted.h"
#include "runtime/tensor/atlas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_HOP = 2 * MAX_AXIS,
    /* maximum number of ranks that are examined; equals the largest number of a mesh's corners */
    MAX_PROBE = 1 << MAX_AXIS,
};

/* A layout that the search reached by nhop hops, on the cheapest path. */
struct state {
    const struct layout *at;
    const struct layout
        /* layout that represents `at`; layouts that differ only by an exchange of equal mesh axes have the same
         * representative */
        *as;
    int32_t before; /* index of the state before the last hop; -1: start */
    int8_t nhop;
    int64_t bytes; /* bytes of the last hop */
    int64_t rest;  /* lower bound of the bytes that the hops after this state must still send */
    int64_t staging;
    double ns, hop_ns;
    const int64_t *received; /* bytes received so far, by examined rank */
};

struct search {
    struct arena *arena, scratch;
    struct atlas *atlas;
    struct type type;
    const struct layout *from, *to;
    const struct box_cost *cost;
    uint8_t stands[MAX_AXIS]; /* by axis: first axis that is interchangeable with this axis (find_equal_axes) */
    int64_t bound;
    bool every;  /* true: list paths of every length; false: only the cheapest */
    double best; /* price of the cheapest path so far, ns */
    struct state *state;
    int32_t nstate, capacity;
    /* index of the first state with the number of hops (collective steps) that is being processed */
    int32_t level;
    struct hash_table found; /* states by representative layout */
    struct arena kept;       /* memory of the caches and buffers below */
    struct hash_table known; /* cache of box_bytes_known() */
    struct hash_table price; /* cache of hop prices */
    struct quota quota;
};

struct price {
    const struct layout *from, *to;
    double ns;
    int64_t *received; /* bytes received, by examined rank */
};

/* ---- price one hop (collective step) ---- */

struct load {
    /* load of a rank: alpha: messages; beta: bytes received; gamma: bytes reduced; copy: bytes copied within the
     * rank */
    double alpha, beta, gamma, copy;
};

/* Lists the positions of a mesh whose bytes are examined: all positions of a small mesh, the corners of a large
 * one. */
static int32_t
probes(const struct place *p, int32_t *pos)
{
    int32_t n = 0;
    if (p->nrank <= MAX_PROBE) {
        for (; n < p->nrank; n++) pos[n] = n;
        return n;
    }
    for (int corner = 0; corner < 1 << p->naxis; corner++) {
        int32_t at = 0;
        bool twice = false;
        for (int a = 0; a < p->naxis; a++) {
            bool end = corner >> a & 1;
            at = at * p->axis[a] + (end ? p->axis[a] - 1 : 0);
            twice |= end && p->axis[a] == 1;
        }
        if (!twice) pos[n++] = at;
    }
    return n;
}

/* Returns the number of ranks, other than `self`, that these steps read. */
static int32_t
count_senders(struct arena *a, const struct box_work *w, int32_t self)
{
    int32_t capacity = 0, n = 0;
    for (int32_t i = 0; i < w->nstep; i++) capacity += w->step[i].nsource;
    int32_t *rank = ARENA_ARRAY(a, int32_t, capacity);
    for (int32_t i = 0; i < w->nstep; i++)
        for (int32_t j = 0; j < w->step[i].nsource; j++) rank[n++] = w->step[i].source[j].rank;
    n = sorted_once(rank, n);
    return n - (sorted_find(rank, n, self) >= 0);
}

/* Returns the load of a rank that fills one stage or destination shard. self: device number of the rank, to tell its
 * own data from received data; -1: all data is received, because the device kinds differ. */
static struct load
load_of(struct arena *a, const struct box_plan *p, const struct box_work *w, int32_t self)
{
    struct load load = {0, 0, 0, 0};
    for (int32_t i = 0; i < w->nstep; i++) {
        const struct box_step *step = &w->step[i];
        for (int32_t k = 0; k < step->nsource; k++) {
            double bytes = (double)box_source_bytes(p, step, k);
            if (step->source[k].rank != self)
                load.beta += bytes;
            else if (step->verb == BOX_COPY)
                load.copy += bytes;
            if (step->verb == BOX_REDUCE) load.gamma += bytes;
        }
    }
    load.alpha = count_senders(a, w, self);
    return load;
}

static void
keep_worst(struct load *worst, struct load load)
{
    worst->alpha = MAX(worst->alpha, load.alpha);
    worst->beta = MAX(worst->beta, load.beta);
    worst->gamma = MAX(worst->gamma, load.gamma);
    worst->copy = MAX(worst->copy, load.copy);
}

static int
plan_rank(struct search *s, const struct layout *from, const struct layout *to, int rank, struct box_plan **out)
{
    int32_t src = place_find(from->place, rank), dst = place_find(to->place, rank);
    struct box_ranks one = {src >= 0, dst >= 0, &src, &dst};
    return box_plan_part(&s->scratch, &s->type, from, to, &one, out);
}

static void
note_received(const struct search *s, struct price *price, int32_t rank, int64_t bytes)
{
    if (s->quota.nrank) price->received[sorted_find(s->quota.rank, s->quota.nrank, rank)] = bytes;
}

/* Raises worst[0] (stage buffers) and worst[1] (destination shards) to the maximum loads of the ranks of one mesh. */
static void
load_side(struct search *s, const struct place *place, struct price *price, struct load worst[2])
{
    int32_t pos[MAX_PROBE], n = probes(place, pos);
    bool one_kind = price->from->place->kind == price->to->place->kind;
    for (int32_t i = 0; i < n; i++) {
        struct box_plan *p;
        int32_t rank = place->rank[pos[i]];
        arena_reset(&s->scratch);
        if (plan_rank(s, price->from, price->to, rank, &p)) continue;
        note_received(s, price, rank, p->bytes);
        if (p->nstage) keep_worst(&worst[0], load_of(&s->scratch, p, &p->stage[0].work, rank));
        if (p->npart) keep_worst(&worst[1], load_of(&s->scratch, p, &p->part[0], one_kind ? rank : -1));
    }
}

/* Raises `worst` like load_side(), if all ranks are examined. Plans all ranks together, so that shared lists are made
 * once. */
static void
add_loads(struct search *s, struct price *price, struct load worst[2])
{
    int32_t pos[MAX_PROBE], n = probes(price->to->place, pos);
    struct box_plan *p;
    arena_reset(&s->scratch);
    if (box_plan_part(&s->scratch, &s->type, price->from, price->to, &(struct box_ranks){n, n, pos, pos}, &p)) return;
    for (int32_t i = 0; i < p->nrank; i++) note_received(s, price, p->rank[i], p->received[i]);
    for (int32_t i = 0; i < p->nstage; i++)
        keep_worst(&worst[0], load_of(&s->scratch, p, &p->stage[i].work, p->stage[i].work.rank));
    for (int32_t i = 0; i < p->npart; i++) keep_worst(&worst[1], load_of(&s->scratch, p, &p->part[i], p->part[i].rank));
}

static void
price_hop(struct search *s, struct price *price)
{
    const struct box_cost *c = s->cost;
    const struct place *from = price->from->place, *to = price->to->place;
    struct load worst[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    if (from == to && to->nrank <= MAX_PROBE) {
        add_loads(s, price, worst);
    } else {
        load_side(s, to, price, worst);
        if (from != to) load_side(s, from, price, worst);
    }
    price->ns = c->hop_ns;
    for (int k = 0; k < 2; k++)
        price->ns += worst[k].alpha * c->alpha_ns + worst[k].beta * c->beta_ns_per_byte +
                     worst[k].gamma * c->gamma_ns_per_byte + worst[k].copy * c->copy_ns_per_byte;
}

/* Returns the price of a hop from a cache, because many paths share hops. */
static const struct price *
price_once(struct search *s, const struct layout *from, const struct layout *to)
{
    uint64_t hash = hash_number(hash_address(from), (uintptr_t)to);
    uint32_t at = 0;
    struct price *p;
    while ((p = hash_next(&s->price, hash, &at)))
        if (p->from == from && p->to == to) return p;
    p = ARENA_NEW(&s->kept, struct price);
    *p = (struct price){.from = from, .to = to, .received = ARENA_ARRAY(&s->kept, int64_t, s->quota.nrank)};
    price_hop(s, p);
    hash_add(&s->price, hash, p);
    return p;
}

/* ---- reject paths on which a rank receives too many bytes ---- */

/* Selects the ranks to check: they must not receive more bytes than in the direct exchange. Without P selects
 * none, because then a rank receives more only if the total is larger, and paths with a larger total are rejected
 * anyway. */
static void
watch_ranks(struct search *s)
{
    s->quota = (struct quota){.arena = &s->kept, .type = &s->type, .to = s->to, .room.arena = &s->kept};
    if (!layout_has_partial(s->from) && !layout_has_partial(s->to)) return;
    int32_t pos[2 * MAX_PROBE], n = probes(s->from->place, pos), *rank = ARENA_ARRAY(&s->kept, int32_t, 2 * MAX_PROBE);
    int32_t all = n + probes(s->to->place, pos + n);
    for (int32_t i = 0; i < all; i++) rank[i] = (i < n ? s->from : s->to)->place->rank[pos[i]];
    s->quota.rank = rank;
    s->quota.nrank = sorted_once(rank, all);
    s->quota.most = price_once(s, s->from, s->to)->received;
}

/* Returns the bytes that ranks have received after one more hop. NULL: some rank will certainly receive more than in
 * the direct exchange. */
static const int64_t *
received_after(struct search *s, const struct state *was, const struct price *hop)
{
    int64_t *sum = ARENA_ARRAY(&s->kept, int64_t, s->quota.nrank);
    for (int32_t i = 0; i < s->quota.nrank; i++) sum[i] = was->received[i] + hop->received[i];
    return quota_lasts(&s->quota, hop->to, sum) ? sum : NULL;
}

/* ---- find interchangeable axes ---- */

static bool
same_path_entry(struct sbp x, struct sbp y)
{
    return x.kind == y.kind && x.axis == y.axis && x.reduce == y.reduce && x.unit == y.unit;
}

/* Returns true if `parts` divides the number of units in the dimension that the entry splits. */
static bool
divides_evenly(const struct search *s, struct sbp entry, int32_t parts)
{
    int64_t n = s->type.dim[entry.axis];
    return n / shard_unit(n, entry.unit) % parts == 0;
}

/* Returns true if all shards of the layout have equal sizes and can be cut into equal slices. This holds if the
 * number of ranks divides the size of every split dimension, or of some dimension if none is split. */
static bool
parts_are_equal(const struct search *s, const struct layout *l)
{
    const struct place *p = l->place;
    bool equal = false;
    for (int d = 0; d < s->type.ndim; d++) equal = equal || s->type.dim[d] % p->nrank == 0;
    for (int a = 0; a < p->naxis; a++)
        equal = equal && (l->sbp[a].kind != SBP_S || divides_evenly(s, l->sbp[a], p->nrank));
    return equal;
}

/* Finds pairs of interchangeable axes. Two axes are interchangeable if they have one size, have the same entries in
 * `from` and in `to`, and split no dimension. Exchanging them in all layouts of a path only renumbers ranks, and so
 * gives an equivalent path. */
static void
find_equal_axes(struct search *s)
{
    const struct place *p = s->from->place;
    bool equal = !s->every && p == s->to->place && parts_are_equal(s, s->from) && parts_are_equal(s, s->to);
    for (int a = 0; a < p->naxis; a++) {
        struct sbp x = s->from->sbp[a], y = s->to->sbp[a];
        s->stands[a] = (uint8_t)a;
        if (!equal || x.kind == SBP_S || y.kind == SBP_S) continue;
        for (int b = a - 1; b >= 0; b--)
            if (p->axis[b] == p->axis[a] && same_path_entry(s->from->sbp[b], x) && same_path_entry(s->to->sbp[b], y))
                s->stands[a] = s->stands[b];
    }
}

/* Returns an SBP entry as a number by which entries are sorted. For a split, the number also depends on the split's
 * position in the cutting order. */
static int
weight(const struct layout *l, int axis)
{
    int at = 0;
    while (l->order[at] != axis) at++;
    struct sbp x = l->sbp[axis];
    return (x.kind << 8 | x.axis) * MAX_AXIS + (x.kind == SBP_S ? at : 0);
}

/* Returns the layout that represents l and all layouts that differ from l only by an exchange of interchangeable
 * axes: sorts the entries of these axes. */
static const struct layout *
layout_stands_for(const struct search *s, const struct layout *l)
{
    int n = l->place->naxis, has[MAX_AXIS]; /* has[a]: axis whose entry axis a gets */
    bool moved = false, equal = l->place == s->from->place && parts_are_equal(s, l);
    for (int a = 0; a < n; a++) has[a] = a;
    for (int a = 0; a < n && equal; a++)
        for (int b = a; b > 0; b--) {
            int before = b - 1;
            while (before >= 0 && s->stands[before] != s->stands[b]) before--;
            if (before < 0 || weight(l, has[before]) <= weight(l, has[b])) break;
            int x = has[b];
            has[b] = has[before];
            has[before] = x;
            moved = true;
            b = before + 1;
        }
    if (!moved) return l;
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS], gives[MAX_AXIS];
    const struct layout *out;
    for (int a = 0; a < n; a++) {
        sbp[a] = l->sbp[has[a]];
        gives[has[a]] = (uint8_t)a;
    }
    for (int i = 0; i < n; i++) order[i] = gives[l->order[i]];
    int status = layout_new(s->atlas, l->place, sbp, order, &out);
    assert(!status); /* cannot fail, because the layout equals l with renumbered ranks */
    UNUSED(status);
    return out;
}

/* Returns true if an earlier axis is interchangeable with this axis and has the same entry. */
static bool
is_repeated_axis(const struct search *s, const struct layout *l, int a)
{
    for (int b = 0; b < a; b++)
        if (l->place == s->from->place && s->stands[b] == s->stands[a] && l->sbp[a].kind != SBP_S &&
            same_path_entry(l->sbp[a], l->sbp[b]))
            return true;
    return false;
}

/* ---- search for the cheapest path ---- */

/* Returns the bytes of the largest shard, which is at position 0, because the first part of every split is the
 * largest. */
static int64_t
largest_part_bytes(const struct layout *l, const struct type *t)
{
    struct type part = layout_shard(l, t, 0);
    return type_bytes(&part);
}

/* Returns a lower bound of a hop's price: some rank receives at least the mean number of bytes, in at least one
 * message. */
static double
least_ns(const struct search *s, const struct layout *to, int64_t bytes)
{
    const struct box_cost *c = s->cost;
    return c->hop_ns + (bytes ? c->alpha_ns + c->beta_ns_per_byte * (double)bytes / to->place->nrank : 0);
}

/* Returns true if a path that reaches a layout with this price may still become the cheapest. */
static bool
may_be_best(const struct search *s, double ns, const struct layout *at, int64_t rest)
{
    return s->every || ns + (at == s->to ? 0 : least_ns(s, s->to, rest)) < s->best;
}

/* Returns the next state with the same representative; NULL: no more. *at must be 0 before the first call. */
static struct state *
next_state(const struct search *s, const struct layout *as, uint32_t *at)
{
    void *item;
    while ((item = hash_next(&s->found, hash_address(as), at)))
        if (s->state[hash_index_of(item)].as == as) return &s->state[hash_index_of(item)];
    return NULL;
}

static bool
receives_no_more(const struct search *s, const struct state *x, const struct state *y)
{
    for (int32_t i = 0; i < s->quota.nrank; i++)
        if (x->received[i] > y->received[i]) return false;
    return true;
}

/* Returns true if y is useless, because a known state of the same representative layout costs no more than y. The
 * known state must have as many hops as y, or it must stage and receive no more bytes than y. If s->every is set, a
 * state with fewer hops never makes y useless, because paths of every length are listed. */
static bool
is_needless(const struct search *s, const struct state *y)
{
    uint32_t at = 0;
    for (const struct state *x; (x = next_state(s, y->as, &at));) {
        if (x->ns > y->ns || (s->every && x->nhop < y->nhop)) continue;
        if (x->nhop == y->nhop || (x->staging <= y->staging && receives_no_more(s, x, y))) return true;
    }
    return false;
}

static void
add_state(struct search *s, struct state state)
{
    uint32_t at = 0;
    for (struct state *x; (x = next_state(s, state.as, &at));) {
        if (x->nhop != state.nhop) continue;
        if (state.ns < x->ns) *x = state;
        return;
    }
    GROW(s->state, s->nstate + 1, s->capacity);
    hash_add(&s->found, hash_address(state.as), hash_index(s->nstate));
    s->state[s->nstate++] = state;
}

static bool
seen_before(const struct search *s, int32_t i, const struct layout *l)
{
    for (; i >= 0; i = s->state[i].before)
        if (s->state[i].at == l) return true;
    return false;
}

static int64_t
bytes_once(struct search *s, const struct layout *from, const struct layout *to)
{
    return box_bytes_known(&s->type, from, to, &s->known);
}

/* Adds a state with one more hop, if it is on a path with the fewest bytes and within the staging limit. */
static void
try_hop(struct search *s, int32_t before, const struct layout *to)
{
    struct state was = s->state[before], next = {.at = to, .before = before, .nhop = (int8_t)(was.nhop + 1)};
    if (seen_before(s, before, to)) return;
    int64_t first = bytes_once(s, s->from, was.at), last = bytes_once(s, to, s->to);
    next.bytes = bytes_once(s, was.at, to);
    if (last == INT64_MAX || next.bytes == INT64_MAX || first + next.bytes + last > s->bound) return;
    next.ns = was.ns + least_ns(s, to, next.bytes);
    if (!may_be_best(s, next.ns, to, last)) return;
    next.rest = last;
    next.as = layout_stands_for(s, to);
    next.received = was.received;
    next.staging = was.staging;
    if (to != s->to) next.staging = MAX(was.staging, largest_part_bytes(to, &s->type));
    if (s->cost->staging_bytes > 0 && next.staging > s->cost->staging_bytes && next.nhop + (to != s->to) > 1) return;
    if (is_needless(s, &next)) return;
    const struct price *hop = price_once(s, was.at, to);
    next.hop_ns = hop->ns;
    next.ns = was.ns + hop->ns;
    next.received = received_after(s, &was, hop);
    if (next.received && !is_needless(s, &next)) add_state(s, next);
}

/* Tries two layouts in which axis a has `entry`: one in which axis a cuts last, and one in the destination's cutting
 * order. */
static void
try_entry(struct search *s, int32_t before, int a, struct sbp entry)
{
    const struct layout *l = s->state[before].at, *next;
    struct sbp sbp[MAX_AXIS];
    uint8_t order[MAX_AXIS];
    int n = l->place->naxis, k = 0;
    memcpy(sbp, l->sbp, sizeof sbp);
    sbp[a] = entry;
    for (int i = 0; i < n; i++)
        if (l->order[i] != a) order[k++] = l->order[i];
    order[k] = (uint8_t)a;
    if (!layout_new(s->atlas, l->place, sbp, order, &next)) try_hop(s, before, next);
    if (l->place == s->to->place && !layout_new(s->atlas, l->place, sbp, s->to->order, &next)) try_hop(s, before, next);
}

/* Tries a layout with the same entries on the destination's mesh, if both meshes have the same shape. */
static void
try_crossing(struct search *s, int32_t before)
{
    const struct layout *l = s->state[before].at, *next;
    const struct place *p = l->place, *q = s->to->place;
    if (p == q || p->naxis != q->naxis || memcmp(p->axis, q->axis, sizeof *p->axis * p->naxis)) return;
    if (!layout_new(s->atlas, q, l->sbp, l->order, &next)) try_hop(s, before, next);
}

static void
try_collectives(struct search *s, int32_t before)
{
    const struct layout *l = s->state[before].at;
    for (int a = 0; a < l->place->naxis; a++) {
        if (l->place->axis[a] == 1 || is_repeated_axis(s, l, a)) continue;
        if (l->sbp[a].kind != SBP_B) try_entry(s, before, a, (struct sbp){.kind = SBP_B});
        for (int d = 0; d < s->type.ndim; d++)
            if (l->sbp[a].kind != SBP_S || l->sbp[a].axis != d)
                try_entry(s, before, a, (struct sbp){.kind = SBP_S, .axis = (uint8_t)d});
        if (l->place == s->to->place && s->to->sbp[a].unit) try_entry(s, before, a, s->to->sbp[a]);
    }
    try_crossing(s, before);
    try_hop(s, before, s->to);
}

/* ---- turn states into candidates ---- */

static struct box_candidate
path_candidate(const struct search *s, int32_t last)
{
    const struct state *end = &s->state[last];
    struct box_candidate c = {.nhop = end->nhop, .staging = end->staging, .ns = end->ns};
    c.hop = ARENA_ARRAY(s->arena, struct box_hop, c.nhop);
    for (int32_t i = last; s->state[i].before >= 0; i = s->state[i].before) {
        const struct state *to = &s->state[i], *from = &s->state[to->before];
        c.hop[to->nhop - 1] =
            (struct box_hop){from->at, to->at, box_name(&s->type, from->at, to->at), to->bytes, to->hop_ns};
        c.bytes += to->bytes;
    }
    return c;
}

static int
by_price(const void *a, const void *b)
{
    const struct box_candidate *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return x->nhop - y->nhop;
}

static void
path_arrive(struct search *s, int32_t last, struct box_path *p)
{
    p->candidate[p->ncandidate++] = path_candidate(s, last);
    s->best = MIN(s->best, s->state[last].ns);
}

/* Processes all states that have the current number of hops. A path that reaches `to` becomes a candidate; the other
 * paths are continued. Returns false if there are no new states. */
static bool
path_goes_on(struct search *s, struct box_path *p)
{
    int32_t first = s->level, end = s->nstate;
    s->level = end;
    for (int32_t i = first; i < end; i++)
        if (s->state[i].at == s->to) path_arrive(s, i, p);
    for (int32_t i = first; i < end; i++) {
        const struct state *x = &s->state[i];
        if (x->at != s->to && may_be_best(s, x->ns, x->at, x->rest)) try_collectives(s, i);
    }
    return s->nstate > end;
}

int
box_long_axes(const struct place *p)
{
    int n = 0;
    for (int a = 0; a < p->naxis; a++) n += p->axis[a] > 1;
    return n;
}

int
box_path(struct arena *a, struct atlas *at, const struct type *t, const struct layout *from, const struct layout *to,
         const struct box_cost *cost, struct box_path **out)
{
    struct search s = {.arena = a, .atlas = at, .type = *t, .from = from, .to = to, .cost = cost};
    struct box_path *p = *out = ARENA_NEW(a, struct box_path);
    s.bound = p->bound = box_bytes(t, from, to);
    s.every = MAX(box_long_axes(from->place), box_long_axes(to->place)) <= BOX_FEW_AXES;
    s.best = INFINITY;
    find_equal_axes(&s);
    s.known.arena = s.found.arena = s.price.arena = &s.kept;
    if (s.bound == INT64_MAX) {
        struct box_plan *refused;
        return box_plan(a, t, from, to, &refused);
    }
    p->candidate = ARENA_ARRAY(a, struct box_candidate, MAX_HOP + 1);
    watch_ranks(&s);
    int64_t *none = ARENA_ARRAY(&s.kept, int64_t, s.quota.nrank);
    add_state(&s, (struct state){.at = from, .as = from, .before = -1, .received = none});
    /* the destination has the same bytes under another layout, so no hop is needed */
    if (layout_same_boxes(from, to, t)) {
        struct box_hop hop = {.from = from, .to = to, .name = box_name(t, from, to)};
        p->candidate[p->ncandidate++] = (struct box_candidate){.nhop = 1, .hop = arena_dup(a, &hop, sizeof hop)};
    } else {
        for (int n = 0; n <= MAX_HOP && path_goes_on(&s, p); n++)
            ;
    }
    qsort(p->candidate, (size_t)p->ncandidate, sizeof *p->candidate, by_price);
    arena_fini(&s.scratch);
    free(s.state);
    arena_fini(&s.kept);
    return 0;
}
