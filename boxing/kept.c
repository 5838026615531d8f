/* kept.c - elements that stay where they are, counted without a look at every rank.
 *
 * A position holds a range of each dimension before the move and one after it; what it
 * keeps is the product of what the two have in common. The sum over positions falls
 * apart into groups of dimensions that no mesh axis ties together. Within a group the
 * axes are gone through one by one, and of each axis only what can matter:
 *   - an axis that cuts one side alone, after all others there, adds up to the range
 *     that it cuts: it is left out;
 *   - parts that miss the range of the other side keep nothing: they are passed over;
 *   - parts that lie within the other side's range, which nothing cuts any more, differ
 *     by their length alone, of which there are two; so do parts of one range that both
 *     sides cut alike. One stands for all of its length.
 * What is left to be gone through one by one are cuts across cuts, the shorter axis
 * first: of the longer one nearly all parts then lie within another range. */
#include "boxing/kept.h"

#include <string.h>

enum { FROM, TO };

struct cuts { /* of one dimension, on one side */
    uint8_t n, axis[MAX_AXIS];
};
struct group {
    const struct place *place;
    const struct type *type;
    struct cuts cuts[2][MAX_DIM];
    int8_t dim[2][MAX_AXIS]; /* which dimension an axis cuts on a side; -1: none */
    uint32_t dims, axes;     /* of the group */
};
/* The axes that were gone through have coordinates; each range is cut by those in its list, up to the first without. */
struct ranges {
    uint8_t ncut[2][MAX_DIM];
    struct span {
        int64_t lo, hi;
    } span[2][MAX_DIM];
    int32_t coord[MAX_AXIS]; /* -1: none yet */
};

/* ---- which axes matter ---- */

static void
leave_out(struct group *g, int side)
{
    for (int d = 0; d < g->type->ndim; d++) {
        struct cuts *c = &g->cuts[side][d];
        while (c->n && g->dim[!side][c->axis[c->n - 1]] < 0) g->dim[side][c->axis[--c->n]] = -1;
    }
}

static struct group
group_of(const struct grid *from, const struct grid *to)
{
    const struct grid *grid[2] = {from, to};
    struct group g = {.place = from->layout->place, .type = from->type};
    memset(g.dim, -1, sizeof g.dim);
    for (int side = 0; side < 2; side++)
        for (int d = 0; d < g.type->ndim; d++)
            for (int i = 0; i < grid[side]->ncut[d]; i++) {
                uint8_t a = grid[side]->cut[d][i];
                struct cuts *c = &g.cuts[side][d];
                if (g.place->axis[a] == 1) continue;
                g.dim[side][a] = (int8_t)d;
                c->axis[c->n++] = a;
            }
    leave_out(&g, FROM);
    leave_out(&g, TO);
    return g;
}

static uint32_t
axes_of(const struct group *g, int d)
{
    uint32_t axes = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < g->cuts[side][d].n; i++) axes |= 1u << g->cuts[side][d].axis[i];
    return axes;
}

/* All dimensions that axes tie to the first. */
static void
gather_group(struct group *g, int first)
{
    uint32_t before = 0;
    g->dims = 1u << first;
    g->axes = axes_of(g, first);
    while (before != g->dims) {
        before = g->dims;
        for (int d = 0; d < g->type->ndim; d++)
            if (axes_of(g, d) & g->axes) {
                g->dims |= 1u << d;
                g->axes |= axes_of(g, d);
            }
    }
}

/* ---- one axis after the other ---- */

/* Is it the axis by which this side's range of its dimension is cut next? */
static bool
is_next(const struct group *g, const struct ranges *r, int side, int a)
{
    int d = g->dim[side][a];
    return d >= 0 && r->ncut[side][d] < g->cuts[side][d].n && g->cuts[side][d].axis[r->ncut[side][d]] == a;
}

/* Cuts by coordinates that are known now. */
static void
cut(const struct group *g, struct ranges *r, int side, int d)
{
    const struct cuts *c = &g->cuts[side][d];
    struct span *s = &r->span[side][d];
    for (; r->ncut[side][d] < c->n && r->coord[c->axis[r->ncut[side][d]]] >= 0; r->ncut[side][d]++) {
        int a = c->axis[r->ncut[side][d]];
        int64_t lo, hi;
        shard_range(s->hi - s->lo, g->place->axis[a], r->coord[a], &lo, &hi);
        *s = (struct span){s->lo + lo, s->lo + hi};
    }
}

/* Coordinates of an axis: those whose parts meet the other side's range. False: there are none. */
static bool
narrow(const struct group *g, const struct ranges *r, int side, int a, int32_t *first, int32_t *end)
{
    int d = g->dim[side][a];
    struct span s = r->span[side][d], o = r->span[!side][d];
    int64_t n = s.hi - s.lo, lo = MAX(s.lo, o.lo) - s.lo, hi = MIN(s.hi, o.hi) - s.lo;
    if (lo >= hi) return false;
    *first = MAX(*first, grid_part(n, g->place->axis[a], lo));
    *end = MIN(*end, grid_part(n, g->place->axis[a], hi - 1) + 1);
    return *first < *end;
}

static bool
same_range(const struct group *g, const struct ranges *r, int a)
{
    int d = g->dim[FROM][a];
    if (g->dim[TO][a] != d || !is_next(g, r, FROM, a) || !is_next(g, r, TO, a)) return false;
    return r->span[FROM][d].lo == r->span[TO][d].lo && r->span[FROM][d].hi == r->span[TO][d].hi;
}

/* Does what a part keeps depend on its length alone, as far as one side tells and where it lies within the other's
 * range? */
static bool
length_tells(const struct group *g, const struct ranges *r, int side, int a)
{
    int d = g->dim[side][a];
    if (d < 0 || same_range(g, r, a)) return true;
    return is_next(g, r, side, a) && r->ncut[!side][d] == g->cuts[!side][d].n;
}

/* From coordinate c on, the end of those that keep as much, as far as one side tells. */
static int32_t
alike_until(const struct group *g, const struct ranges *r, int side, int a, int32_t c)
{
    int d = g->dim[side][a];
    int32_t parts = g->place->axis[a];
    if (d < 0) return parts;
    if (!length_tells(g, r, side, a)) return c + 1;
    struct span s = r->span[side][d], o = r->span[!side][d];
    int64_t n = s.hi - s.lo, longer = n % parts, lo, hi;
    int32_t end = c < longer ? (int32_t)longer : parts;
    if (same_range(g, r, a)) return end;
    shard_range(n, parts, c, &lo, &hi);
    if (s.lo + lo < o.lo || s.lo + hi > o.hi) return c + 1;
    return o.hi < s.hi ? MIN(end, grid_part(n, parts, o.hi - s.lo)) : end;
}

/* The axis to be gone through next: one of which few parts differ, else the shortest. -1: none is left. */
static int
next_axis(const struct group *g, const struct ranges *r)
{
    int best = -1, least = 0;
    for (int a = 0; a < g->place->naxis; a++) {
        if (!(g->axes >> a & 1) || r->coord[a] >= 0) continue;
        bool few = length_tells(g, r, FROM, a) && length_tells(g, r, TO, a);
        int differ = few ? 1 : g->place->axis[a];
        if (best >= 0 && differ >= least) continue;
        best = a;
        least = differ;
    }
    return best;
}

static int64_t
in_common(const struct group *g, const struct ranges *r)
{
    int64_t n = 1;
    for (int d = 0; d < g->type->ndim; d++) {
        if (!(g->dims >> d & 1)) continue;
        const struct span *s = &r->span[FROM][d], *o = &r->span[TO][d];
        n *= MAX(MIN(s->hi, o->hi) - MAX(s->lo, o->lo), 0);
    }
    return n;
}

static int64_t
sum_over(const struct group *g, const struct ranges *r)
{
    int a = next_axis(g, r);
    if (a < 0) return in_common(g, r);
    int32_t c = 0, end = g->place->axis[a];
    int64_t sum = 0;
    for (int side = 0; side < 2; side++)
        if (is_next(g, r, side, a) && !narrow(g, r, side, a, &c, &end)) return 0;
    while (c < end) {
        struct ranges next = *r;
        int32_t until = MIN(end, MIN(alike_until(g, r, FROM, a, c), alike_until(g, r, TO, a, c)));
        next.coord[a] = c;
        for (int d = 0; d < g->type->ndim; d++) {
            cut(g, &next, FROM, d);
            cut(g, &next, TO, d);
        }
        sum += (until - c) * sum_over(g, &next);
        c = until;
    }
    return sum;
}

int64_t
kept_volume(const struct grid *from, const struct grid *to)
{
    struct group g = group_of(from, to);
    struct ranges whole = {0};
    int64_t volume = 1;
    uint32_t done = 0;
    memset(whole.coord, -1, sizeof whole.coord);
    for (int d = 0; d < g.type->ndim; d++) whole.span[FROM][d] = whole.span[TO][d] = (struct span){0, g.type->dim[d]};
    for (int d = 0; d < g.type->ndim; d++) {
        if (done >> d & 1) continue;
        gather_group(&g, d);
        done |= g.dims;
        volume *= sum_over(&g, &whole);
    }
    return volume;
}
