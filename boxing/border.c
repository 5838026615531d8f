/* border.c - lists what a set of ranks reads from other ranks in a move, and what other ranks read from the set.
 *
 * The steps of the set's ranks list their reads from outside ranks. To find the reads by outside ranks, the code
 * searches the readers of each source position of the set, cell by cell. A cell is the intersection of a source tile
 * and a destination tile. The deal (deal.h) assigns each addend of a cell to a group of destination ranks. If a
 * shard is an addend of a sum, the ranks that reduce this sum (its owners) read the shard. Otherwise all members of
 * the group read it. The members also read the sums that the source position reduced.
 *
 * If source and destination have one mesh or no common device, a formula gives the readers of a replica, so the
 * search visits only readers. */
#include "boxing/border.h"
#include "boxing/deal.h"
#include "boxing/relay.h"

#include <stdlib.h>
#include <string.h>

struct inverse {
    struct arena *arena, tmp; /* arena: memory of the result; tmp: memory of this call */
    const struct box_plan *plan;
    const struct box_ranks *mine;
    box_far_fn *far;
    struct grid from, to;
    struct deal deal;
    struct relay relay; /* used if the plan has a hierarchical reduction, by segments of addends (relay.h) */
    bool apart;
    int32_t self; /* source position whose readers are searched */
    struct spot at;
    int32_t *member, nmember; /* destination positions of the group members that read `self` */
    struct box_read *read;    /* reads found so far; allocated by malloc */
    int32_t nread, capacity;
};

static bool
is_among(int32_t n, const int32_t *sorted, int32_t pos)
{
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (sorted[mid] < pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && sorted[lo] == pos;
}

static void
add_border_read(struct inverse *v, struct box_read read)
{
    GROW(v->read, v->nread + 1, v->capacity);
    v->read[v->nread++] = read;
}

/* ---- find the readers of a source position ---- */

static int32_t
grid_digit(const struct grid *g, int32_t pos, int axis)
{
    return pos / g->stride[axis] % g->layout->place->axis[axis];
}

/* Restricts the group's members to those that read the replica at source position `self`. Source and destination
 * have one mesh. There, a device reads the replica that has the device's own coordinates on the source's B axes. */
static void
members_of_mesh(struct inverse *v)
{
    const struct layout *from = v->from.layout, *to = v->to.layout;
    for (int a = 0; a < to->place->naxis; a++) {
        int32_t own = grid_digit(&v->from, v->self, a), stride = v->to.stride[a], n = v->nmember;
        bool free = to->sbp[a].kind == SBP_B, bound = from->sbp[a].kind == SBP_B;
        if (!free && bound && grid_digit(&v->to, v->member[0], a) != own) v->nmember = 0;
        if (v->nmember == 0) return;
        if (free && bound)
            for (int32_t i = 0; i < n; i++) v->member[i] += own * stride;
        if (!free || bound) continue;
        for (int32_t c = 1; c < to->place->axis[a]; c++)
            for (int32_t i = 0; i < n; i++) v->member[v->nmember++] = v->member[i] + c * stride;
    }
}

/* Lists the members of the group that read the current cell (deal.h) from source position `self`. The other members
 * read the cell from other source positions, which hold replicas of it. */
static void
find_group_members(struct inverse *v, int32_t group)
{
    const struct grid *from = &v->from, *to = &v->to;
    int32_t tile = grid_tile(to, v->deal.dst), first = 0, step = 1;
    v->nmember = 0;
    if (from->layout->place == to->layout->place) {
        v->member[v->nmember++] = grid_pos(to, (struct spot){v->deal.dst, group, 0});
        members_of_mesh(v);
        return;
    }
    /* no device is in both placements, so the group's members take the replicas in round-robin order */
    if (v->apart) {
        step = from->nreplica;
        first = (v->at.replica + step - tile % step) % step;
    }
    for (int32_t k = first; k < to->nreplica; k += step) {
        int32_t pos = grid_pos(to, (struct spot){v->deal.dst, group, k});
        if (v->apart || deal_replica(from, grid_other(to, from, pos), k + tile) == v->at.replica)
            v->member[v->nmember++] = pos;
    }
}

static void
read_by_members(struct inverse *v, int32_t group, const struct box *cell)
{
    const struct box *slice = NULL;
    find_group_members(v, group);
    for (int32_t i = 0; i < v->nmember; i++) {
        if (is_among(v->mine->nto, v->mine->to, v->member[i])) continue;
        if (!slice) slice = arena_dup(v->arena, cell, sizeof *cell);
        add_border_read(v, (struct box_read){.from = v->self, .to = v->member[i], .slice = slice});
    }
}

/* Adds the reads of a stage, which is a buffer with reduced sums. All members of the group read the stage, whichever
 * source replica they use. If the complete sum is sent back through the segments of a hierarchical reduction, only
 * the members in the stage's own segment read the stage. */
static void
stage_read(struct inverse *v, int32_t number, int32_t group, const struct box *share)
{
    const struct relay *r = v->plan->relay && v->plan->relay->back ? &v->relay : NULL;
    struct box *slice = NULL;
    for (int32_t i = 0; i < v->to.nreplica; i++) {
        int32_t pos = grid_pos(&v->to, (struct spot){v->deal.dst, group, i});
        if (r && relay_segment(r, grid_spot(&v->from, pos).addend) != relay_segment(r, v->at.addend)) continue;
        if (is_among(v->mine->nto, v->mine->to, pos)) continue;
        if (!slice) slice = arena_dup(v->arena, share, sizeof *share);
        add_border_read(v, (struct box_read){.from_stage = true, .from = number, .to = pos, .slice = slice});
    }
}

/* Adds a read by a stage. The stage reads a slice of another stage, or of the shard at `self`. */
static void
read_by_stage(struct inverse *v, bool from_stage, int32_t from, int32_t owner, int32_t number, const struct box *share)
{
    if (is_among(v->mine->nfrom, v->mine->from, owner)) return;
    const struct box *slice = arena_dup(v->arena, share, sizeof *share);
    add_border_read(v, (struct box_read){from_stage, true, from, number, slice});
}

/* Adds the reads of the addend at source position `self`. The readers are the owners that reduce the sum and use the
 * replica of `self`. Each owner reads one slice of the cell, its share. */
static void
read_by_owners(struct inverse *v, int32_t group, const struct box *cell)
{
    for (int32_t k = 0; k < v->deal.nowner; k++) {
        int32_t owner = v->deal.owner[k];
        struct box share;
        if (!deal_share(cell, v->from.type->ndim, v->deal.nowner, k, &share)) continue;
        if (owner == v->self) stage_read(v, v->self, group, &share);
        if (grid_spot(&v->from, owner).replica == v->at.replica) read_by_stage(v, false, v->self, owner, owner, &share);
    }
}

/* Adds the reads of the complete sum of a hierarchical reduction that `self` holds for its segment of addends. The
 * readers are the members of the group. If sums are sent back, the previous segment's owner reads it, too. */
static void
reads_of_whole(struct inverse *v, int32_t leg, int32_t share, int32_t chunk, const struct box *piece)
{
    const struct relay *r = &v->relay;
    bool last = leg == r->how->nleg - 1;
    int32_t number = last ? relay_stage(r, leg, v->self, chunk) : relay_back(r, leg, v->self, chunk);
    stage_read(v, number, 0, piece);
    if (!r->how->back || leg == 0) return;
    int32_t before = relay_owner(r, v->deal.src, leg - 1, share);
    read_by_stage(v, true, number, before, relay_back(r, leg - 1, before, chunk), piece);
}

/* Adds the reads of a chunk in the segment of source position `self`, in a hierarchical reduction. Owners of shares
 * (slices of a cell) that use the same replica read the addend at `self`. If `self` owns the share, the next
 * segment's owner reads the running sum of `self`. After the last segment, the members of the group read it. */
static void
reads_of_piece(struct inverse *v, int32_t leg, int32_t share, int32_t chunk, const struct box *piece)
{
    const struct relay *r = &v->relay;
    int32_t owner = relay_owner(r, v->deal.src, leg, share), number = relay_stage(r, leg, owner, chunk);
    bool bare = leg == 0 && r->bare;
    if (!bare && grid_spot(&v->from, owner).replica == v->at.replica)
        read_by_stage(v, false, v->self, owner, number, piece);
    if (owner != v->self) return;
    if (r->how->back || leg == r->how->nleg - 1) reads_of_whole(v, leg, share, chunk, piece);
    if (leg == r->how->nleg - 1) return;
    int32_t next = relay_owner(r, v->deal.src, leg + 1, share);
    read_by_stage(v, !bare, bare ? v->self : number, next, relay_stage(r, leg + 1, next, chunk), piece);
}

static void
read_by_legs(struct inverse *v, const struct box *cell)
{
    int32_t leg = relay_segment(&v->relay, v->at.addend);
    struct box piece;
    for (int32_t k = 0; k < v->relay.nshare; k++)
        for (int32_t chunk = 0; chunk < v->relay.how->nchunk; chunk++)
            if (relay_piece(&v->relay, cell, k, chunk, &piece)) reads_of_piece(v, leg, k, chunk, &piece);
}

/* Adds the reads of the shard and of the stage (buffer of sums) of source position `self`, cell by cell. The readers
 * are the group of destination ranks to which the deal assigns the shard's addend. */
static void
reads_of(struct inverse *v, int32_t pos)
{
    struct box part, share;
    struct cell_walk w;
    v->self = pos;
    v->at = grid_spot(&v->from, pos);
    layout_box(v->from.layout, v->from.type, pos, &part);
    for (bool more = cell_begin(&w, &v->to, &part); more; more = cell_next(&w)) {
        int32_t n = deal_shares(&v->deal, v->at.corner, w.corner);
        for (int32_t k = 0; k < n; k++) {
            if (!deal_share(&w.box, v->from.type->ndim, n, k, &share)) continue;
            deal_cell(&v->deal, v->at.corner, w.corner, k);
            int32_t group = v->deal.give[v->at.addend];
            bool summed = v->deal.ntaken[group] > 1;
            if (summed) deal_owners(&v->deal, group);
            if (v->plan->relay)
                read_by_legs(v, &share);
            else if (summed && !v->deal.direct)
                read_by_owners(v, group, &share);
            else
                read_by_members(v, group, &share);
        }
    }
}

/* ---- list both directions of a border ---- */

static int
by_border(const void *a, const void *b)
{
    const struct box_read *x = a, *y = b;
    if (x->to_stage != y->to_stage) return x->to_stage ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    if (x->from_stage != y->from_stage) return x->from_stage ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    for (int d = 0; d < MAX_DIM; d++)
        if (x->slice->lo[d] != y->slice->lo[d]) return x->slice->lo[d] < y->slice->lo[d] ? -1 : 1;
    return 0;
}

static struct box_read *
take_reads(struct inverse *v, int32_t *n)
{
    if (v->nread > 1) qsort(v->read, (size_t)v->nread, sizeof *v->read, by_border);
    *n = v->nread;
    v->nread = 0;
    return arena_dup(v->arena, v->read, sizeof *v->read * (size_t)*n);
}

static void
reads_by(struct inverse *v, const struct box_work *w, bool stage)
{
    for (int32_t i = 0; i < w->nstep; i++)
        for (int32_t k = 0; k < w->step[i].nsource; k++) {
            const struct box_source *s = &w->step[i].source[k];
            int32_t pos = box_source_pos(v->plan, s), to = stage ? box_stage_pos(v->plan, w->pos) : w->pos;
            if (is_among(v->mine->nfrom, v->mine->from, pos) && !(v->far && v->far(v->plan, stage, to, pos))) continue;
            add_border_read(v, (struct box_read){s->stage != BOX_PART, stage, s->pos, w->pos, w->step[i].slice});
        }
}

static bool
all_ranks(const struct box_plan *p, const struct box_ranks *mine)
{
    return mine->nfrom == p->from->place->nrank && mine->nto == p->to->place->nrank;
}

static void
reads_of_all(struct inverse *v)
{
    deal_init(&v->deal, &v->tmp, &v->from, &v->to);
    if (v->plan->relay) v->relay = relay_of(&v->from, v->plan->relay);
    v->apart = grid_apart(&v->from, &v->to);
    v->member = ARENA_ARRAY(&v->tmp, int32_t, v->to.nreplica);
    for (int32_t i = 0; i < v->mine->nfrom; i++) reads_of(v, v->mine->from[i]);
}

void
box_border(struct arena *a, const struct box_plan *p, const struct box_ranks *mine, box_far_fn *far,
           struct box_border *out)
{
    struct inverse v = {.arena = a, .plan = p, .mine = mine, .far = far};
    bool all = all_ranks(p, mine);
    v.from = grid_of(p->from, &p->type);
    v.to = grid_of(p->to, &p->type);
    *out = (struct box_border){0};
    if (p->alias || (all && !far)) return;
    for (int32_t i = 0; i < p->nstage; i++) reads_by(&v, &p->stage[i].work, true);
    for (int32_t i = 0; i < p->npart; i++) reads_by(&v, &p->part[i], false);
    out->in = take_reads(&v, &out->nin);
    if (!all) reads_of_all(&v);
    out->out = take_reads(&v, &out->nout);
    free(v.read);
    arena_fini(&v.tmp);
}
