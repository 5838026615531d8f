/* redistribute.c - finds the reads of a move that cross hosts or memory spaces (boxing/border.c), and groups them
 * into channels. */
#include "actors/plan/outline/redistribute.h"

#include "actors/plan/outline/hierarchical.h"
#include "actors/plan/outline/comm_ranks.h"

#include "runtime/device/device.h"
#include "boxing/border.h"
#include "boxing/plan.h"

#include <stdlib.h>
#include <string.h>

/* ---- runs ---- */

static int
compare_tasks(const struct box_read *a, const struct box_read *b)
{
    if (a->to_stage != b->to_stage) return a->to_stage ? -1 : 1;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    if (a->from_stage != b->from_stage) return a->from_stage ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

/* Reads that one task makes from one source (a shard or stage buffer) on another host or in another memory space.
 * One end of a channel sees them as incoming, the other as outgoing. */
struct side {
    const struct box_read *read;
    int32_t n, ndim, memory, run, channel; /* memory: host of the other end */
    int32_t space;                         /* memory space of the reader */
    /* level of the reads, by which channels are ordered (read_turn) */
    int32_t turn;
};

/* Returns the placement of the shard or stage buffer that a work item fills. */
static const struct place *
place_of(const struct box_plan *b, bool to_stage)
{
    return to_stage ? b->from->place : b->to->place;
}

static int32_t
device_space_at(const struct place *p, int32_t pos)
{
    return device_space(p->kind, p->rank[pos]);
}

static bool
is_far_read(const struct box_plan *b, bool to_stage, int32_t to, int32_t from)
{
    return device_space_at(place_of(b, to_stage), to) != device_space_at(b->from->place, from);
}

/* Return the mesh position of a read's source, and of its reader. */
static int32_t
read_from(const struct box_plan *b, const struct box_read *r)
{
    return r->from_stage ? box_stage_pos(b, r->from) : r->from;
}

static int32_t
read_to(const struct box_plan *b, const struct box_read *r)
{
    return r->to_stage ? box_stage_pos(b, r->to) : r->to;
}

/* Returns the host of the other end of a read. in true: the read is incoming, so the other end is the source;
 * false: the other end is the reader. */
static int32_t
memory_of_read(struct local_set *m, const struct box_plan *b, const struct box_read *r, bool in)
{
    const struct place *p = in ? b->from->place : place_of(b, r->to_stage);
    return local_set_memory(m, p->kind, p->rank[in ? read_from(b, r) : read_to(b, r)]);
}

/* Returns the level of a read, by which channels are ordered. Stage buffers have levels, because one may be
 * computed from another. An incoming read has the level of the stage buffer that it fills; if it fills a shard of
 * the result, the number of levels. An outgoing read of a shard has level 0; of a stage buffer, 1 + the buffer's
 * level. */
static int32_t
read_turn(const struct box_plan *b, const struct box_read *r, bool in)
{
    if (in) return r->to_stage ? box_stage_level(b, r->to) : box_nlevel(b);
    return r->from_stage ? 1 + box_stage_level(b, r->from) : 0;
}

static struct side *
find_sides(struct arena *a, struct local_set *m, const struct box_plan *b, const struct box_read *read, int32_t nread,
           bool in, int32_t *n)
{
    struct side *side = ARENA_ARRAY(a, struct side, nread + 1);
    *n = 0;
    for (int32_t i = 0; i < nread; i++) {
        if (i == 0 || compare_tasks(&read[i - 1], &read[i]))
            side[(*n)++] = (struct side){.read = &read[i],
                                         .ndim = b->type.ndim,
                                         .memory = memory_of_read(m, b, &read[i], in),
                                         .space = device_space_at(place_of(b, read[i].to_stage), read_to(b, &read[i])),
                                         .turn = read_turn(b, &read[i], in),
                                         .run = *n};
        side[*n - 1].n++;
    }
    return side;
}

/* ---- channels ---- */

/* Compares two boxes by their lower bounds, then by their upper bounds. */
static int
compare_boxes(const struct box *a, const struct box *b, int ndim)
{
    for (int d = 0; d < ndim; d++)
        if (a->lo[d] != b->lo[d]) return a->lo[d] < b->lo[d] ? -1 : 1;
    for (int d = 0; d < ndim; d++)
        if (a->hi[d] != b->hi[d]) return a->hi[d] < b->hi[d] ? -1 : 1;
    return 0;
}

/* Compares the content of two reads, for sorting. Returns 0 if the contents are equal, so that the reads may share
 * a channel. */
static int
compare_content(const struct side *x, const struct side *y)
{
    const struct box_read *a = x->read, *b = y->read;
    if (a->from_stage != b->from_stage) return a->from_stage - b->from_stage;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    if (a->to_stage != b->to_stage) return a->to_stage - b->to_stage;
    if (x->memory != y->memory) return x->memory < y->memory ? -1 : 1;
    if (x->space != y->space) return x->space < y->space ? -1 : 1;
    if (x->n != y->n) return x->n - y->n;
    for (int32_t i = 0; i < x->n; i++) {
        int c = compare_boxes(a[i].slice, b[i].slice, x->ndim);
        if (c) return c;
    }
    return 0;
}

/* Compares reads for sorting: reads that share a channel are adjacent, and the one with the lowest shard is first. */
static int
by_content(const void *a, const void *b)
{
    const struct side *x = *(const struct side *const *)a, *y = *(const struct side *const *)b;
    int c = compare_content(x, y);
    return c ? c : (x->read->to > y->read->to) - (x->read->to < y->read->to);
}

/* Compares reads by the place of their tasks in the list (send.c). */
static int
compare_cross_turns(const void *a, const void *b)
{
    const struct side *v = *(const struct side *const *)a, *w = *(const struct side *const *)b;
    const struct box_read *x = v->read, *y = w->read;
    if (v->turn != w->turn) return v->turn < w->turn ? -1 : 1;
    if (x->to_stage != y->to_stage) return x->to_stage ? -1 : 1;
    if (x->from_stage != y->from_stage) return x->from_stage ? 1 : -1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static struct redistribute_channel
channel_of(struct arena *a, const struct side *s)
{
    const struct box_read *r = s->read;
    struct redistribute_channel c = {.from_side = r->from_stage ? SIDE_STAGE : SIDE_PART,
                                     .to_side = r->to_stage ? SIDE_STAGE : SIDE_PART,
                                     .from = r->from,
                                     .to = r->to,
                                     .peer = s->memory,
                                     .nslice = s->n,
                                     .slice = r,
                                     .offset = ARENA_ARRAY(a, int64_t, s->n)};
    for (int32_t i = 0; i < s->n; i++) {
        c.offset[i] = c.numel;
        c.numel += box_numel(r[i].slice, s->ndim);
    }
    return c;
}

/* Makes the channels of all reads, in the order of their tasks, and stores in each read the index of its channel.
 * Reads with the same content share a channel, unless they fill stage buffers. */
static struct redistribute_channel *
group(struct arena *a, struct side *side, int32_t n, int32_t *nchannel)
{
    struct side **sorted = ARENA_ARRAY(a, struct side *, n + 1), **first = ARENA_ARRAY(a, struct side *, n + 1);
    int32_t nfirst = 0;
    for (int32_t i = 0; i < n; i++) sorted[i] = &side[i];
    if (n) qsort(sorted, (size_t)n, sizeof(*sorted), by_content);
    for (int32_t i = 0; i < n; i++) {
        bool shares = i && !sorted[i]->read->to_stage && compare_content(sorted[i - 1], sorted[i]) == 0;
        if (!shares) first[nfirst++] = sorted[i];
        /* the channels do not exist yet: `channel` temporarily holds the index of the first read that shares the
         * channel */
        sorted[i]->channel = first[nfirst - 1]->run;
    }
    struct redistribute_channel *channel = ARENA_ARRAY(a, struct redistribute_channel, nfirst + 1);
    int32_t *place = ARENA_ARRAY(a, int32_t, n + 1);
    if (n) qsort(first, (size_t)nfirst, sizeof(*first), compare_cross_turns);
    for (int32_t i = 0; i < nfirst; i++) {
        channel[i] = channel_of(a, first[i]);
        place[first[i]->run] = i;
    }
    for (int32_t i = 0; i < n; i++) side[i].channel = place[side[i].channel];
    *nchannel = nfirst;
    return channel;
}

/* ---- a move ---- */

static void
find_in(struct arena *a, struct local_set *m, struct redistribution *x, const struct box_border *b)
{
    struct side *side = find_sides(a, m, x->own, b->in, b->nin, true, &x->nrun);
    x->in = group(a, side, x->nrun, &x->nin);
    x->run = ARENA_ARRAY(a, struct redistribute_run, x->nrun + 1);
    for (int32_t i = 0; i < x->nrun; i++)
        x->run[i] = (struct redistribute_run){
            .key = *side[i].read, .first = (int32_t)(side[i].read - b->in), .n = side[i].n, .channel = side[i].channel};
}

static void
find_out(struct arena *a, struct local_set *m, struct redistribution *x, const struct box_border *b)
{
    int32_t n;
    struct side *side = find_sides(a, m, x->own, b->out, b->nout, false, &n);
    x->out = group(a, side, n, &x->nout);
    while (x->npart < x->nout && x->out[x->npart].from_side == SIDE_PART) x->npart++;
}

/* Counts, for each level, the channels and stage buffers of this level and of all levels before. */
static void
find_levels(struct arena *a, struct redistribution *x)
{
    const struct box_plan *b = x->own;
    struct redistribute_level end = {.nout = x->npart};
    x->nlevel = box_nlevel(b);
    x->level = ARENA_ARRAY(a, struct redistribute_level, x->nlevel);
    for (int32_t k = 0; k < x->nlevel; k++) {
        while (end.nin < x->nin && x->in[end.nin].to_side == SIDE_STAGE && box_stage_level(b, x->in[end.nin].to) == k)
            end.nin++;
        while (end.nstage < b->nstage && box_stage_level(b, b->stage[end.nstage].work.pos) == k) end.nstage++;
        while (end.nout < x->nout && box_stage_level(b, x->out[end.nout].from) == k) end.nout++;
        x->level[k] = end;
    }
}

/* Returns true if all local positions are in one memory space. *space: on entry, the space that they must be in, or
 * -1: any. If it was -1, returns the space in *space. */
static bool
same_space(const struct local_positions *m, int32_t *space)
{
    if (m->n && *space < 0) *space = device_space_at(m->place, m->pos[0]);
    for (int32_t i = 0; i < m->n; i++)
        if (device_space_at(m->place, m->pos[i]) != *space) return false;
    return true;
}

static uint64_t
hash_layout(uint64_t h, const struct layout *l)
{
    const struct place *p = l->place;
    h = hash_number(h, (uint64_t)p->kind << 8 | p->naxis);
    for (int32_t i = 0; i < p->nrank; i++) h = hash_number(h, (uint64_t)p->rank[i]);
    for (int a = 0; a < p->naxis; a++)
        h = hash_number(hash_number(h, (uint64_t)l->sbp[a].unit),
                        (uint64_t)p->axis[a] << 32 | (uint64_t)l->sbp[a].kind << 24 | (uint64_t)l->sbp[a].axis << 16 |
                            (uint64_t)l->sbp[a].reduce << 8 | l->order[a]);
    return h;
}

uint64_t
redistribute_hash(const struct box_plan *b)
{
    uint64_t h = hash_number(0, (uint64_t)b->type.dtype << 8 | b->type.ndim);
    for (int d = 0; d < b->type.ndim; d++) h = hash_number(h, (uint64_t)b->type.dim[d]);
    return hash_layout(hash_layout(h, b->from), b->to);
}

static int
find_crossing(const struct redistributions *s, const struct type *t, const struct layout *from, const struct layout *to,
              struct redistribution *x)
{
    struct arena *a = s->arena;
    struct local_set *m = s->mines;
    struct box_border border;
    int32_t space = -1;
    *x = (struct redistribution){.from = local_positions_of(m, from->place), .to = local_positions_of(m, to->place)};
    x->one_space = same_space(x->from, &space) && same_space(x->to, &space);
    struct box_ranks own = {.nfrom = x->from->n, .from = x->from->pos, .nto = x->to->n, .to = x->to->pos};
    struct hierarchical legs = {NULL, {0, 0}, {0, 0}};
    if (redistribute_is_all(x)) {
        TRY(box_plan(a, t, from, to, &x->own));
    } else {
        hierarchical_of(a, m, s->cost, t, from, to, &legs);
        TRY(box_plan_relay(a, t, from, to, legs.relay, &own, &x->own));
    }
    box_border(a, x->own, &own, x->one_space ? NULL : is_far_read, &border);
    find_in(a, m, x, &border);
    find_out(a, m, x, &border);
    find_levels(a, x);
    x->hash = redistribute_hash(x->own);
    return 0;
}

bool
redistribute_is_all(const struct redistribution *x)
{
    return x->from->all && x->to->all;
}

/* Returns true if a library sends the move's data over point-to-point links. Looks only at the kinds of the two
 * placements, because stage buffers are on devices of the source placement. */
bool
redistribute_is_p2p(const struct redistribution *x)
{
    int from = x->from->place->kind, to = x->to->place->kind;
    return from == to && comm_ranks_library(from);
}

bool
redistribute_in_place(const struct redistribution *x, const struct box_work *w, bool to_stage,
                      const struct box_source *s)
{
    bool here = s->stage == BOX_PART ? local_set_find(x->from, s->pos) >= 0 : s->stage != BOX_ELSEWHERE;
    if (!here || x->one_space) return here;
    int32_t to = to_stage ? box_stage_pos(x->own, w->pos) : w->pos;
    return !is_far_read(x->own, to_stage, to, box_source_pos(x->own, s));
}

bool
redistribute_fetches(const struct redistribution *x, const struct program *p, const struct plan_move *of, int32_t pos)
{
    return x->one_space && hop_fetches(p, of) && local_set_find(x->from, pos) >= 0;
}

static int
compare_cross_tasks(const void *a, const void *b)
{
    return compare_tasks(&((const struct redistribute_run *)a)->key, &((const struct redistribute_run *)b)->key);
}

int32_t
redistribute_find(const struct redistribution *x, const struct box_work *w, bool to_stage, const struct box_source *s,
                  const struct box *slice, int32_t *which)
{
    struct redistribute_run key = {.key = {s->stage != BOX_PART, to_stage, s->pos, w->pos, slice}};
    const struct redistribute_run *run = bsearch(&key, x->run, (size_t)x->nrun, sizeof key, compare_cross_tasks);
    assert(run);
    const struct redistribute_channel *c = &x->in[run->channel];
    int32_t lo = 0, hi = c->nslice;
    while (hi - lo > 1) {
        int32_t mid = lo + (hi - lo) / 2;
        if (compare_boxes(c->slice[mid].slice, slice, x->own->type.ndim) <= 0)
            lo = mid;
        else
            hi = mid;
    }
    assert(compare_boxes(c->slice[lo].slice, slice, x->own->type.ndim) == 0);
    *which = lo;
    return run->channel;
}

/* ---- all moves ---- */

int
redistribute_of(struct redistributions *s, const struct type *t, const struct layout *from, const struct layout *to,
                const struct redistribution **out)
{
    uint64_t hash = layout_hash_move(t, from, to);
    uint32_t at = 0;
    while ((*out = hash_next(&s->found, hash, &at))) {
        const struct box_plan *b = (*out)->own;
        if (b->from == from && b->to == to && type_equal(&b->type, t)) return 0;
    }
    struct redistribution *made = ARENA_NEW(s->arena, struct redistribution);
    TRY(find_crossing(s, t, from, to, made));
    s->found.arena = s->arena;
    hash_add(&s->found, hash, made);
    *out = made;
    return 0;
}

/* ---- the order of channel ends ---- */

/* Returns the place of a channel's end in the order of a move's tasks. The order is: send shards of the operand;
 * then, level by level, receive data for stage buffers and send stage buffers; then receive data for shards of the
 * result. */
int32_t
redistribute_turn(const struct redistribution *x, const struct redistribute_channel *c, bool sends)
{
    enum { PARTS, RECV, SEND, NTURN };
    if (sends) return c->from_side == SIDE_STAGE ? box_stage_level(x->own, c->from) * NTURN + SEND : PARTS;
    return (c->to_side == SIDE_STAGE ? box_stage_level(x->own, c->to) : x->nlevel) * NTURN + RECV;
}

int32_t
redistribute_from(const struct redistribution *x, const struct redistribute_channel *c)
{
    return c->from_side == SIDE_STAGE ? box_stage_pos(x->own, c->from) : c->from;
}

int32_t
redistribute_to(const struct redistribution *x, const struct redistribute_channel *c)
{
    return c->to_side == SIDE_STAGE ? box_stage_pos(x->own, c->to) : c->to;
}

/* ---- content of a channel ---- */

enum dtype
redistribute_dtype(const struct redistribution *x, const struct redistribute_channel *c)
{
    const struct box_plan *b = x->own;
    return c->from_side == SIDE_STAGE ? box_stage_dtype(b, c->from) : layout_dtype(b->from, (enum dtype)b->type.dtype);
}

uint64_t
redistribute_what(const struct redistribution *x, struct ref value, const struct redistribute_channel *c)
{
    uint64_t h = hash_number(x->hash, (uint64_t)value.kind << 40 | (uint64_t)value.out << 32 | (uint32_t)value.index);
    for (int32_t i = 0; i < c->nslice; i++)
        for (int d = 0; d < x->own->type.ndim; d++)
            h = hash_number(hash_number(h, (uint64_t)c->slice[i].slice->lo[d]), (uint64_t)c->slice[i].slice->hi[d]);
    return h;
}
