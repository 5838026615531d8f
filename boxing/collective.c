/* collective.c - recognises moves that are one collective along some mesh axes, and computes the blocks that ranks
 * exchange.
 *
 * The code compares the shards' boxes (index ranges) at all positions, not the order in which axes cut the tensor.
 * Shards that are split along the axes of a group are disjoint. So if blocks in a shard together have as many
 * elements as the shard, they cover it. */
#include "boxing/collective.h"
#include "runtime/tensor/atlas.h"

#include <string.h>

/* ---- groups ---- */

/* Returns the distance in mesh order between positions that differ by 1 along an axis. */
static int32_t
axis_stride(const struct place *p, int axis)
{
    int32_t stride = 1;
    for (int a = axis + 1; a < p->naxis; a++) stride *= p->axis[a];
    return stride;
}

int32_t
collective_comm_rank(const struct collective *c, const struct place *p, int32_t pos, int32_t *first)
{
    int32_t coord[MAX_AXIS], comm_rank = 0;
    place_coord(p, pos, coord);
    *first = pos;
    for (int a = 0; a < p->naxis; a++) {
        if (!(c->axes >> a & 1)) continue;
        comm_rank = comm_rank * p->axis[a] + coord[a];
        *first -= coord[a] * axis_stride(p, a);
    }
    return comm_rank;
}

int32_t
collective_pos(const struct collective *c, const struct place *p, int32_t first, int32_t comm_rank)
{
    for (int a = p->naxis - 1; a >= 0; a--) {
        if (!(c->axes >> a & 1)) continue;
        first += comm_rank % p->axis[a] * axis_stride(p, a);
        comm_rank /= p->axis[a];
    }
    return first;
}

/* ---- axes ---- */

static const int8_t verb_of[3][3] = {
    [SBP_S] = {[SBP_S] = COLLECT_EXCHANGE, [SBP_B] = COLLECT_GATHER, [SBP_P] = -1},
    [SBP_B] = {[SBP_S] = -1, [SBP_B] = -1, [SBP_P] = -1},
    [SBP_P] = {[SBP_S] = COLLECT_SCATTER, [SBP_B] = COLLECT_REDUCE, [SBP_P] = -1},
};

static bool
same_collective_entry(struct sbp a, struct sbp b)
{
    return a.kind == b.kind && (a.kind != SBP_S || (a.axis == b.axis && a.unit == b.unit)) &&
           (a.kind != SBP_P || a.reduce == b.reduce);
}

/* Finds the axes on which the layout changes. Returns false if no axis changes, or if the axes need different
 * collectives. */
static bool
find_axes(const struct layout *from, const struct layout *to, struct collective *c)
{
    int verb = -1;
    *c = (struct collective){.size = 1};
    for (int a = 0; a < from->place->naxis; a++) {
        struct sbp x = from->sbp[a], y = to->sbp[a];
        if (from->place->axis[a] == 1 || same_collective_entry(x, y)) continue;
        int does = verb_of[x.kind][y.kind];
        if (does < 0 || (verb >= 0 && does != verb)) return false;
        verb = does;
        c->axes |= 1u << a;
        c->size *= from->place->axis[a];
        if (x.kind == SBP_P) c->reduce = x.reduce;
    }
    c->verb = (uint8_t)verb;
    return verb >= 0;
}

static bool
reduces(const struct collective *c)
{
    enum dtype d = (enum dtype)c->dtype;
    if (c->reduce == RED_MAX || c->reduce == RED_MIN) return !dtype_is_float(d);
    return c->reduce == RED_NONE || d != DT_BOOL;
}

/* ---- blocks ---- */

static void
box_of_rank(const struct collective *c, const struct type *t, const struct layout *l, int32_t pos, int32_t comm_rank,
            struct box *out)
{
    int32_t first;
    collective_comm_rank(c, l->place, pos, &first);
    layout_box(l, t, collective_pos(c, l->place, first, comm_rank), out);
}

/* Intersects two boxes; the result is empty if they are disjoint. */
static void
intersect_or_empty(const struct box *a, const struct box *b, int ndim, struct box *out)
{
    if (!box_intersect(a, b, ndim, out)) *out = (struct box){0};
}

/* Computes one of the n blocks of a position's shard: the intersection of the shard in layout `own` with rank i's
 * shard in layout `other`. */
static void
block_box(const struct collective *c, const struct type *t, const struct layout *own, const struct layout *other,
          int32_t n, int32_t pos, int32_t i, struct box *out)
{
    struct box here, there;
    layout_box(own, t, pos, &here);
    *out = here;
    if (n == 1) return;
    box_of_rank(c, t, other, pos, i, &there);
    intersect_or_empty(&here, &there, t->ndim, out);
}

void
collective_sent(const struct collective *c, const struct type *t, const struct layout *from, const struct layout *to,
                int32_t pos, int32_t i, struct box *out)
{
    block_box(c, t, from, to, c->nsent, pos, i, out);
}

void
collective_came(const struct collective *c, const struct type *t, const struct layout *from, const struct layout *to,
                int32_t pos, int32_t i, struct box *out)
{
    block_box(c, t, to, from, c->ncame, pos, i, out);
}

int64_t
collective_numel(const struct collective *c, const struct type *t, const struct layout *from, const struct layout *to,
                 int32_t pos)
{
    struct box block;
    collective_sent(c, t, from, to, pos, 0, &block);
    return box_numel(&block, t->ndim);
}

/* Returns true if block i of n is contiguous in the shard's memory, directly after block i - 1. The blocks must
 * cover the shard. */
static bool
blocks_in_order(const struct box *part, int ndim, const struct box *block, int32_t i, int32_t n)
{
    int d = 0;
    while (d < ndim && part->hi[d] - part->lo[d] == 1) d++;
    if (n == 1 || d == ndim) return n == 1;
    int64_t rows = (part->hi[d] - part->lo[d]) / n;
    for (int k = 0; k < ndim; k++)
        if (k != d && (block->lo[k] != part->lo[k] || block->hi[k] != part->hi[k])) return false;
    return block->lo[d] == part->lo[d] + rows * i && block->hi[d] == block->lo[d] + rows;
}

typedef void block_fn(const struct collective *c, const struct type *t, const struct layout *from,
                      const struct layout *to, int32_t pos, int32_t i, struct box *out);

/* Returns true if n blocks of `numel` elements cover the shard. *scattered: the blocks are not contiguous in order
 * of rank. */
static bool
fills_blocks(const struct collective *c, const struct type *t, const struct layout *from, const struct layout *to,
             int32_t pos, block_fn *block_at, int32_t n, const struct box *part, int64_t numel, bool *scattered)
{
    for (int32_t i = 0; i < n; i++) {
        struct box block, common;
        block_at(c, t, from, to, pos, i, &block);
        if (box_numel(&block, t->ndim) != numel) return false;
        intersect_or_empty(&block, part, t->ndim, &common);
        if (box_numel(&common, t->ndim) != numel) return false;
        if (numel && !blocks_in_order(part, t->ndim, &block, i, n)) *scattered = true;
    }
    return box_numel(part, t->ndim) == numel * n;
}

/* Returns true if the collective suits this position. All blocks that the position sends must have the block length
 * of its group and together cover its shard. All blocks that it receives must cover its result. */
static bool
collective_fits(struct collective *c, const struct type *t, const struct layout *from, const struct layout *to,
                int32_t pos)
{
    struct box has, wants, other;
    int32_t first;
    int64_t numel = collective_numel(c, t, from, to, pos);
    collective_comm_rank(c, from->place, pos, &first);
    if (numel != collective_numel(c, t, from, to, first)) return false;
    layout_box(from, t, pos, &has);
    layout_box(to, t, pos, &wants);
    layout_box(c->verb == COLLECT_GATHER ? to : from, t, first, &other);
    const struct box *whole = c->verb == COLLECT_GATHER ? &wants : &has;
    size_t bytes = sizeof *whole->lo * (size_t)t->ndim;
    bool uncut = !memcmp(whole->lo, other.lo, bytes) && !memcmp(whole->hi, other.hi, bytes);
    bool stays = !memcmp(has.lo, wants.lo, bytes) && !memcmp(has.hi, wants.hi, bytes);
    if ((c->verb != COLLECT_EXCHANGE && !uncut) || (c->verb == COLLECT_REDUCE && !stays)) return false;
    return fills_blocks(c, t, from, to, pos, collective_sent, c->nsent, &has, numel, &c->packs) &&
           fills_blocks(c, t, from, to, pos, collective_came, c->ncame, &wants, numel, &c->unpacks);
}

bool
collective_of(const struct type *t, const struct layout *from, const struct layout *to, struct collective *out)
{
    if (from->place != to->place || type_numel(t) == 0 || !find_axes(from, to, out)) return false;
    bool many = out->verb == COLLECT_SCATTER || out->verb == COLLECT_EXCHANGE;
    out->dtype = (uint8_t)layout_dtype(from, (enum dtype)t->dtype);
    out->gives = (uint8_t)layout_dtype(to, (enum dtype)t->dtype);
    out->nsent = many ? out->size : 1;
    out->ncame = out->verb == COLLECT_GATHER || out->verb == COLLECT_EXCHANGE ? out->size : 1;
    for (int32_t pos = 0; pos < from->place->nrank; pos++)
        if (!collective_fits(out, t, from, to, pos)) return false;
    out->unpacks = out->unpacks || out->gives != out->dtype;
    return reduces(out);
}
