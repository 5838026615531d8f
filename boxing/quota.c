/* quota.c - computes lower bounds of the bytes that ranks will still receive on a path from a given layout.
 *
 * If an element is missing or incomplete on a rank that needs it, the rank receives the element at least once,
 * whichever rank reduces it.
 *
 * Ranks that hold addends of one tile receive more together. Of p addends, p - 1 are sent to ranks with an addend
 * before one rank has the sum. Then each further rank that needs the sum receives it. A rank without an addend could
 * reduce instead, but then more bytes would be sent over all ranks. So if tiles are uneven, a path on which a tile's
 * ranks receive too much is detected early: at the first hop that cuts the tile unlike the direct exchange. */
#include "boxing/quota.h"

#include "boxing/grid.h"
#include "runtime/data/sorted.h"
#include "runtime/tensor/atlas.h"

/* Maximum numbers of bytes that ranks may have received when a path reaches a layout. */
struct room {
    const struct layout *at;
    int64_t *alone;    /* by index of rank: limit of bytes for this rank alone */
    int32_t *tile;     /* by index of rank: corner of its tile; -1: none; NULL: tiles are not checked */
    int64_t *together; /* by corner of a tile: limit of bytes for all ranks of the tile together */
};

static int64_t
overlap_volume(const struct quota *q, const struct box *a, const struct box *b)
{
    struct box both;
    return box_intersect(a, b, q->type->ndim, &both) ? box_numel(&both, q->type->ndim) : 0;
}

/* Returns a lower bound of the bytes that a rank will still receive. Returns 0 if the destination is partial,
 * because the rank's addend may be the identity. */
static int64_t
left_alone(const struct quota *q, const struct layout *at, int32_t rank)
{
    struct box want, has;
    int from = place_find(at->place, rank), to = place_find(q->to->place, rank);
    if (to < 0 || layout_partial(q->to) != RED_NONE) return 0;
    layout_box(q->to, q->type, to, &want);
    int64_t n = box_numel(&want, q->type->ndim);
    if (from >= 0 && layout_partial(at) == RED_NONE) {
        layout_box(at, q->type, from, &has);
        n -= overlap_volume(q, &want, &has);
    }
    return n * (int64_t)dtype_bytes((enum dtype)q->type->dtype);
}

/* Returns the least number of transmissions for an element with p addends, each held by r ranks of a tile. These
 * ranks are in groups of at least m ranks. A group with k > 1 addends needs k - 1 transmissions to reduce them, and
 * one to each member that did not reduce. A group with one addend needs one transmission to each member without that
 * addend. */
static int64_t
least_sent(int64_t p, int64_t r, int32_t ngroup, int64_t m)
{
    int64_t all = p + m - 2, n = MIN(p, ngroup);
    for (int64_t k = 2; k <= n && m; k++) all = MIN(all, p + k * (m - r - 1));
    return m ? MAX(all, 0) : 0;
}

/* What the rank at a mesh position has and needs; a tile is named by its corner. has: tile of which the rank holds
 * an addend. wants: tile that the rank needs; -1: none. group: index of the addend that the rank gets in the
 * destination. Ranks with the same addend form a group. */
struct claim {
    int32_t has, wants, group;
};

static void
claims_of(const struct grid *g, const struct grid *h, struct claim *claim)
{
    for (int32_t i = 0; i < g->layout->place->nrank; i++) {
        int32_t to = grid_other(g, h, i);
        struct spot at = to < 0 ? (struct spot){-1, 0, 0} : grid_spot(h, to);
        claim[i] = (struct claim){grid_spot(g, i).corner, at.corner, at.addend};
    }
}

/* Returns the size of the smallest group among the ranks that have and need the same tiles as the rank at `pos`. -1:
 * these ranks were counted at an earlier position. 0: there are more than QUOTA_TILES groups, so the ranks are not
 * counted. */
static int32_t
smallest_group(const struct grid *g, const struct grid *h, const struct claim *claim, int32_t pos)
{
    int32_t member[QUOTA_TILES] = {0}, least = INT32_MAX;
    if (h->naddend > QUOTA_TILES) return 0;
    for (int32_t i = 0; i < g->layout->place->nrank; i++) {
        if (claim[i].has != claim[pos].has || claim[i].wants != claim[pos].wants) continue;
        if (i < pos) return -1;
        member[claim[i].group]++;
    }
    for (int32_t i = 0; i < h->naddend; i++) least = MIN(least, member[i]);
    return least;
}

/* Returns a lower bound of the bytes that all ranks with this claim (the tiles that they have and need) receive
 * together, beyond the sum of their individual bounds. */
static int64_t
left_to_add(const struct quota *q, const struct grid *g, const struct grid *h, const struct claim *at, int32_t members)
{
    struct box want, has;
    layout_box(g->layout, q->type, at->has, &has);
    layout_box(h->layout, q->type, at->wants, &want);
    int64_t n = overlap_volume(q, &want, &has), outside = box_numel(&want, q->type->ndim) - n;
    if (h->naddend == 1) return n * ((g->naddend - 1) * g->width - h->width);
    return (n * least_sent(g->naddend, g->nreplica, h->naddend, members) + outside * members) * g->width;
}

static void
count_tiles(struct quota *q, struct room *r)
{
    struct grid g = grid_of(r->at, q->type), h = grid_of(q->to, q->type);
    struct claim claim[QUOTA_TILES];
    claims_of(&g, &h, claim);
    r->tile = ARENA_ARRAY(q->arena, int32_t, q->nrank);
    r->together = ARENA_ARRAY(q->arena, int64_t, g.layout->place->nrank);
    for (int32_t i = 0; i < q->nrank; i++) {
        int32_t pos = place_find(r->at->place, q->rank[i]);
        r->tile[i] = pos < 0 ? -1 : claim[pos].has;
        if (pos < 0) continue;
        int64_t *together = &r->together[claim[pos].has];
        *together += r->alone[i];
        int32_t members = claim[pos].wants < 0 ? -1 : smallest_group(&g, &h, claim, pos);
        if (members >= 0) *together -= left_to_add(q, &g, &h, &claim[pos], members);
    }
}

static const struct room *
room_at(struct quota *q, const struct layout *at)
{
    uint32_t next = 0;
    struct room *r;
    while ((r = hash_next(&q->room, hash_address(at), &next)))
        if (r->at == at) return r;
    r = ARENA_NEW(q->arena, struct room);
    *r = (struct room){.at = at, .alone = arena_dup(q->arena, q->most, sizeof *q->most * (size_t)q->nrank)};
    hash_add(&q->room, hash_address(at), r);
    if (at == q->to) return r;
    for (int32_t i = 0; i < q->nrank; i++) r->alone[i] -= left_alone(q, at, q->rank[i]);
    if (layout_partial(at) != RED_NONE && at->place->nrank <= QUOTA_TILES) count_tiles(q, r);
    return r;
}

bool
quota_lasts(struct quota *q, const struct layout *at, const int64_t *received)
{
    const struct room *r = room_at(q, at);
    int64_t together[QUOTA_TILES] = {0};
    for (int32_t i = 0; i < q->nrank; i++) {
        if (received[i] > r->alone[i]) return false;
        if (r->tile && r->tile[i] >= 0) together[r->tile[i]] += received[i];
    }
    for (int32_t i = 0; r->tile && i < at->place->nrank; i++)
        if (together[i] > r->together[i]) return false;
    return true;
}
