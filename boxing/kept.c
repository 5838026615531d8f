/* kept.c - counts the elements that stay in place, without visiting every rank.
 *
 * A position holds a range of each dimension before the move and one after. The number of elements that the position
 * keeps is the product of the overlaps. A mesh axis connects two dimensions if it splits one before the move and the
 * other after the move. The sum over positions is a product of sums, one per group of connected dimensions. Within a
 * group the search enumerates the coordinates of one axis after the other, but only those that matter. (Side: the
 * layout before or after the move. Part: what the axis cuts from a range.)
 * - An axis is left out if it cuts one side only, and no other axis cuts that range further. The parts of the axis
 *   then add up to the range.
 * - Parts that do not overlap the other side's range are skipped, because they keep nothing.
 * - Parts inside the other side's range differ only by their length, if that range is not cut further. Parts of a
 *   range that both sides cut in the same way also differ only by their length. Parts have at most two lengths, so
 *   one part of each length is examined.
 * All other parts are enumerated one by one. The next axis is the one with the fewest parts to examine among the
 * axes that cut a current range, because smaller ranges overlap fewer parts.
 *
 * Callers that price many moves cache the groups: a tensor has many pairs of layouts, but few groups, because pairs
 * share most of them. A group is independent of mesh and tensor: axes of equal size are interchangeable, and a move
 * has the same group as its inverse. */
#include "boxing/kept.h"

#include <stddef.h>
#include <string.h>

enum { FROM, TO };

struct cuts { /* the axes that split a dimension on one side (before the move, or after it) */
    uint8_t n, axis[MAX_AXIS];
};
/* A move; axes and dimensions are numbered as in the mesh and the tensor. */
struct move {
    const struct place *place;
    const struct type *type;
    struct cuts cuts[2][MAX_DIM];
    /* by side (before or after the move) and axis: dimension that the axis splits; -1: none */
    int8_t dim[2][MAX_AXIS];
    int32_t unit[2][MAX_AXIS]; /* by side and axis: unit of the split */
    uint32_t cut_by[MAX_DIM];  /* by dimension: axes that split the dimension before or after the move, as bits */
};
/* Dimensions that axes connect, and these axes; both are renumbered. An axis connects the dimension that it splits
 * before the move with the one that it splits after the move. Unused entries are 0, so that groups can be compared
 * as bytes up to `dim`. The values of `dim` and the fields after it are functions of the fields before `dim`. */
struct group {
    int64_t size[MAX_DIM];
    int32_t parts[MAX_AXIS];   /* by axis: number of parts into which the axis splits its dimension */
    int32_t unit[2][MAX_AXIS]; /* by side and axis: unit of the split (layout.h) */
    struct cuts cuts[2][MAX_DIM];
    uint8_t ndim, naxis;
    int8_t dim[2][MAX_AXIS];
};
/* Ranges of the dimensions for the coordinates enumerated so far. A coordinate restricts the range of the dimension
 * that its axis splits. If several axes split a dimension, they apply in cutting order, up to the first axis without
 * a known coordinate. */
struct ranges {
    struct span {
        int64_t lo, hi;
    } span[2][MAX_DIM];
    int32_t coord[MAX_AXIS]; /* by axis: coordinate; -1: not enumerated yet */
    uint8_t ncut[2][MAX_DIM];
};

/* ---- relevant axes ---- */

static void
leave_out(struct move *m, int side)
{
    for (int d = 0; d < m->type->ndim; d++) {
        struct cuts *c = &m->cuts[side][d];
        while (c->n && m->dim[!side][c->axis[c->n - 1]] < 0) m->dim[side][c->axis[--c->n]] = -1;
    }
}

static void
describe_move(const struct grid *from, const struct grid *to, struct move *m)
{
    const struct grid *grid[2] = {from, to};
    *m = (struct move){.place = from->layout->place, .type = from->type};
    memset(m->dim, -1, sizeof m->dim);
    for (int side = 0; side < 2; side++)
        for (int d = 0; d < m->type->ndim; d++)
            for (int i = 0; i < grid[side]->ncut[d]; i++) {
                uint8_t a = grid[side]->cut[d][i];
                struct cuts *c = &m->cuts[side][d];
                if (m->place->axis[a] == 1) continue;
                m->dim[side][a] = (int8_t)d;
                m->unit[side][a] = grid[side]->layout->sbp[a].unit;
                c->axis[c->n++] = a;
            }
    leave_out(m, FROM);
    leave_out(m, TO);
    for (int side = 0; side < 2; side++)
        for (int a = 0; a < m->place->naxis; a++)
            if (m->dim[side][a] >= 0) m->cut_by[m->dim[side][a]] |= 1u << a;
}

/* Returns a bit mask of the dimensions that are connected to dimension `first`, with `first`. Two dimensions are
 * connected if one mesh axis splits one of them before the move and the other after the move. Dimensions that are
 * connected to a third dimension are connected, too. */
static uint32_t
tied_to(const struct move *m, int first)
{
    uint32_t dims = 1u << first, axes = m->cut_by[first], before = 0;
    while (before != dims) {
        before = dims;
        for (int d = 0; d < m->type->ndim; d++)
            if (m->cut_by[d] & axes) {
                dims |= 1u << d;
                axes |= m->cut_by[d];
            }
    }
    return dims;
}

/* Lists the dimensions of a group, shortest first. */
static int
dims_in_order(const struct move *m, uint32_t dims, int *order)
{
    int n = 0;
    for (int d = 0; d < m->type->ndim; d++) {
        if (!(dims >> d & 1)) continue;
        int at = n++;
        for (; at && m->type->dim[order[at - 1]] > m->type->dim[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

/* Returns the side that comes first in the canonical form: the side with more cuts in the first dimension where the
 * numbers of cuts differ. */
static int
first_side(const struct move *m, const int *order, int n)
{
    for (int k = 0; k < n; k++) {
        int differ = m->cuts[FROM][order[k]].n - m->cuts[TO][order[k]].n;
        if (differ) return differ > 0 ? FROM : TO;
    }
    return FROM;
}

static void
cell_group(const struct move *m, uint32_t dims, struct group *g)
{
    int order[MAX_DIM], name[MAX_AXIS];
    memset(g, 0, sizeof *g);
    memset(name, -1, sizeof name);
    memset(g->dim, -1, sizeof g->dim);
    g->ndim = (uint8_t)dims_in_order(m, dims, order);
    int first = first_side(m, order, g->ndim);
    for (int k = 0; k < g->ndim; k++) {
        g->size[k] = m->type->dim[order[k]];
        for (int side = 0; side < 2; side++) {
            const struct cuts *c = &m->cuts[side ^ first][order[k]];
            g->cuts[side][k].n = c->n;
            for (int i = 0; i < c->n; i++) {
                int a = c->axis[i];
                if (name[a] < 0) g->parts[name[a] = g->naxis++] = m->place->axis[a];
                g->cuts[side][k].axis[i] = (uint8_t)name[a];
                g->dim[side][name[a]] = (int8_t)k;
                g->unit[side][name[a]] = m->unit[side ^ first][a];
            }
        }
    }
}

/* ---- enumerate the coordinates of one axis after the other ---- */

/* Returns true if, on this side, axis a is the next axis to split the current range of the dimension that it
 * splits. */
static bool
is_next_axis(const struct group *g, const struct ranges *r, int side, int a)
{
    int d = g->dim[side][a];
    return d >= 0 && r->ncut[side][d] < g->cuts[side][d].n && g->cuts[side][d].axis[r->ncut[side][d]] == a;
}

/* Restricts a dimension's range on one side by the coordinates that are known. */
static void
cut_ranges(const struct group *g, struct ranges *r, int side, int d)
{
    const struct cuts *c = &g->cuts[side][d];
    struct span *s = &r->span[side][d];
    for (; r->ncut[side][d] < c->n && r->coord[c->axis[r->ncut[side][d]]] >= 0; r->ncut[side][d]++) {
        int a = c->axis[r->ncut[side][d]];
        int64_t lo, hi;
        shard_range(s->hi - s->lo, g->unit[side][a], g->parts[a], r->coord[a], &lo, &hi);
        *s = (struct span){s->lo + lo, s->lo + hi};
    }
}

/* Restricts the coordinates of an axis to the coordinates whose parts, on this side, overlap the other side's range. */
static void
narrow_cells(const struct group *g, const struct ranges *r, int side, int a, int32_t *first, int32_t *end)
{
    int d = g->dim[side][a];
    struct span s = r->span[side][d], o = r->span[!side][d];
    int64_t n = s.hi - s.lo, lo = MAX(s.lo, o.lo) - s.lo, hi = MIN(s.hi, o.hi) - s.lo;
    int32_t unit = g->unit[side][a];
    if (lo >= hi) {
        *first = *end;
        return;
    }
    if (lo > 0) *first = MAX(*first, grid_part(n, unit, g->parts[a], lo));
    *end =
        hi < n ? MIN(*end, grid_part(n, unit, g->parts[a], hi - 1) + 1) : (int32_t)MIN(*end, n / shard_unit(n, unit));
}

static bool
same_range(const struct group *g, const struct ranges *r, int a)
{
    int d = g->dim[FROM][a];
    if (g->dim[TO][a] != d || g->unit[FROM][a] != g->unit[TO][a]) return false;
    if (!is_next_axis(g, r, FROM, a) || !is_next_axis(g, r, TO, a)) return false;
    return r->span[FROM][d].lo == r->span[TO][d].lo && r->span[FROM][d].hi == r->span[TO][d].hi;
}

/* Returns true if the number of elements that this side keeps of a part depends only on the part's length. This
 * holds for parts inside the other side's range. */
static bool
length_tells(const struct group *g, const struct ranges *r, int side, int a)
{
    int d = g->dim[side][a];
    if (d < 0 || same_range(g, r, a)) return true;
    return is_next_axis(g, r, side, a) && r->ncut[!side][d] == g->cuts[!side][d].n;
}

/* How an axis splits one side's range. The fields hold for all parts of the axis. */
struct parts {
    /* n: number of parts; within: index of the first part that reaches beyond the end of the other side's range; n
     * if no part does */
    int32_t n, within;
    /* length of a part, in blocks of `unit` elements: least + 1 if the part's index is below longer, else least */
    int64_t least, longer, unit;
    struct span s, o; /* s: range of this side; o: range of the other side */
    bool cuts, tells, same;
};

static struct parts
cell_parts(const struct group *g, const struct ranges *r, int side, int a)
{
    int d = g->dim[side][a];
    struct parts p = {.n = g->parts[a], .cuts = d >= 0};
    if (!p.cuts || !(p.tells = length_tells(g, r, side, a))) return p;
    int64_t n = r->span[side][d].hi - r->span[side][d].lo;
    p.same = same_range(g, r, a);
    p.s = r->span[side][d];
    p.o = r->span[!side][d];
    p.unit = shard_unit(n, g->unit[side][a]);
    p.least = n / p.unit / p.n;
    p.longer = n / p.unit % p.n;
    p.within = p.o.hi < p.s.hi && !p.same ? grid_part(n, g->unit[side][a], p.n, p.o.hi - p.s.lo) : p.n;
    return p;
}

/* Returns the first coordinate after c whose part keeps another number of elements on this side than the part of
 * c. */
static int32_t
alike_until(const struct parts *p, int32_t c)
{
    if (!p->cuts) return p->n;
    if (!p->tells) return c + 1;
    int32_t end = c < p->longer ? (int32_t)p->longer : p->n;
    if (p->same) return end;
    int64_t lo = p->s.lo + (c * p->least + MIN(c, p->longer)) * p->unit;
    int64_t hi = lo + (p->least + (c < p->longer)) * p->unit;
    return lo < p->o.lo || hi > p->o.hi ? c + 1 : MIN(end, p->within);
}

/* Returns the axis to enumerate next: among the axes that split a current range, the axis with the fewest
 * coordinates to examine. Sets *first and *end: the coordinates are *first to *end - 1. -1: no axis is left. */
static int
next_axis(const struct group *g, const struct ranges *r, int32_t *first, int32_t *end)
{
    int best = -1, least = 0;
    for (int a = 0; a < g->naxis; a++) {
        bool next[] = {is_next_axis(g, r, FROM, a), is_next_axis(g, r, TO, a)};
        if (r->coord[a] >= 0 || !(next[FROM] || next[TO])) continue;
        int32_t c = 0, until = g->parts[a];
        for (int side = 0; side < 2; side++)
            if (next[side]) narrow_cells(g, r, side, a, &c, &until);
        bool few = length_tells(g, r, FROM, a) && length_tells(g, r, TO, a);
        int differ = c < until && few ? 1 : until - c;
        if (best >= 0 && differ >= least) continue;
        best = a;
        least = differ;
        *first = c;
        *end = until;
    }
    return best;
}

static int64_t
overlap_of(const struct ranges *r, int d)
{
    const struct span *s = &r->span[FROM][d], *o = &r->span[TO][d];
    return MAX(MIN(s->hi, o->hi) - MAX(s->lo, o->lo), 0);
}

static int64_t
in_common(const struct group *g, const struct ranges *r)
{
    int64_t n = 1;
    for (int d = 0; d < g->ndim; d++) n *= overlap_of(r, d);
    return n;
}

static int64_t sum_over(const struct group *g, struct ranges *r);

/* Returns the result of sum_over() with the axis fixed at this coordinate. */
static int64_t
sum_at(const struct group *g, struct ranges *r, int a, int32_t c)
{
    struct span was[2] = {{0, 0}, {0, 0}};
    uint8_t ncut[2] = {0, 0};
    bool any = true;
    r->coord[a] = c;
    for (int side = 0; side < 2; side++) {
        int d = g->dim[side][a];
        if (d < 0) continue;
        was[side] = r->span[side][d];
        ncut[side] = r->ncut[side][d];
        cut_ranges(g, r, side, d);
    }
    for (int side = 0; side < 2; side++) any = any && (g->dim[side][a] < 0 || overlap_of(r, g->dim[side][a]) > 0);
    int64_t sum = any ? sum_over(g, r) : 0;
    for (int side = 0; side < 2; side++) {
        int d = g->dim[side][a];
        if (d < 0) continue;
        r->span[side][d] = was[side];
        r->ncut[side][d] = ncut[side];
    }
    r->coord[a] = -1;
    return sum;
}

static int64_t
sum_over(const struct group *g, struct ranges *r)
{
    int32_t c, end;
    int a = next_axis(g, r, &c, &end);
    int64_t sum = 0;
    if (a < 0) return in_common(g, r);
    const struct parts from = cell_parts(g, r, FROM, a), to = cell_parts(g, r, TO, a);
    while (c < end) {
        int32_t until = MIN(end, MIN(alike_until(&from, c), alike_until(&to, c)));
        sum += (until - c) * sum_at(g, r, a, c);
        c = until;
    }
    return sum;
}

static int64_t
count_cells(const struct group *g)
{
    struct ranges whole = {.coord = {0}};
    memset(whole.coord, -1, sizeof whole.coord);
    for (int d = 0; d < g->ndim; d++) whole.span[FROM][d] = whole.span[TO][d] = (struct span){0, g->size[d]};
    return sum_over(g, &whole);
}

/* ---- the cache ---- */

struct answer {
    struct group group;
    int64_t volume;
};

static int64_t
count_once(const struct group *g, struct hash_table *known)
{
    enum { BYTES = offsetof(struct group, dim) };
    uint64_t hash = hash_bytes(0, g, BYTES);
    uint32_t at = 0;
    struct answer *a;
    while ((a = hash_next(known, hash, &at)))
        if (!memcmp(&a->group, g, BYTES)) return a->volume;
    a = ARENA_NEW(known->arena, struct answer);
    memcpy(&a->group, g, sizeof *g);
    a->volume = count_cells(g);
    hash_add(known, hash, a);
    return a->volume;
}

int64_t
kept_volume(const struct grid *from, const struct grid *to, struct hash_table *known)
{
    struct move m;
    struct group g;
    int64_t volume = 1;
    uint32_t done = 0;
    describe_move(from, to, &m);
    for (int d = 0; d < m.type->ndim; d++) {
        if (done >> d & 1) continue;
        uint32_t dims = tied_to(&m, d);
        done |= dims;
        if (!m.cut_by[d]) {
            volume *= m.type->dim[d];
            continue;
        }
        cell_group(&m, dims, &g);
        volume *= known ? count_once(&g, known) : count_cells(&g);
    }
    return volume;
}
