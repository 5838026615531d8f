/* relay.c - computes segments (legs), shares and chunks of a hierarchical reduction. */
#include "boxing/relay.h"

#include "boxing/deal.h"

#include <string.h>

/* Returns the number of owners in a segment: ranks that reduce a share of a cell. */
static int32_t
leg_size(const struct relay *r, int32_t leg)
{
    return (r->how->first[leg + 1] - r->how->first[leg]) * r->from->nreplica;
}

struct relay
relay_of(const struct grid *from, const struct box_relay *how)
{
    struct relay r = {.from = from, .how = how, .bare = how->first[1] == 1};
    assert(how->nleg > 1 && how->nchunk > 0 && how->first[0] == 0 && how->first[how->nleg] == from->naddend);
    for (int32_t leg = 0; leg < how->nleg; leg++) r.nshare = MAX(r.nshare, leg_size(&r, leg));
    return r;
}

int32_t
relay_segment(const struct relay *r, int32_t addend)
{
    int32_t lo = 0, hi = r->how->nleg;
    while (hi - lo > 1) {
        int32_t mid = lo + (hi - lo) / 2;
        if (r->how->first[mid] <= addend)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int32_t
relay_owner(const struct relay *r, int32_t corner, int32_t leg, int32_t share)
{
    int32_t nth = share % leg_size(r, leg), n = r->from->nreplica;
    return grid_pos(r->from, (struct spot){corner, r->how->first[leg] + nth / n, nth % n});
}

int32_t
relay_first(const struct relay *r, struct spot at, int32_t *step)
{
    int32_t leg = relay_segment(r, at.addend);
    *step = leg_size(r, leg);
    return (at.addend - r->how->first[leg]) * r->from->nreplica + at.replica;
}

bool
relay_piece(const struct relay *r, const struct box *cell, int32_t share, int32_t chunk, struct box *piece)
{
    int32_t n = r->how->nchunk;
    return deal_share(cell, r->from->type->ndim, r->nshare * n, share * n + chunk, piece);
}

static int32_t
owner_number(const struct relay *r, int32_t turn, int32_t pos, int32_t chunk)
{
    return (turn * r->how->nchunk + chunk) * r->from->layout->place->nrank + pos;
}

int32_t
relay_stage(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk)
{
    return owner_number(r, leg, pos, chunk);
}

int32_t
relay_back(const struct relay *r, int32_t leg, int32_t pos, int32_t chunk)
{
    return owner_number(r, 2 * (r->how->nleg - 1) - leg, pos, chunk);
}

bool
relay_may_go_back(const struct layout *from, const struct layout *to)
{
    if (from->place != to->place || memcmp(from->order, to->order, sizeof *from->order * from->place->naxis))
        return false;
    for (int a = 0; a < from->place->naxis; a++) {
        struct sbp x = from->sbp[a], y = to->sbp[a];
        bool same = x.kind == y.kind && x.axis == y.axis && x.unit == y.unit;
        if (x.kind == SBP_P ? y.kind != SBP_B : !same) return false;
    }
    return true;
}
