/* shared_shard.c - stores equal shards of several ranks of one memory space once.
 *
 * After an all-reduce or all-gather all ranks hold the same value, and no reader changes it, because a filled
 * register is read-only. So the ranks fill one register together: each rank fills the slice that it owns (task
 * kind FILL), and then reads the complete value in place. A task of kind JOIN waits for all FILL tasks. Slices
 * that other ranks fill count as bytes received by this rank, as if it had copied them. */
#include "actors/plan/lower/shared_shard.h"
#include "actors/plan/lower/move.h"
#include "actors/plan/lower/draft.h"

#include "boxing/grid.h"
#include "boxing/plan.h"
#include "runtime/device/device.h"
#include "runtime/tensor/atlas.h"

/* One slice of the shared shard, the step of the move that computes it, and the rank that fills it. */
struct item {
    struct box slice;
    const struct box_step *step;
    int32_t rank;
    int32_t next; /* next item of the same rank; -1: none */
};

/* State of one replica group, that is, of the mesh positions with equal shards. corner: first position of the group
 * (boxing/grid.h). */
struct sharing {
    struct mover m;
    struct grid grid;
    struct pval *to;
    const struct type *local; /* local type of the shards */
    int32_t corner;
    int32_t *member, nmember; /* mesh positions of the group */
    struct item *item;
    int32_t nitem, capacity;
    /* by device of the move (box_plan.rank): index of the first and of the last item that it fills */
    int32_t *first, *last;
    int64_t *own; /* by device: bytes of the items that it fills */
    int32_t *fill, nfill;
};

/* slices with fewer elements are filled by one rank */
enum { SLAB_LEAST = 1024 };

static void
find_sharing_members(struct sharing *s, int32_t corner)
{
    s->corner = corner;
    s->nmember = 0;
    for (int32_t i = 0; i < s->grid.nreplica; i++)
        s->member[s->nmember++] = grid_pos(&s->grid, (struct spot){corner, 0, i});
}

static bool
is_sharing_member(const struct sharing *s, int32_t rank)
{
    int32_t pos = place_find(s->m.b->to->place, rank);
    return pos >= 0 && grid_spot(&s->grid, pos).corner == s->corner;
}

static void
add_item(struct sharing *s, const struct box *slice, const struct box_step *step, int32_t rank)
{
    ARENA_GROW(&s->m.l->tmp, s->item, s->nitem + 1, s->capacity);
    s->item[s->nitem++] = (struct item){*slice, step, rank, -1};
}

/* Adds the items of a slice whose source is on no member of the group. Every member fills one slab of the slice. */
static void
add_slabs(struct sharing *s, const struct box_step *step)
{
    const struct place *p = s->m.b->to->place;
    int ndim = s->m.b->type.ndim, d = 0;
    while (d < ndim - 1 && step->slice->hi[d] - step->slice->lo[d] < s->nmember) d++;
    if (ndim == 0 || box_numel(step->slice, ndim) < SLAB_LEAST) {
        add_item(s, step->slice, step, p->rank[s->member[s->nitem % s->nmember]]);
        return;
    }
    for (int32_t i = 0; i < s->nmember; i++) {
        struct box slab = *step->slice;
        int64_t lo, hi;
        shard_range(step->slice->hi[d] - step->slice->lo[d], 0, s->nmember, i, &lo, &hi);
        slab.lo[d] = step->slice->lo[d] + lo;
        slab.hi[d] = step->slice->lo[d] + hi;
        if (hi > lo) add_item(s, &slab, step, p->rank[s->member[i]]);
    }
}

/* Adds the items of a step that reads a stage buffer. The rank that reduces in the buffer reduces directly into the
 * shared shard instead, so no stage buffer is needed. */
static void
add_staged(struct sharing *s, const struct box_step *step)
{
    const struct box_plan *b = s->m.b;
    const struct box_work *w = &b->stage[step->source[0].stage].work;
    for (int32_t i = 0; i < w->nstep; i++) {
        struct box both;
        if (box_intersect(w->step[i].slice, step->slice, b->type.ndim, &both)) add_item(s, &both, &w->step[i], w->rank);
    }
}

/* Lists the items (slices and their ranks) of the group's shard. Returns false if a step of the move cannot be
 * shared. */
static bool
find_items(struct sharing *s)
{
    const struct box_work *w = &s->m.b->part[s->corner];
    s->nitem = 0;
    for (int32_t i = 0; i < w->nstep; i++) {
        const struct box_step *step = &w->step[i];
        if (step->verb == BOX_FILL) return false;
        bool staged = false;
        for (int k = 0; k < step->nsource; k++) staged = staged || step->source[k].stage != BOX_PART;
        if (staged && step->nsource > 1) return false;
        if (staged)
            add_staged(s, step);
        else if (step->nsource == 1 && is_sharing_member(s, step->source[0].rank))
            add_item(s, step->slice, step, step->source[0].rank);
        else
            add_slabs(s, step);
    }
    return true;
}

/* Links the items of each device in list order, and adds up their bytes. */
static void
sort_items(struct sharing *s)
{
    const struct box_plan *b = s->m.b;
    int64_t size = box_width_to(b);
    for (int i = 0; i < b->nrank; i++) {
        s->first[i] = -1;
        s->own[i] = 0;
    }
    for (int32_t i = 0; i < s->nitem; i++) {
        int32_t d = box_rank_at(b, s->item[i].rank);
        s->own[d] += box_numel(&s->item[i].slice, b->type.ndim) * size;
        if (s->first[d] < 0)
            s->first[d] = i;
        else
            s->item[s->last[d]].next = i;
        s->last[d] = i;
    }
}

/* ---- tasks ---- */

static int64_t
part_bytes(const struct sharing *s)
{
    struct type t = layout_shard(s->to->layout, &s->to->type, s->corner);
    return type_bytes(&t);
}

/* Stores a FILL task's result in the register of `task`, the shard's first FILL task. */
static void
lie_in(struct out_port *o, int32_t task)
{
    o->where = (struct where){.kind = IN_TASK, .index = task};
}

static int
fill_task(struct sharing *s, int32_t first)
{
    struct lower *l = s->m.l;
    const struct box_plan *b = s->m.b;
    int nmove = 0, nsource = 0;
    int32_t id, rank = s->item[first].rank;
    for (int32_t i = first; i >= 0; i = s->item[i].next) {
        nmove++;
        nsource += s->item[i].step->nsource;
    }
    struct draft *d = draft_new(l, &kind_fill, s->m.from->node, b->to->place->kind, rank, s->corner, false, &id);
    d->task.move.step = ARENA_ARRAY(&l->plan->arena, struct box_move, nmove);
    d->task.move.of = s->m.move;
    d->task.name = s->m.move->name;
    d->task.type = s->local;
    draft_out(l, d, part_bytes(s), 1);
    d->task.nresult = 1;
    if (s->nfill)
        lie_in(&d->out[0], s->fill[0]);
    else
        d->out[0].shared = true;
    s->fill[s->nfill++] = id;
    draft_args(l, id, nsource);
    l->draft[id].task.narg = 0;
    struct view part = part_local(b->to, &b->type, s->corner);
    for (int32_t i = first; i >= 0; i = s->item[i].next) {
        int64_t skip;
        struct view dst = part_window(&part, part.offset, &s->item[i].slice, &skip);
        TRY(move_add(&s->m, id, NULL, false, s->item[i].step, &s->item[i].slice, rank, &dst, skip));
        struct task *t = &l->draft[id].task;
        t->move.step[t->move.nstep - 1].slice = arena_dup(&l->plan->arena, &s->item[i].slice, sizeof s->item[i].slice);
    }
    return 0;
}

static int
join_task(struct sharing *s, int32_t pos)
{
    struct lower *l = s->m.l;
    const struct box_plan *b = s->m.b;
    int32_t id, rank = b->to->place->rank[pos];
    struct draft *d = draft_new(l, &kind_join, s->m.from->node, b->to->place->kind, rank, pos, false, &id);
    d->task.move.of = s->m.move;
    d->task.name = "join";
    d->task.type = s->local;
    d->task.move.received = part_bytes(s) - s->own[box_rank_at(b, rank)];
    draft_out(l, d, part_bytes(s), 1);
    d->task.nresult = 1;
    lie_in(&d->out[0], s->fill[0]);
    for (int32_t i = 0; i < s->nfill; i++) draft_edge(l, id, &(struct edge){.task = s->fill[i], .hold = 1, .need = 1});
    part_is_result(&s->to->part[pos], id, 0);
    return 0;
}

static int
share_group(struct sharing *s)
{
    struct type local = layout_shard(s->to->layout, &s->to->type, s->corner);
    s->local = arena_dup(&s->m.l->plan->arena, &local, sizeof local);
    s->nfill = 0;
    for (int32_t i = 0; i < s->nitem; i++)
        if (s->first[box_rank_at(s->m.b, s->item[i].rank)] == i) TRY(fill_task(s, i));
    for (int32_t i = 0; i < s->nmember; i++) TRY(join_task(s, s->member[i]));
    return 0;
}

/* ---- deciding whether to share ---- */

static bool
in_one_space(const struct layout *l)
{
    return device_kind(l->place->kind)->flags & ONE_SPACE;
}

static bool
may_share_move(const struct lower *l, const struct redistribution *x, const struct pval *from)
{
    const struct box_plan *b = x->own;
    return l->program->pieces == 1 && !from->piece && x->one_space && in_one_space(b->from) && in_one_space(b->to) &&
           !layout_has_partial(b->to) && type_numel(&b->type) > 0;
}

/* Adds up, for each device, the bytes that the device would receive if this group shared a shard. They are the bytes
 * that items of the device read from other devices, and the items of the device that other devices fill. */
static void
count_shard_received(struct sharing *s, int64_t *received)
{
    const struct box_plan *b = s->m.b;
    int64_t size = box_width_from(b); /* bytes per element. Items are slices of source shards, not of stage buffers */
    sort_items(s);
    for (int32_t i = 0; i < s->nitem; i++) {
        const struct item *it = &s->item[i];
        int64_t bytes = box_numel(&it->slice, b->type.ndim) * size, *r = &received[box_rank_at(b, it->rank)];
        for (int k = 0; k < it->step->nsource; k++) *r += it->step->source[k].rank != it->rank ? bytes : 0;
    }
    for (int32_t i = 0; i < s->nmember; i++) {
        int32_t d = box_rank_at(b, b->to->place->rank[s->member[i]]);
        received[d] += part_bytes(s) - s->own[d];
    }
}

/* Returns true if sharing does not increase the bytes that any device receives. A rank that needs no bytes of
 * others (B -> S) would receive more with sharing, because it would read the slices that others fill. */
static bool
sends_as_little(const struct box_plan *b, const int64_t *received)
{
    for (int i = 0; i < b->nrank; i++)
        if (b->received[i] != received[i]) return false;
    return true;
}

int
shared_shard_parts(struct lower *l, const struct plan_move *move, const struct redistribution *x, struct pval *from,
                   struct pval *to, bool *done)
{
    const struct box_plan *b = x->own;
    int32_t n = b->to->place->nrank;
    *done = false;
    if (!may_share_move(l, x, from)) return 0;
    struct sharing s = {.to = to, .grid = grid_of(b->to, &b->type)};
    if (s.grid.nreplica < 2) return 0;
    mover_init(&s.m, l, move, x, from);
    s.member = ARENA_ARRAY(&l->tmp, int32_t, n);
    s.fill = ARENA_ARRAY(&l->tmp, int32_t, b->nrank);
    s.first = ARENA_ARRAY(&l->tmp, int32_t, b->nrank);
    s.last = ARENA_ARRAY(&l->tmp, int32_t, b->nrank);
    s.own = ARENA_ARRAY(&l->tmp, int64_t, b->nrank);
    int64_t *received = ARENA_ARRAY(&l->tmp, int64_t, b->nrank);
    for (int32_t pos = 0; pos < n; pos++) {
        if (grid_spot(&s.grid, pos).corner != pos) continue;
        find_sharing_members(&s, pos);
        if (part_bytes(&s) == 0 || !find_items(&s)) return 0;
        count_shard_received(&s, received);
    }
    if (!sends_as_little(b, received)) return 0;
    for (int32_t pos = 0; pos < n; pos++) {
        if (grid_spot(&s.grid, pos).corner != pos) continue;
        find_sharing_members(&s, pos);
        find_items(&s);
        sort_items(&s);
        TRY(share_group(&s));
    }
    *done = true;
    return 0;
}
