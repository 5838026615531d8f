/* plan.c - makes the plan of a move: turns the deal of every cell (deal.h) into the steps of every rank.
 *
 * Each rank can be planned alone. The work of a rank is to fill its stage and its destination shard. The stage holds
 * the shares that the rank reduces of cells of its source shard. The cells of the destination shard are copied,
 * reduced or filled. A whole plan is the concatenation of the ranks' work, stages first.
 *
 * Equal lists are stored once: the addends that owners of one replica read, and the steps of destination shards that
 * are replicas and read the same source replica. So an all-reduce or all-gather over R ranks takes memory for R
 * steps, not R x R. */
#include "boxing/plan.h"
#include "boxing/name.h"
#include "boxing/bytes.h"
#include "boxing/deal.h"
#include "boxing/relay.h"

#include "runtime/base/error.h"
#include "runtime/data/sorted.h"

#include <stdlib.h>
#include <string.h>

/* A direct-mapped cache: the low bits of a key select its slot, and a new entry replaces the old one. */
struct memo_slot {
    int64_t key;
    const void *value;
};
struct memo {
    struct memo_slot *slot;
    int32_t nslot; /* number of slots, a power of two */
};

struct maker {
    struct arena *arena, tmp; /* arena: memory of the plan; tmp: memory of this call */
    struct grid from, to;
    struct deal deal;
    struct relay relay; /* used if the plan has a hierarchical reduction */
    /* (hierarchical reduction with `back`) segment of ranks that holds the destination shard being planned */
    int32_t leg;
    struct box_plan *plan;
    struct memo addends, parts; /* addends: cache of equal lists of sources; parts: cache of equal lists of steps */
    int32_t replica;            /* index of the source replica from which the current steps read */
    struct box_step *step;      /* steps of the work being planned; allocated by malloc */
    int32_t nstep, capacity;
};

/* ---- caches ---- */

static void
memo_init(struct memo *m, struct arena *a, int32_t n)
{
    for (m->nslot = 16; m->nslot < n; m->nslot *= 2) continue;
    m->slot = ARENA_ARRAY(a, struct memo_slot, m->nslot);
}

/* Returns the slot of a key. The slot may hold another key whose low bits are equal. */
static struct memo_slot *
memo_at(const struct memo *m, int64_t key)
{
    return &m->slot[key & (m->nslot - 1)];
}

static const void *
derived_deal_find(const struct memo *m, int64_t key)
{
    const struct memo_slot *s = memo_at(m, key);
    return s->key == key ? s->value : NULL;
}

static void
derived_deal_put(struct memo *m, int64_t key, const void *value)
{
    *memo_at(m, key) = (struct memo_slot){key, value};
}

/* ---- steps ---- */

static void
append_step(struct maker *m, struct box_step step, const struct box *slice)
{
    GROW(m->step, m->nstep + 1, m->capacity);
    step.slice = arena_dup(m->arena, slice, sizeof *slice);
    m->step[m->nstep++] = step;
}

static void
copy_share(struct maker *m, const struct box *share, struct box_source source)
{
    struct box_step step = {.verb = BOX_COPY, .nsource = 1};
    step.source = arena_dup(m->arena, &source, sizeof source);
    append_step(m, step, share);
}

/* Moves the steps that were added since the last call into *w. */
static void
plan_take_steps(struct maker *m, struct box_work *w)
{
    w->nstep = m->nstep;
    w->step = arena_dup(m->arena, m->step, sizeof *m->step * (size_t)m->nstep);
    m->nstep = 0;
}

/* Lists the addends of a group, in mesh order. */
static const struct box_source *
list_addends(struct maker *m, int32_t group)
{
    struct box_source *source = ARENA_ARRAY(m->arena, struct box_source, m->deal.ntaken[group]);
    int32_t n = 0;
    for (int32_t i = 0; i < m->from.naddend; i++) {
        if (m->deal.give[i] != group) continue;
        int32_t pos = deal_source(&m->deal, m->replica, i);
        source[n++] = (struct box_source){grid_rank(&m->from, pos), pos, BOX_PART};
    }
    return source;
}

/* Sets the sources of a step. If all addends form one group, the steps that read the same tile and replica share one
 * list of sources. */
static void
set_sources(struct maker *m, struct box_step *step, int32_t group)
{
    int64_t key = grid_pos(&m->from, (struct spot){m->deal.src, 0, m->replica});
    bool all = m->to.naddend == 1 && m->from.naddend > 1;
    step->nsource = m->deal.ntaken[group];
    step->source = all ? derived_deal_find(&m->addends, key) : NULL;
    if (step->source) return;
    step->source = list_addends(m, group);
    if (all) derived_deal_put(&m->addends, key, step->source);
}

/* ---- stages ---- */

/* Adds the step for a share (slice) of a cell, if source position `pos` is the owner that reduces it. */
static void
plan_share(struct maker *m, int32_t pos, int32_t group, const struct box *cell)
{
    struct box_step step = {.verb = BOX_REDUCE, .reduce = (uint8_t)grid_reduce(&m->from)};
    struct box share;
    int32_t k = 0;
    deal_owners(&m->deal, group);
    while (k < m->deal.nowner && m->deal.owner[k] != pos) k++;
    if (m->deal.direct || k == m->deal.nowner) return;
    if (!deal_share(cell, m->from.type->ndim, m->deal.nowner, k, &share)) return;
    set_sources(m, &step, group);
    append_step(m, step, &share);
}

/* Makes the stage with this number from the current steps. Stores the steps' slices one after the other in the
 * stage. */
static void
add_stage(struct maker *m, int32_t number)
{
    struct box_stage *s = &m->plan->stage[m->plan->nstage];
    if (m->nstep == 0) return;
    int32_t rank = grid_rank(&m->from, box_stage_pos(m->plan, number));
    *s = (struct box_stage){.work = {.rank = rank, .pos = number, .same = m->plan->nstage++}};
    plan_take_steps(m, &s->work);
    int64_t *offset = ARENA_ARRAY(m->arena, int64_t, s->work.nstep);
    for (int32_t k = 0; k < s->work.nstep; k++) {
        offset[k] = s->numel;
        s->numel += box_numel(s->work.step[k].slice, m->from.type->ndim);
    }
    s->offset = offset;
}

/* Plans the stage of source position `pos`: the buffer with the sums that this rank reduces. For each cell of its
 * shard, the stage holds the share (slice) that `pos` reduces, for the group to which its addend is assigned. */
static void
plan_stage(struct maker *m, int32_t pos)
{
    struct spot at = grid_spot(&m->from, pos);
    struct box part;
    struct cell_walk w;
    layout_box(m->from.layout, m->from.type, pos, &part);
    m->replica = at.replica;
    for (bool more = cell_begin(&w, &m->to, &part); more; more = cell_next(&w)) {
        int32_t n = deal_shares(&m->deal, at.corner, w.corner);
        struct box share;
        for (int32_t k = 0; k < n; k++) {
            if (!deal_share(&w.box, m->to.type->ndim, n, k, &share)) continue;
            deal_cell(&m->deal, at.corner, w.corner, k);
            int32_t group = m->deal.give[at.addend];
            if (m->deal.ntaken[group] > 1) plan_share(m, pos, group, &share);
        }
    }
    add_stage(m, pos);
}

/* ---- hierarchical reductions ---- */

/* Returns the source that holds the running sum of a share after a segment: the owner's stage. If the first segment
 * has a single addend, returns the addend's shard, because there is nothing to reduce. */
static struct box_source
handed_source(const struct maker *m, int32_t leg, int32_t share, int32_t chunk)
{
    int32_t pos = relay_owner(&m->relay, m->deal.src, leg, share), number = relay_stage(&m->relay, leg, pos, chunk);
    if (leg == 0 && m->relay.bare) return (struct box_source){grid_rank(&m->from, pos), pos, BOX_PART};
    return (struct box_source){grid_rank(&m->from, pos), number, box_stage_at(m->plan, number)};
}

/* Returns the source of the complete sum for a segment: on the way back the owner's stage, else the last segment's
 * stage. */
static struct box_source
whole(const struct maker *m, int32_t leg, int32_t share, int32_t chunk)
{
    if (!m->relay.how->back || leg == m->relay.how->nleg - 1)
        return handed_source(m, m->relay.how->nleg - 1, share, chunk);
    int32_t pos = relay_owner(&m->relay, m->deal.src, leg, share), number = relay_back(&m->relay, leg, pos, chunk);
    return (struct box_source){grid_rank(&m->from, pos), number, box_stage_at(m->plan, number)};
}

/* Adds the step for a chunk of a share, a slice of a cell. The sources are the running sum of the segments before,
 * then the addends of this segment in the owner's replica. */
static void
plan_handed(struct maker *m, int32_t leg, int32_t share, int32_t chunk, const struct box *cell)
{
    const int32_t *first = m->relay.how->first;
    struct box_step step = {.verb = BOX_REDUCE, .reduce = (uint8_t)grid_reduce(&m->from)};
    struct box piece;
    if (!relay_piece(&m->relay, cell, share, chunk, &piece)) return;
    struct box_source *source = ARENA_ARRAY(m->arena, struct box_source, first[leg + 1] - first[leg] + 1);
    if (leg) source[step.nsource++] = handed_source(m, leg - 1, share, chunk);
    for (int32_t i = first[leg]; i < first[leg + 1]; i++) {
        int32_t pos = deal_source(&m->deal, m->replica, i);
        source[step.nsource++] = (struct box_source){grid_rank(&m->from, pos), pos, BOX_PART};
    }
    step.source = source;
    append_step(m, step, &piece);
}

/* Adds the step that copies a chunk, on the way back, from the next segment's owner. */
static void
plan_back(struct maker *m, int32_t leg, int32_t share, int32_t chunk, const struct box *cell)
{
    struct box piece;
    if (relay_piece(&m->relay, cell, share, chunk, &piece)) copy_share(m, &piece, whole(m, leg + 1, share, chunk));
}

/* Plans the stage of source position `pos` for one chunk, forward or on the way back. */
static void
plan_leg(struct maker *m, int32_t pos, int32_t leg, int32_t chunk, bool back)
{
    struct spot at = grid_spot(&m->from, pos);
    struct box part;
    struct cell_walk w;
    int32_t step, first = relay_first(&m->relay, at, &step);
    layout_box(m->from.layout, m->from.type, pos, &part);
    m->replica = at.replica;
    for (bool more = cell_begin(&w, &m->to, &part); more; more = cell_next(&w)) {
        deal_cell(&m->deal, at.corner, w.corner, 0);
        for (int32_t k = first; k < m->relay.nshare; k += step)
            if (back)
                plan_back(m, leg, k, chunk, &w.box);
            else
                plan_handed(m, leg, k, chunk, &w.box);
    }
    add_stage(m, back ? relay_back(&m->relay, leg, pos, chunk) : relay_stage(&m->relay, leg, pos, chunk));
}

/* Plans the stages of a segment, for those of its positions that are in the plan's set `mine`. */
static void
plan_legs(struct maker *m, const struct box_ranks *mine, int32_t leg, bool back)
{
    for (int32_t chunk = 0; chunk < m->relay.how->nchunk; chunk++)
        for (int32_t i = 0; i < mine->nfrom; i++)
            if (relay_segment(&m->relay, grid_spot(&m->from, mine->from[i]).addend) == leg)
                plan_leg(m, mine->from[i], leg, chunk, back);
}

static void
plan_relay(struct maker *m, const struct box_ranks *mine)
{
    const struct box_relay *how = m->relay.how;
    for (int32_t leg = m->relay.bare; leg < how->nleg; leg++) plan_legs(m, mine, leg, false);
    for (int32_t leg = how->nleg - 2; how->back && leg >= 0; leg--) plan_legs(m, mine, leg, true);
}

/* ---- destinations ---- */

int32_t
box_stage_at(const struct box_plan *p, int32_t number)
{
    int32_t lo = 0, hi = p->nstage;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (p->stage[mid].work.pos < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->nstage && p->stage[lo].work.pos == number ? lo : BOX_ELSEWHERE;
}

static bool
box_inside(const struct box *inner, const struct box *outer, int ndim)
{
    for (int d = 0; d < ndim; d++)
        if (inner->lo[d] < outer->lo[d] || inner->hi[d] > outer->hi[d]) return false;
    return true;
}

int32_t
box_stage_find(const struct box_plan *p, int32_t stage, const struct box *slice)
{
    const struct box_work *w = &p->stage[stage].work;
    int32_t k = 0;
    while (k < w->nstep && !box_inside(slice, w->step[k].slice, p->type.ndim)) k++;
    assert(k < w->nstep);
    return k;
}

/* Adds the steps that copy the sum of a cell from its owners. Each owner has reduced one share (slice) of the
 * cell. */
static void
copy_cell_shares(struct maker *m, const struct box *cell)
{
    for (int32_t k = 0; k < m->deal.nowner; k++) {
        struct box share;
        if (!deal_share(cell, m->from.type->ndim, m->deal.nowner, k, &share)) continue;
        int32_t pos = m->deal.owner[k];
        copy_share(m, &share, (struct box_source){grid_rank(&m->from, pos), pos, box_stage_at(m->plan, pos)});
    }
}

/* Adds the steps that copy the sum of a cell, chunk by chunk, from the owners in the reader's segment. */
static void
copy_pieces(struct maker *m, const struct box *cell)
{
    const struct box_relay *r = m->plan->relay;
    struct box piece;
    for (int32_t k = 0; k < m->relay.nshare; k++)
        for (int32_t chunk = 0; chunk < r->nchunk; chunk++)
            if (relay_piece(&m->relay, cell, k, chunk, &piece)) copy_share(m, &piece, whole(m, m->leg, k, chunk));
}

/* Plans a cell of a destination shard: a copy, a sum or a fill, as the deal decided. */
static void
plan_cell(struct maker *m, const struct box *cell, int32_t group)
{
    int32_t ntaken = m->deal.ntaken[group];
    struct box_step step = {.verb = ntaken == 0 ? BOX_FILL : ntaken == 1 ? BOX_COPY : BOX_REDUCE};
    if (m->plan->relay) {
        copy_pieces(m, cell);
        return;
    }
    if (ntaken > 1) deal_owners(&m->deal, group);
    if (ntaken > 1 && !m->deal.direct) {
        copy_cell_shares(m, cell);
        return;
    }
    step.reduce = (uint8_t)(ntaken == 0 ? grid_reduce(&m->to) : ntaken > 1 ? grid_reduce(&m->from) : RED_NONE);
    if (ntaken > 0) set_sources(m, &step, group);
    append_step(m, step, cell);
}

/* Plans how the shard of destination position `pos` is filled, cell by cell. A cell is the intersection of a source
 * tile and a destination tile (deal.h). */
static void
plan_cells(struct maker *m, int32_t pos, struct spot at)
{
    struct box part, share;
    struct cell_walk w;
    layout_box(m->to.layout, m->to.type, pos, &part);
    for (bool more = cell_begin(&w, &m->from, &part); more; more = cell_next(&w)) {
        int32_t n = deal_shares(&m->deal, w.corner, at.corner);
        for (int32_t k = 0; k < n; k++) {
            if (!deal_share(&w.box, m->to.type->ndim, n, k, &share)) continue;
            deal_cell(&m->deal, w.corner, at.corner, k);
            plan_cell(m, &share, at.addend);
        }
    }
}

static void
plan_part(struct maker *m, int32_t pos)
{
    struct spot at = grid_spot(&m->to, pos);
    struct box_work *w = &m->plan->part[m->plan->npart];
    *w = (struct box_work){.rank = grid_rank(&m->to, pos), .pos = pos, .same = m->plan->npart++};
    m->replica = deal_replica(&m->from, grid_other(&m->to, &m->from, pos), at.replica + grid_tile(&m->to, at.corner));
    int64_t key = (int64_t)grid_pos(&m->to, (struct spot){at.corner, at.addend, 0}) * m->from.nreplica + m->replica;
    if (m->plan->relay && m->plan->relay->back) {
        m->leg = relay_segment(&m->relay, grid_spot(&m->from, pos).addend);
        key = key * m->plan->relay->nleg + m->leg;
    }
    const struct box_work *like = derived_deal_find(&m->parts, key);
    if (like) {
        w->nstep = like->nstep;
        w->step = like->step;
        w->same = like->same;
        return;
    }
    plan_cells(m, pos, at);
    plan_take_steps(m, w);
    derived_deal_put(&m->parts, key, w);
}

/* ---- the plan ---- */

static int
refuse_other_partial(const struct grid *from, const struct grid *to)
{
    enum reduce a = grid_reduce(from), b = grid_reduce(to);
    if (a == RED_NONE || b == RED_NONE || a == b) return 0;
    struct str s = {0};
    layout_print(from->layout, &s);
    str_add(&s, " on ");
    place_print(from->layout->place, &s);
    str_add(&s, " cannot be moved to ");
    layout_print(to->layout, &s);
    str_add(&s, " on ");
    place_print(to->layout->place, &s);
    int code = fail(E_SBP, "boxing: %s: one kind of partial (%s) cannot become another (%s); convert to B or S first",
                    str_text(&s), reduce_text(a), reduce_text(b));
    str_free(&s);
    return code;
}

/* Lists the devices of source and destination without duplicates. */
static void
list_ranks(struct box_plan *p, struct arena *a, const struct box_ranks *mine)
{
    int32_t n = mine->nfrom + mine->nto, *rank = ARENA_ARRAY(a, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        rank[i] = i < mine->nfrom ? p->from->place->rank[mine->from[i]] : p->to->place->rank[mine->to[i - mine->nfrom]];
    p->nrank = sorted_once(rank, n);
    p->rank = rank;
}

int32_t
box_rank_at(const struct box_plan *p, int32_t rank)
{
    int32_t at = sorted_find(p->rank, p->nrank, rank);
    assert(at >= 0);
    return at;
}

/* Adds up the bytes that each device receives. all: true if source and destination differ in device kind. Equal
 * device numbers are different devices then, so all sources count. */
static void
count_work(struct box_plan *p, const struct box_work *w, bool all)
{
    int32_t at = box_rank_at(p, w->rank);
    for (int32_t i = 0; i < w->nstep; i++) {
        const struct box_step *s = &w->step[i];
        int64_t width = 0;
        for (int32_t k = 0; k < s->nsource; k++)
            if (all || s->source[k].rank != w->rank) width += box_source_width(p, &s->source[k]);
        if (width) p->received[at] += box_numel(s->slice, p->type.ndim) * width;
    }
}

static void
count_plan_received(struct box_plan *p, struct arena *a)
{
    bool other_kind = p->from->place->kind != p->to->place->kind;
    p->received = ARENA_ARRAY(a, int64_t, p->nrank);
    for (int32_t i = 0; i < p->nstage; i++) count_work(p, &p->stage[i].work, false);
    for (int32_t i = 0; i < p->npart; i++) count_work(p, &p->part[i], other_kind);
    for (int32_t i = 0; i < p->nrank; i++) p->bytes += p->received[i];
}

static void
maker_init(struct maker *m, struct arena *a, struct box_plan *p, const struct box_ranks *mine)
{
    *m = (struct maker){.arena = a, .from = grid_of(p->from, &p->type), .to = grid_of(p->to, &p->type), .plan = p};
    int32_t nchunk = p->relay ? p->relay->nchunk * (1 + p->relay->back) : 1;
    assert(!p->relay || (m->to.naddend == 1 && (!p->relay->back || relay_may_go_back(p->from, p->to))));
    if (p->relay) m->relay = relay_of(&m->from, p->relay);
    deal_init(&m->deal, &m->tmp, &m->from, &m->to);
    memo_init(&m->addends, &m->tmp, m->from.naddend > 1 ? mine->nfrom : 0);
    memo_init(&m->parts, &m->tmp, mine->nto);
    p->stage = ARENA_ARRAY(a, struct box_stage, m->from.naddend > 1 ? mine->nfrom * nchunk : 0);
    p->part = ARENA_ARRAY(a, struct box_work, mine->nto);
}

static void
make_box_plan(struct arena *a, struct box_plan *p, const struct box_ranks *mine)
{
    struct maker m;
    maker_init(&m, a, p, mine);
    if (p->relay) plan_relay(&m, mine);
    for (int32_t i = 0; i < mine->nfrom && m.from.naddend > 1 && !p->relay; i++) plan_stage(&m, mine->from[i]);
    for (int32_t i = 0; i < mine->nto; i++) plan_part(&m, mine->to[i]);
    free(m.step);
    arena_fini(&m.tmp);
}

int
box_plan_part(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
              const struct box_ranks *mine, struct box_plan **out)
{
    return box_plan_relay(a, t, from, to, NULL, mine, out);
}

int
box_plan_relay(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
               const struct box_relay *relay, const struct box_ranks *mine, struct box_plan **out)
{
    struct grid g = grid_of(from, t), h = grid_of(to, t);
    TRY(refuse_other_partial(&g, &h));
    struct box_plan *p = *out = ARENA_NEW(a, struct box_plan);
    *p = (struct box_plan){.type = *t, .from = from, .to = to, .relay = relay, .bound = -1};
    p->alias = layout_same_boxes(from, to, t);
    list_ranks(p, a, mine);
    if (!p->alias) make_box_plan(a, p, mine);
    count_plan_received(p, a);
    return 0;
}

int
box_plan_all(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
             const struct box_relay *relay, struct box_plan **out)
{
    int32_t n = from->place->nrank, m = to->place->nrank, *pos = must_alloc(sizeof *pos * (size_t)MAX(n, m));
    for (int32_t i = 0; i < MAX(n, m); i++) pos[i] = i;
    int code = box_plan_relay(a, t, from, to, relay, &(struct box_ranks){n, m, pos, pos}, out);
    free(pos);
    TRY(code);
    (*out)->bound = box_bytes(t, from, to);
    (*out)->name = box_name(t, from, to);
    return 0;
}

int
box_plan(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
         struct box_plan **out)
{
    return box_plan_all(a, t, from, to, NULL, out);
}
