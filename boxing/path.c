/* path.c - the cheapest sequence of hops that sends no byte more than the direct exchange.
 *
 * A sequence cannot send fewer bytes than the bound, so it keeps up with the
 * direct exchange only if every layout in between is on a shortest way:
 * bytes(from, mid) + bytes(mid, to) = bytes(from, to). box_bytes is a closed
 * form, and the test leaves few layouts of the many there are. Over those the
 * cheapest sequence of each length is found hop by hop, one length after the
 * other (Bellman's recursion; hops are few).
 *
 * Without P equal totals mean equal shares: no rank can do with less than the
 * direct exchange gives it. With P the ranks are compared. What is looked at
 * rank by rank is on large meshes looked at in their corners: balanced cuts
 * make the first parts the largest and the last the smallest. */
#include "boxing/path.h"

#include "runtime/error.h"
#include "runtime/sorted.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_HOP = 2 * MAX_AXIS,
    MAX_PROBE = 1 << MAX_AXIS, /* ranks looked at; larger meshes have as many corners at most */
};

/* A layout reached by so many hops, the cheapest way. */
struct state {
    const struct layout *at;
    int32_t before; /* state of the hop before, -1: the start */
    int8_t nhop;
    int64_t bytes; /* of the last hop */
    int64_t staging;
    double ns, hop_ns;
};

struct search {
    struct arena *arena, scratch;
    struct atlas *atlas;
    struct type type;
    const struct layout *from, *to;
    const struct box_cost *cost;
    int64_t bound;
    struct state *state;
    int32_t nstate, capacity;
    int32_t level;       /* first state of the length now made */
    struct price *price; /* of the hops priced so far */
    int32_t nprice, price_capacity;
};

struct price {
    const struct layout *from, *to;
    double ns;
};

/* ---- the price of one hop ---- */

struct load {
    double alpha, beta, gamma, copy; /* messages, bytes received, bytes combined, own bytes copied */
};

/* Positions of a mesh that stand for all of it. */
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

/* Different ranks that these steps read from, `self` apart. */
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

/* Steps of one rank and one level. self: which source is the rank itself, -1: none, where the other side is of another
 * kind. */
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

/* Takes the ranks of one mesh into account, level by level. */
static void
load_side(struct search *s, const struct place *place, const struct layout *from, const struct layout *to,
          struct load worst[2])
{
    int32_t pos[MAX_PROBE], n = probes(place, pos);
    bool one_kind = from->place->kind == to->place->kind;
    for (int32_t i = 0; i < n; i++) {
        struct box_plan *p;
        int32_t rank = place->rank[pos[i]];
        arena_reset(&s->scratch);
        if (plan_rank(s, from, to, rank, &p)) continue;
        if (p->nstage) keep_worst(&worst[0], load_of(&s->scratch, p, &p->stage[0].work, rank));
        if (p->npart) keep_worst(&worst[1], load_of(&s->scratch, p, &p->part[0], one_kind ? rank : -1));
    }
}

static double
price_hop(struct search *s, const struct layout *from, const struct layout *to)
{
    const struct box_cost *c = s->cost;
    struct load worst[2] = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    double ns = c->hop_ns;
    load_side(s, to->place, from, to, worst);
    if (from->place != to->place) load_side(s, from->place, from, to, worst);
    for (int k = 0; k < 2; k++)
        ns += worst[k].alpha * c->alpha_ns + worst[k].beta * c->beta_ns_per_byte +
              worst[k].gamma * c->gamma_ns_per_byte + worst[k].copy * c->copy_ns_per_byte;
    return ns;
}

/* The same hop is met on many ways. */
static double
price_once(struct search *s, const struct layout *from, const struct layout *to)
{
    for (int32_t i = 0; i < s->nprice; i++)
        if (s->price[i].from == from && s->price[i].to == to) return s->price[i].ns;
    GROW(s->price, s->nprice + 1, s->price_capacity);
    s->price[s->nprice] = (struct price){from, to, price_hop(s, from, to)};
    return s->price[s->nprice++].ns;
}

/* ---- the search ---- */

/* Bytes of the largest part; position 0 has the first part of every cut, and first parts are the largest. */
static int64_t
largest_part(const struct layout *l, const struct type *t)
{
    struct type part = layout_shard(l, t, 0);
    return type_bytes(&part);
}

static void
add_state(struct search *s, struct state state)
{
    for (int32_t i = s->level; i < s->nstate; i++) {
        if (s->state[i].at != state.at) continue;
        if (state.ns < s->state[i].ns) s->state[i] = state;
        return;
    }
    GROW(s->state, s->nstate + 1, s->capacity);
    s->state[s->nstate++] = state;
}

static bool
seen_before(const struct search *s, int32_t i, const struct layout *l)
{
    for (; i >= 0; i = s->state[i].before)
        if (s->state[i].at == l) return true;
    return false;
}

/* One hop more, if it stays on a shortest way in bytes and within the staging limit. */
static void
try_hop(struct search *s, int32_t before, const struct layout *to)
{
    struct state was = s->state[before], next = {.at = to, .before = before, .nhop = (int8_t)(was.nhop + 1)};
    if (seen_before(s, before, to)) return;
    int64_t first = box_bytes(&s->type, s->from, was.at), last = box_bytes(&s->type, to, s->to);
    next.bytes = box_bytes(&s->type, was.at, to);
    if (last == INT64_MAX || next.bytes == INT64_MAX || first + next.bytes + last > s->bound) return;
    next.staging = was.staging;
    if (to != s->to) next.staging = MAX(was.staging, largest_part(to, &s->type));
    if (s->cost->staging_bytes > 0 && next.staging > s->cost->staging_bytes && next.nhop + (to != s->to) > 1) return;
    next.hop_ns = price_once(s, was.at, to);
    next.ns = was.ns + next.hop_ns;
    add_state(s, next);
}

/* The layout with axis a changed, cut innermost; and in the order of the destination. */
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

/* The same entries on the destination's mesh, where its shape allows. */
static void
try_crossing(struct search *s, int32_t before)
{
    const struct layout *l = s->state[before].at, *next;
    const struct place *p = l->place, *q = s->to->place;
    if (p == q || p->naxis != q->naxis || memcmp(p->axis, q->axis, sizeof *p->axis * p->naxis)) return;
    if (!layout_new(s->atlas, q, l->sbp, l->order, &next)) try_hop(s, before, next);
}

static void
try_all(struct search *s, int32_t before)
{
    const struct layout *l = s->state[before].at;
    for (int a = 0; a < l->place->naxis; a++) {
        if (l->place->axis[a] == 1) continue;
        if (l->sbp[a].kind != SBP_B) try_entry(s, before, a, (struct sbp){.kind = SBP_B});
        for (int d = 0; d < s->type.ndim; d++)
            if (l->sbp[a].kind != SBP_S || l->sbp[a].axis != d)
                try_entry(s, before, a, (struct sbp){.kind = SBP_S, .axis = (uint8_t)d});
    }
    try_crossing(s, before);
    try_hop(s, before, s->to);
}

/* ---- from states to candidates ---- */

static struct box_candidate
candidate_of(const struct search *s, int32_t last)
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

static int64_t
received_by(struct search *s, int32_t rank, const struct box_candidate *c)
{
    int64_t bytes = 0;
    for (int k = 0; k < c->nhop; k++) {
        struct box_plan *p;
        arena_reset(&s->scratch);
        if (plan_rank(s, c->hop[k].from, c->hop[k].to, rank, &p)) return INT64_MAX;
        bytes += p->bytes;
    }
    return bytes;
}

/* Gives no rank of this mesh more than the direct exchange? */
static bool
keeps_up_on(struct search *s, const struct place *place, const struct box_candidate *c)
{
    struct box_hop hop = {.from = s->from, .to = s->to};
    struct box_candidate direct = {.nhop = 1, .hop = &hop};
    int32_t pos[MAX_PROBE], n = probes(place, pos);
    for (int32_t i = 0; i < n; i++) {
        int32_t rank = place->rank[pos[i]];
        if (received_by(s, rank, c) > received_by(s, rank, &direct)) return false;
    }
    return true;
}

static bool
keeps_up(struct search *s, const struct box_candidate *c)
{
    if (!layout_has_partial(s->from) && !layout_has_partial(s->to)) return true;
    return keeps_up_on(s, s->from->place, c) && (s->from->place == s->to->place || keeps_up_on(s, s->to->place, c));
}

static int
by_price(const void *a, const void *b)
{
    const struct box_candidate *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    return x->nhop - y->nhop;
}

/* The states of one length: the way to `to`, if there is one, is a candidate; the others are continued. */
static bool
go_on(struct search *s, struct box_path *p)
{
    int32_t first = s->level, end = s->nstate;
    s->level = end;
    for (int32_t i = first; i < end; i++) {
        if (s->state[i].at != s->to) {
            try_all(s, i);
            continue;
        }
        struct box_candidate c = candidate_of(s, i);
        if (c.nhop == 1 || keeps_up(s, &c)) p->candidate[p->ncandidate++] = c;
    }
    return s->nstate > end;
}

int
box_path(struct arena *a, struct atlas *at, const struct type *t, const struct layout *from, const struct layout *to,
         const struct box_cost *cost, struct box_path **out)
{
    struct search s = {.arena = a, .atlas = at, .type = *t, .from = from, .to = to, .cost = cost};
    struct box_path *p = *out = ARENA_NEW(a, struct box_path);
    s.bound = p->bound = box_bytes(t, from, to);
    if (s.bound == INT64_MAX) {
        struct box_plan *refused;
        return box_plan(a, t, from, to, &refused);
    }
    p->candidate = ARENA_ARRAY(a, struct box_candidate, MAX_HOP + 1);
    add_state(&s, (struct state){.at = from, .before = -1});
    if (layout_same_boxes(from, to, t)) { /* another name of the same bytes: no hop is cheaper */
        struct box_hop hop = {.from = from, .to = to, .name = box_name(t, from, to)};
        p->candidate[p->ncandidate++] = (struct box_candidate){.nhop = 1, .hop = arena_dup(a, &hop, sizeof hop)};
    } else {
        for (int n = 0; n <= MAX_HOP && go_on(&s, p); n++)
            ;
    }
    qsort(p->candidate, (size_t)p->ncandidate, sizeof *p->candidate, by_price);
    arena_fini(&s.scratch);
    free(s.state);
    free(s.price);
    return 0;
}

void
box_path_print(const struct box_path *p, struct str *s)
{
    for (int i = 0; i < p->ncandidate; i++) {
        const struct box_candidate *c = &p->candidate[i];
        str_addf(s, "%10.1f us  %lld bytes  ", c->ns / 1e3, (long long)c->bytes);
        for (int k = 0; k < c->nhop; k++) {
            str_addf(s, "%s%s -> ", k ? ", " : "", c->hop[k].name);
            layout_print(c->hop[k].to, s);
        }
        if (c->staging > 0) str_addf(s, "  (%lld bytes between)", (long long)c->staging);
        str_add(s, "\n");
    }
}
