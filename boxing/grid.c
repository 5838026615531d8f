/* grid.c - computes coordinates of mesh positions, and iterates over the tiles that intersect a box. */
#include "boxing/grid.h"
#include "runtime/tensor/atlas.h"

struct grid
grid_of(const struct layout *l, const struct type *t)
{
    const struct place *p = l->place;
    struct grid g = {.layout = l, .type = t, .naddend = 1, .nreplica = 1};
    int32_t stride = 1;
    for (int a = p->naxis - 1; a >= 0; a--) {
        g.stride[a] = stride;
        stride *= p->axis[a];
        if (l->sbp[a].kind == SBP_P) g.naddend *= p->axis[a];
        if (l->sbp[a].kind == SBP_B) g.nreplica *= p->axis[a];
    }
    for (int i = 0; i < p->naxis; i++) {
        int a = l->order[i], d = l->sbp[a].axis;
        if (l->sbp[a].kind == SBP_S) g.cut[d][g.ncut[d]++] = (uint8_t)a;
    }
    g.width = (int64_t)dtype_bytes(layout_dtype(l, (enum dtype)t->dtype));
    return g;
}

struct spot
grid_spot(const struct grid *g, int32_t pos)
{
    const struct place *p = g->layout->place;
    struct spot s = {0, 0, 0};
    for (int a = 0; a < p->naxis; a++) {
        int32_t c = pos / g->stride[a] % p->axis[a];
        switch (g->layout->sbp[a].kind) {
        case SBP_S: s.corner += c * g->stride[a]; break;
        case SBP_P: s.addend = s.addend * p->axis[a] + c; break;
        case SBP_B: s.replica = s.replica * p->axis[a] + c; break;
        }
    }
    return s;
}

int32_t
grid_pos(const struct grid *g, struct spot s)
{
    const struct place *p = g->layout->place;
    int32_t pos = s.corner;
    for (int a = p->naxis - 1; a >= 0; a--) {
        if (g->layout->sbp[a].kind == SBP_S) continue;
        int32_t *digits = g->layout->sbp[a].kind == SBP_P ? &s.addend : &s.replica;
        pos += *digits % p->axis[a] * g->stride[a];
        *digits /= p->axis[a];
    }
    return pos;
}

int32_t
grid_other(const struct grid *of, const struct grid *in, int32_t pos)
{
    const struct place *p = of->layout->place, *q = in->layout->place;
    if (p == q) return pos;
    return p->kind == q->kind ? place_find(q, p->rank[pos]) : -1;
}

static int32_t
least_rank(const struct place *p)
{
    return p->rank[p->by_rank[0]];
}

static int32_t
greatest_rank(const struct place *p)
{
    return p->rank[p->by_rank[p->nrank - 1]];
}

bool
grid_apart(const struct grid *g, const struct grid *h)
{
    const struct place *p = g->layout->place, *q = h->layout->place;
    if (p == q) return false;
    if (p->kind != q->kind) return true;
    if (greatest_rank(p) < least_rank(q) || greatest_rank(q) < least_rank(p)) return true;
    for (int32_t pos = 0; pos < q->nrank; pos++)
        if (place_find(p, q->rank[pos]) >= 0) return false;
    return true;
}

int32_t
grid_rank(const struct grid *g, int32_t pos)
{
    return g->layout->place->rank[pos];
}

int32_t
grid_tile(const struct grid *g, int32_t corner)
{
    const struct place *p = g->layout->place;
    int32_t tile = 0;
    for (int a = 0; a < p->naxis; a++)
        if (g->layout->sbp[a].kind == SBP_S) tile = tile * p->axis[a] + corner / g->stride[a] % p->axis[a];
    return tile;
}

enum reduce
grid_reduce(const struct grid *g)
{
    for (int a = 0; a < g->layout->place->naxis; a++)
        if (g->layout->sbp[a].kind == SBP_P && g->layout->place->axis[a] > 1) return g->layout->sbp[a].reduce;
    return RED_NONE;
}

int32_t
grid_part(int64_t n, int32_t unit, int64_t parts, int64_t k)
{
    int64_t block = shard_unit(n, unit), size = n / block / parts, longer = n / block % parts;
    int64_t head = longer * (size + 1), at = k / block;
    return (int32_t)(at < head ? at / (size + 1) : longer + (at - head) / size);
}

/* Moves the iteration over tiles (walk) along dimension d to the tile that contains element k. */
static void
walk_seek(struct cell_walk *w, int d, int64_t k)
{
    const struct grid *g = w->g;
    int64_t lo = 0, hi = g->type->dim[d];
    int32_t corner = 0;
    for (int i = 0; i < g->ncut[d]; i++) {
        int a = g->cut[d][i];
        int32_t unit = g->layout->sbp[a].unit, parts = g->layout->place->axis[a];
        int32_t part = grid_part(hi - lo, unit, parts, k - lo);
        int64_t from, to;
        shard_range(hi - lo, unit, parts, part, &from, &to);
        hi = lo + to;
        lo += from;
        corner += part * g->stride[a];
    }
    w->corner += corner - w->part[d];
    w->part[d] = corner;
    w->box.lo[d] = k;
    w->box.hi[d] = MIN(hi, w->within.hi[d]);
}

bool
cell_begin(struct cell_walk *w, const struct grid *g, const struct box *within)
{
    *w = (struct cell_walk){.g = g, .within = *within};
    for (int d = 0; d < g->type->ndim; d++) {
        if (within->lo[d] >= within->hi[d]) return false;
        walk_seek(w, d, within->lo[d]);
    }
    return true;
}

bool
cell_next(struct cell_walk *w)
{
    for (int d = w->g->type->ndim - 1; d >= 0; d--) {
        bool more = w->box.hi[d] < w->within.hi[d];
        walk_seek(w, d, more ? w->box.hi[d] : w->within.lo[d]);
        if (more) return true;
    }
    return false;
}
