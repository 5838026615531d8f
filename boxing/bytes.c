/* bytes.c - what a move costs, in closed form: nobody plans it to price it.
 *
 * Elements of which no destination holds anything cost the same everywhere:
 * addends + members - 1 transmissions each. What is cheaper are the cells that
 * some rank has on both sides. On one mesh they are all of one kind, and their
 * volume is a product over independent groups of tensor dimensions: two
 * dimensions depend on each other only when a mesh axis cuts one before and
 * the other after the move. Otherwise the ranks of both meshes are gone
 * through, each cell counted at the first rank that has it. */
#include "boxing/box.h"
#include "boxing/deal.h"

#include <limits.h>

/* The range of dimension d that the mesh coordinates give. */
static void
range_at(const struct grid *g, int d, const int32_t *coord, int64_t *lo, int64_t *hi)
{
    *lo = 0;
    *hi = g->type->dim[d];
    for (int i = 0; i < g->ncut[d]; i++) {
        int a = g->cut[d][i];
        int64_t from, to;
        shard_range(*hi - *lo, g->layout->place->axis[a], coord[a], &from, &to);
        *hi = *lo + to;
        *lo += from;
    }
}

/* Product over the dimensions in `dims` of what both layouts have at these coordinates. */
static int64_t
overlap_at(const struct grid *from, const struct grid *to, uint32_t dims, const int32_t *coord)
{
    int64_t n = 1;
    for (int d = 0; d < from->type->ndim && n > 0; d++) {
        if (!(dims >> d & 1)) continue;
        int64_t lo, hi, lo2, hi2;
        range_at(from, d, coord, &lo, &hi);
        range_at(to, d, coord, &lo2, &hi2);
        n *= MAX(MIN(hi, hi2) - MAX(lo, lo2), 0);
    }
    return n;
}

/* Sum of overlap_at over all coordinates of the axes in the mask. */
static int64_t
overlap_sum(const struct grid *from, const struct grid *to, uint32_t dims, uint32_t axes)
{
    const struct place *p = from->layout->place;
    int32_t coord[MAX_AXIS] = {0};
    int64_t sum = 0;
    for (int a = 0; a >= 0;) {
        sum += overlap_at(from, to, dims, coord);
        for (a = p->naxis - 1; a >= 0; a--) {
            if (!(axes >> a & 1)) continue;
            if (++coord[a] < p->axis[a]) break;
            coord[a] = 0;
        }
    }
    return sum;
}

static uint32_t
axes_of(const struct grid *g, int d)
{
    uint32_t axes = 0;
    for (int i = 0; i < g->ncut[d]; i++) axes |= 1u << g->cut[d][i];
    return axes;
}

/* Elements that some position of one mesh holds under both layouts. */
static int64_t
volume_kept(const struct grid *from, const struct grid *to)
{
    int ndim = from->type->ndim;
    int64_t volume = 1;
    uint32_t done = 0;
    for (int first = 0; first < ndim; first++) {
        uint32_t dims = 1u << first, axes = axes_of(from, first) | axes_of(to, first), before = 0;
        if (done & dims) continue;
        while (before != dims) {
            before = dims;
            for (int d = 0; d < ndim; d++) {
                uint32_t its = axes_of(from, d) | axes_of(to, d);
                if (its & axes) dims |= 1u << d;
                if (its & axes) axes |= its;
            }
        }
        done |= dims;
        volume *= overlap_sum(from, to, dims, axes);
    }
    return volume;
}

/* Is this destination position the first of its cell whose device is a source of the cell? */
static bool
first_of_cell(const struct grid *from, const struct grid *to, int32_t src, int32_t pos)
{
    struct spot s = grid_spot(to, pos);
    for (s.addend = 0;; s.addend++) {
        for (s.replica = 0; s.replica < to->nreplica; s.replica++) {
            int32_t at = grid_pos(to, s), other = grid_other(to, from, at);
            if (other >= 0 && grid_spot(from, other).corner == src) return at == pos;
        }
    }
}

/* What the cells that ranks have on both sides save, over all ranks of two meshes; in bytes sent. */
static int64_t
saved_across(const struct grid *from, const struct grid *to)
{
    int64_t saved = 0, apart = deal_cost_apart(from, to);
    for (int32_t pos = 0; pos < to->layout->place->nrank; pos++) {
        int32_t other = grid_other(to, from, pos);
        if (other < 0) continue;
        struct box a, b, cell;
        layout_box(from->layout, from->type, other, &a);
        layout_box(to->layout, to->type, pos, &b);
        if (!box_intersect(&a, &b, from->type->ndim, &cell)) continue;
        int64_t numel = box_numel(&cell, from->type->ndim);
        int32_t src = grid_spot(from, other).corner, dst = grid_spot(to, pos).corner;
        if (from->naddend == 1 && to->naddend == 1)
            saved += numel * from->width;
        else if (first_of_cell(from, to, src, pos))
            saved += numel * (apart - deal_cost(from, to, src, dst));
    }
    return saved;
}

int64_t
box_bytes(const struct type *t, const struct layout *from, const struct layout *to)
{
    if (from == to) return 0;
    struct grid g = grid_of(from, t), h = grid_of(to, t);
    enum reduce a = grid_reduce(&g), b = grid_reduce(&h);
    if (a != RED_NONE && b != RED_NONE && a != b) return INT64_MAX;
    int64_t apart = deal_cost_apart(&g, &h), sent = type_numel(t) * apart;
    if (from->place == to->place)
        sent -= volume_kept(&g, &h) * (apart - deal_cost(&g, &h, 0, 0));
    else
        sent -= saved_across(&g, &h);
    return sent;
}
