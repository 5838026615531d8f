/* share.c - parts that are alike on several ranks of one memory lie there once.
 *
 * After an all-reduce or an all-gather every rank holds the same, and nobody
 * writes it: registers are read-only. So the ranks fill one register together,
 * each the slice that it owns (FILL), and each then reads all of it in place
 * (JOIN says when it is whole). What a rank receives is what it reads of others'
 * slices, as if it had copied them. */
#include "actors/plan/lower.h"

#include "runtime/device.h"

/* One slice of the shared part, and who fills it. */
struct item {
    struct box slice;
    const struct box_step *step;
    int32_t rank;
};

struct sharing {
    struct mover m;
    struct pval *to;
    int32_t *member, nmember; /* mesh positions that hold the same box */
    struct item *item;
    int32_t nitem, room;
    int32_t *fill, nfill;
};

enum { SLAB_LEAST = 1024 }; /* elements: less is not worth being done by several */

static bool
same_box(const struct box *a, const struct box *b, int ndim)
{
    for (int d = 0; d < ndim; d++)
        if (a->lo[d] != b->lo[d] || a->hi[d] != b->hi[d]) return false;
    return true;
}

static void
find_members(struct sharing *s, int32_t leader)
{
    const struct box_plan *b = s->m.b;
    struct box mine, other;
    layout_box(b->to, &b->type, leader, &mine);
    s->nmember = 0;
    for (int32_t pos = 0; pos < b->to->place->nrank; pos++) {
        layout_box(b->to, &b->type, pos, &other);
        if (same_box(&mine, &other, b->type.ndim)) s->member[s->nmember++] = pos;
    }
}

static bool
is_member(const struct sharing *s, int32_t rank)
{
    for (int32_t i = 0; i < s->nmember; i++)
        if (s->m.b->to->place->rank[s->member[i]] == rank) return true;
    return false;
}

static void
add_item(struct sharing *s, const struct box *slice, const struct box_step *step, int32_t rank)
{
    if (s->nitem == s->room) {
        int32_t room = s->room ? 2 * s->room : 16;
        struct item *more = ARENA_ARRAY(&s->m.l->tmp, struct item, room);
        for (int32_t i = 0; i < s->nitem; i++) more[i] = s->item[i];
        s->item = more;
        s->room = room;
    }
    s->item[s->nitem++] = (struct item){*slice, step, rank};
}

/* A slice that no member owns is cut into as many slabs as there are members. */
static void
add_slabs(struct sharing *s, const struct box_step *step)
{
    const struct place *p = s->m.b->to->place;
    int ndim = s->m.b->type.ndim, d = 0;
    while (d < ndim - 1 && step->slice.hi[d] - step->slice.lo[d] < s->nmember) d++;
    if (ndim == 0 || box_numel(&step->slice, ndim) < SLAB_LEAST) {
        add_item(s, &step->slice, step, p->rank[s->member[s->nitem % s->nmember]]);
        return;
    }
    for (int32_t i = 0; i < s->nmember; i++) {
        struct box slab = step->slice;
        int64_t lo, hi;
        shard_range(step->slice.hi[d] - step->slice.lo[d], s->nmember, i, &lo, &hi);
        slab.lo[d] = step->slice.lo[d] + lo;
        slab.hi[d] = step->slice.lo[d] + hi;
        if (hi > lo) add_item(s, &slab, step, p->rank[s->member[i]]);
    }
}

/* What the owner of a stage reduces goes straight into the shared part. */
static void
add_staged(struct sharing *s, const struct box_step *step)
{
    const struct box_plan *b = s->m.b;
    int32_t stage = step->source[0].pos;
    for (int i = 0; i < b->nstep; i++) {
        struct box both;
        if (b->step[i].to_stage && b->step[i].dst_index == stage &&
            box_intersect(&b->step[i].slice, &step->slice, b->type.ndim, &both))
            add_item(s, &both, &b->step[i], b->stage[stage].rank);
    }
}

/* All slices of the members' part. False when a step is of a kind that is not shared. */
static bool
find_items(struct sharing *s)
{
    const struct box_plan *b = s->m.b;
    s->nitem = 0;
    for (int i = 0; i < b->nstep; i++) {
        const struct box_step *step = &b->step[i];
        if (step->to_stage || step->dst_index != s->member[0]) continue;
        if (step->verb == BOX_FILL) return false;
        bool staged = false;
        for (int k = 0; k < step->nsource; k++) staged = staged || step->source[k].staged;
        if (staged && step->nsource > 1) return false;
        if (staged)
            add_staged(s, step);
        else if (step->nsource == 1 && is_member(s, step->source[0].rank))
            add_item(s, &step->slice, step, step->source[0].rank);
        else
            add_slabs(s, step);
    }
    return true;
}

/* ---- tasks ---- */

static int64_t
part_bytes(const struct sharing *s)
{
    struct type t = layout_shard(s->to->layout, &s->to->type, s->member[0]);
    return type_bytes(&t);
}

/* The result lies in the register of the first task that fills it. */
static void
lie_in(struct out_port *o, int32_t task)
{
    o->where = (struct where){.kind = IN_TASK, .index = task};
}

static int
fill_task(struct sharing *s, int32_t rank)
{
    struct lower *l = s->m.l;
    const struct box_plan *b = s->m.b;
    int nmove = 0, nsource = 0;
    int32_t id;
    for (int32_t i = 0; i < s->nitem; i++) {
        if (s->item[i].rank != rank) continue;
        nmove++;
        nsource += s->item[i].step->nsource;
    }
    struct draft *d = draft_new(l, &kind_fill, s->m.from->node, move_kind(b, rank), rank, s->member[0], false, &id);
    d->task.move.step = ARENA_ARRAY(&l->plan->arena, struct box_move, nmove);
    d->task.move.box = (struct box_plan *)b;
    d->task.name = arena_strdup(&l->plan->arena, b->name);
    d->task.type = layout_shard(s->to->layout, &s->to->type, s->member[0]);
    draft_out(d, part_bytes(s), 1);
    d->task.nresult = 1;
    if (s->nfill)
        lie_in(&d->out[0], s->fill[0]);
    else
        d->out[0].shared = true;
    s->fill[s->nfill++] = id;
    draft_args(l, id, nsource);
    l->draft[id].task.narg = 0;
    struct view part = part_local(b->to, &b->type, s->member[0]);
    for (int32_t i = 0; i < s->nitem; i++) {
        if (s->item[i].rank != rank) continue;
        int64_t skip;
        struct view dst = part_window(&part, part.offset, &s->item[i].slice, &skip);
        TRY(move_add(&s->m, id, s->item[i].step, &s->item[i].slice, rank, &dst, skip));
    }
    return 0;
}

static int
join_task(struct sharing *s, int32_t pos)
{
    struct lower *l = s->m.l;
    const struct box_plan *b = s->m.b;
    int32_t id, port, rank = b->to->place->rank[pos];
    int64_t own = 0;
    for (int32_t i = 0; i < s->nitem; i++)
        if (s->item[i].rank == rank) own += box_numel(&s->item[i].slice, b->type.ndim);
    struct draft *d = draft_new(l, &kind_join, s->m.from->node, b->to->place->kind, rank, pos, false, &id);
    d->task.move.box = (struct box_plan *)b;
    d->task.name = "join";
    d->task.type = layout_shard(s->to->layout, &s->to->type, pos);
    d->task.move.received = part_bytes(s) - own * (int64_t)dtype_bytes(b->type.dtype);
    draft_out(d, part_bytes(s), 1);
    d->task.nresult = 1;
    lie_in(&d->out[0], s->fill[0]);
    for (int32_t i = 0; i < s->nfill; i++) TRY(draft_follows(l, id, s->fill[i], 0, &port));
    part_is_result(&s->to->part[pos], id, 0);
    return 0;
}

static int
share_group(struct sharing *s)
{
    s->nfill = 0;
    for (int32_t i = 0; i < s->nitem; i++) {
        bool seen = false;
        for (int32_t k = 0; k < i && !seen; k++) seen = s->item[k].rank == s->item[i].rank;
        if (!seen) TRY(fill_task(s, s->item[i].rank));
    }
    for (int32_t i = 0; i < s->nmember; i++) TRY(join_task(s, s->member[i]));
    return 0;
}

/* ---- whether ---- */

static bool
in_one_memory(const struct layout *l)
{
    return l->place->kind == DEV_CPU || l->place->kind == DEV_LATE;
}

static bool
may_share(const struct lower *l, const struct box_plan *b, const struct pval *from)
{
    return l->program->pieces == 1 && !from->piece && in_one_memory(b->from) && in_one_memory(b->to) &&
           !layout_has_partial(b->to) && type_numel(&b->type) > 0;
}

/* What the members of this group receive when they share; by mesh position. */
static void
count_received(const struct sharing *s, int64_t *received)
{
    const struct box_plan *b = s->m.b;
    const struct place *p = b->to->place;
    int64_t size = (int64_t)dtype_bytes(b->type.dtype);
    for (int32_t m = 0; m < s->nmember; m++) {
        int32_t rank = p->rank[s->member[m]];
        int64_t own = 0, read = 0;
        for (int32_t i = 0; i < s->nitem; i++) {
            const struct item *it = &s->item[i];
            int64_t bytes = box_numel(&it->slice, b->type.ndim) * size;
            if (it->rank != rank) continue;
            own += bytes;
            for (int k = 0; k < it->step->nsource; k++) read += it->step->source[k].rank != rank ? bytes : 0;
        }
        received[s->member[m]] += read + part_bytes(s) - own;
    }
}

/* A rank that holds its part already (B -> S) would read of others what it need not. */
static bool
sends_as_little(const struct box_plan *b, const int64_t *received)
{
    for (int i = 0; i < b->nrank; i++) {
        int pos = place_find(b->to->place, b->rank[i]);
        if (b->received[i] != (pos < 0 ? 0 : received[pos])) return false;
    }
    return true;
}

int
share_parts(struct lower *l, const struct box_plan *b, struct pval *from, struct pval *to, bool *done)
{
    int32_t n = b->to->place->nrank;
    struct sharing s = {.m = {.l = l, .b = b, .from = from}, .to = to};
    *done = false;
    if (!may_share(l, b, from)) return 0;
    s.member = ARENA_ARRAY(&l->tmp, int32_t, n);
    s.fill = ARENA_ARRAY(&l->tmp, int32_t, n + b->nstage + b->nstep);
    int64_t *received = ARENA_ARRAY(&l->tmp, int64_t, n);
    for (int32_t pos = 0; pos < n; pos++) {
        find_members(&s, pos);
        if (s.nmember < 2 || part_bytes(&s) == 0 || !find_items(&s)) return 0;
        if (s.member[0] == pos) count_received(&s, received);
    }
    if (!sends_as_little(b, received)) return 0;
    for (int32_t pos = 0; pos < n; pos++) {
        find_members(&s, pos);
        if (s.member[0] != pos) continue;
        find_items(&s);
        TRY(share_group(&s));
    }
    *done = true;
    return 0;
}
