/* deal.c - assigns the addends of a cell to groups of destination ranks, at the least cost (terms: deal.h).
 *
 * If all members of a group hold an addend, the addend is assigned to that group, without a transmission. For the
 * remaining addends there are two ways, and the one that sends less is chosen. Either one group gets all of them and
 * forms a single sum, or each addend is assigned to the group with the most holders of it. If a group gets several
 * addends, it sums them, which sends no more.
 *
 * If groups have a single member, each remaining addend costs one transmission wherever it is sent. In this case,
 * the addend is assigned to the group of a rank that holds it. So ranks share the work as in a reduce-scatter. */
#include "boxing/deal.h"

#include <string.h>

/* Returns the group of ranks with one value, in the destination tile, to which the device at a source position
 * belongs; -1: none. */
static int32_t
source_group(const struct grid *from, const struct grid *to, int32_t dst, int32_t source_pos)
{
    int32_t pos = grid_other(from, to, source_pos);
    if (pos < 0) return -1;
    struct spot s = grid_spot(to, pos);
    return s.corner == dst ? s.addend : -1;
}

/* Returns the addend of the cell that the device at a destination position holds; -1: none. */
static int32_t
addend_of(const struct grid *from, const struct grid *to, int32_t src, int32_t dest_pos)
{
    int32_t pos = grid_other(to, from, dest_pos);
    if (pos < 0) return -1;
    struct spot s = grid_spot(from, pos);
    return s.corner == src ? s.addend : -1;
}

struct best {
    /* group: the group with the most members that hold the addend; -1: no member of any group holds it. held: number
     * of members of `group` that hold it */
    int32_t group, held;
};

/* Returns the group with the most members that hold the addend. If several groups have equally many, returns the
 * first of them, counted cyclically from group `turn`. Counts the members of WINDOW groups at a time, to avoid an
 * allocation. */
static struct best
best_group(const struct grid *from, const struct grid *to, int32_t src, int32_t dst, int32_t addend, int32_t turn)
{
    enum { WINDOW = 64 };
    struct best best = {-1, 0};
    int32_t q = to->naddend;
    for (int32_t first = 0; first < q; first += WINDOW) {
        int32_t held[WINDOW] = {0};
        for (int32_t k = 0; k < from->nreplica; k++) {
            int32_t group = source_group(from, to, dst, grid_pos(from, (struct spot){src, addend, k}));
            if (group < 0) continue;
            int32_t at = (group + q - turn % q) % q - first;
            if (at < 0 || at >= WINDOW) continue;
            if (++held[at] == to->nreplica) return (struct best){group, to->nreplica};
        }
        for (int32_t at = 0; at < MIN(WINDOW, q - first); at++)
            if (held[at] > best.held) best = (struct best){(first + at + turn) % q, held[at]};
    }
    return best;
}

/* Returns true if some position holds the cell before and after the move. Both layouts must be on one mesh. */
static bool
cell_is_held(const struct grid *from, const struct grid *to, int32_t src, int32_t dst)
{
    const struct place *p = from->layout->place;
    for (int a = 0; a < p->naxis; a++) {
        if (from->layout->sbp[a].kind != SBP_S || to->layout->sbp[a].kind != SBP_S) continue;
        if (src / from->stride[a] % p->axis[a] != dst / to->stride[a] % p->axis[a]) return false;
    }
    return true;
}

/* Returns true if a member of the group holds an addend. */
static bool
group_touches(const struct grid *from, const struct grid *to, int32_t src, int32_t dst, int32_t group)
{
    if (from->layout->place == to->layout->place) return cell_is_held(from, to, src, dst);
    for (int32_t k = 0; k < to->nreplica; k++)
        if (addend_of(from, to, src, grid_pos(to, (struct spot){dst, group, k})) >= 0) return true;
    return false;
}

/* The addends of a cell that no group holds completely, that is, in all its members. */
struct rest {
    int32_t n;
    /* number of transmissions if each of these addends is assigned to the group with the most holders */
    int64_t missing;
    /* true: some group member holds one of these addends, so it can reduce the sum without receiving it */
    bool held;
};

/* Computes the same as rest_of_grid(), if source and destination have one mesh. On an axis that changes from P to S,
 * each rank that needs the cell holds one of the addends. On an axis that is B before and after, every member of a
 * group holds the addend. On an axis that is B only afterwards, one member of the group holds it. */
static struct rest
rest_within(const struct grid *from, const struct grid *to, int32_t src, int32_t dst)
{
    const struct layout *l = from->layout, *m = to->layout;
    int32_t near = cell_is_held(from, to, src, dst), members = 1;
    for (int a = 0; a < l->place->naxis; a++) {
        if (l->sbp[a].kind == SBP_P && m->sbp[a].kind != SBP_S) near *= l->place->axis[a];
        if (l->sbp[a].kind == SBP_B && m->sbp[a].kind == SBP_B) members *= l->place->axis[a];
    }
    int32_t far = from->naddend - near;
    if (members == to->nreplica) near = 0; /* all members of some group hold these addends, so none of them remains */
    return (struct rest){far + near, (int64_t)far * to->nreplica + (int64_t)near * (to->nreplica - members), near > 0};
}

static struct rest
rest_of_grid(const struct grid *from, const struct grid *to, int32_t src, int32_t dst)
{
    struct rest r = {0, 0, false};
    if (from->layout->place == to->layout->place) return rest_within(from, to, src, dst);
    for (int32_t i = 0; i < from->naddend; i++) {
        struct best b = best_group(from, to, src, dst, i, 0);
        if (b.held == to->nreplica) continue;
        r.n++;
        r.missing += to->nreplica - b.held;
        r.held |= b.held > 0;
    }
    return r;
}

static int64_t
sum_cost(const struct grid *from, const struct grid *to, int64_t addends, bool held)
{
    return (addends - 1) * from->width + (to->nreplica - held) * to->width;
}

int64_t
deal_cost_apart(const struct grid *from, const struct grid *to)
{
    return from->naddend > 1 ? sum_cost(from, to, from->naddend, false) : to->nreplica * from->width;
}

int64_t
deal_cost(const struct grid *from, const struct grid *to, int32_t src, int32_t dst)
{
    if (to->naddend == 1 && from->naddend > 1)
        return sum_cost(from, to, from->naddend, group_touches(from, to, src, dst, 0));
    struct rest r = rest_of_grid(from, to, src, dst);
    int64_t apart = r.missing * from->width;
    return r.n > 1 ? MIN(apart, sum_cost(from, to, r.n, r.held)) : apart;
}

void
deal_init(struct deal *d, struct arena *a, const struct grid *from, const struct grid *to)
{
    *d = (struct deal){.from = from, .to = to, .src = -1, .owned = -1};
    d->ntile = from->layout->place->nrank / from->naddend / from->nreplica;
    d->apart = to->naddend > 1 && grid_apart(from, to);
    d->give = ARENA_ARRAY(a, int32_t, from->naddend);
    d->ntaken = ARENA_ARRAY(a, int32_t, to->naddend);
    d->owner = ARENA_ARRAY(a, int32_t, MAX(to->nreplica, from->naddend * from->nreplica));
    if (to->naddend == 1) d->ntaken[0] = from->naddend;
}

static void
assign_group(struct deal *d, int32_t addend, int32_t group)
{
    d->give[addend] = group;
    d->ntaken[group]++;
}

/* Returns the first group without an addend, counted cyclically from group `turn`. If every group has addends,
 * returns group `turn`. */
static int32_t
free_group(const struct deal *d, int32_t turn)
{
    int32_t n = d->to->naddend;
    for (int32_t k = 0; k < n; k++)
        if (d->ntaken[(turn + k) % n] == 0) return (turn + k) % n;
    return turn % n;
}

/* Returns a group for an addend that no member of the cell's groups holds: the group number of a rank that holds the
 * addend for another tile. If that rank is in no group, returns a group without addends. nth: index of the addend
 * among the addends to assign. */
static int32_t
own_group(const struct deal *d, int32_t addend, int32_t nth)
{
    struct spot holder = {d->src, addend, nth % d->from->nreplica};
    int32_t pos = grid_other(d->from, d->to, grid_pos(d->from, holder));
    return pos < 0 ? free_group(d, d->turn + nth) : (grid_spot(d->to, pos).addend + d->turn) % d->to->naddend;
}

/* If all members of a group hold an addend, assigns the addend to that group. Marks the other addends with -1. */
static void
keep_whole_addends(struct deal *d)
{
    for (int32_t i = 0; i < d->from->naddend; i++) {
        struct best b = best_group(d->from, d->to, d->src, d->dst, i, d->turn);
        d->give[i] = -1;
        if (b.held == d->to->nreplica) assign_group(d, i, b.group);
    }
}

/* Assigns each addend that has no group yet. The first rule that applies decides:
 * 1. If members of groups hold the addend, the group with the most holders.
 * 2. If groups have one member, own_group(): the group, in another destination tile, of a rank that holds the
 * addend.
 * 3. A group without addends. */
static void
give_apart(struct deal *d)
{
    int32_t nth = d->from->naddend > 1 ? 0 : grid_tile(d->from, d->src);
    for (int32_t i = 0; i < d->from->naddend; i++) {
        if (d->give[i] >= 0) continue;
        struct best b = best_group(d->from, d->to, d->src, d->dst, i, d->turn);
        if (b.held > 0)
            assign_group(d, i, b.group);
        else
            assign_group(d, i, d->to->nreplica == 1 ? own_group(d, i, nth) : free_group(d, d->turn + nth));
        nth++;
    }
}

/* Assigns all addends that have no group yet to one group: to the next group in round-robin order that holds one of
 * them or, if no group does, to a group without addends. */
static void
give_sum(struct deal *d)
{
    int32_t n = d->from->naddend, q = d->to->naddend, group = -1, nearest = q;
    int32_t turn = d->turn + grid_tile(d->from, d->src) + grid_tile(d->to, d->dst);
    for (int32_t i = 0; i < n; i++) {
        if (d->give[i] >= 0) continue;
        struct best b = best_group(d->from, d->to, d->src, d->dst, i, turn);
        int32_t distance = (b.group + q - turn % q) % q;
        if (b.held == 0 || distance >= nearest) continue;
        group = b.group;
        nearest = distance;
    }
    if (group < 0) group = free_group(d, turn);
    for (int32_t i = 0; i < n; i++)
        if (d->give[i] < 0) assign_group(d, i, group);
}

/* Returns the number of shares (slices) into which a cell is divided, so that groups alternate in receiving addends.
 * One share suffices if nothing is sent, if every group gets as many of the sent addends, or if the source tiles
 * already alternate between groups. */
int32_t
deal_shares(const struct deal *d, int32_t src, int32_t dst)
{
    enum { MOST = 16 };
    const struct grid *from = d->from, *to = d->to;
    if (to->naddend == 1) return 1;
    struct rest r = rest_of_grid(from, to, src, dst);
    bool even = to->nreplica == 1 && r.n % to->naddend == 0;
    bool turns = from->naddend == 1 && d->apart && d->ntile % to->naddend == 0;
    return r.n == 0 || even || turns ? 1 : MIN(to->naddend, MOST);
}

void
deal_cell(struct deal *d, int32_t src, int32_t dst, int32_t turn)
{
    if (d->src == src && d->dst == dst && d->turn == turn) return;
    d->src = src;
    d->dst = dst;
    d->turn = turn;
    d->owned = -1;
    if (d->to->naddend == 1) return; /* the only group gets all addends */
    memset(d->ntaken, 0, sizeof *d->ntaken * (size_t)d->to->naddend);
    keep_whole_addends(d);
    struct rest r = rest_of_grid(d->from, d->to, src, dst);
    if (r.n <= 1 || r.missing * d->from->width <= sum_cost(d->from, d->to, r.n, r.held))
        give_apart(d);
    else
        give_sum(d);
}

/* Selects the owners, which reduce a group's sum: the members that hold an addend of the sum, each for one share
 * (slice of the cell). If no member holds an addend, selects the holders of the addends. */
void
deal_owners(struct deal *d, int32_t group)
{
    const struct grid *from = d->from, *to = d->to;
    if (d->owned == group) return;
    d->owned = group;
    d->nowner = 0;
    for (int32_t k = 0; k < to->nreplica; k++) {
        int32_t pos = grid_pos(to, (struct spot){d->dst, group, k}), addend = addend_of(from, to, d->src, pos);
        if (addend >= 0 && d->give[addend] == group) d->owner[d->nowner++] = grid_other(to, from, pos);
    }
    bool alike = d->ntaken[group] == 2 && from->width == to->width;
    d->direct = d->nowner == to->nreplica && (d->nowner == 1 || alike);
    if (d->nowner > 0) return;
    for (int32_t i = 0; i < from->naddend; i++)
        for (int32_t k = 0; d->give[i] == group && k < from->nreplica; k++)
            d->owner[d->nowner++] = grid_pos(from, (struct spot){d->src, i, k});
}

bool
deal_share(const struct box *cell, int ndim, int32_t n, int32_t k, struct box *share)
{
    int best = -1;
    double best_share = 1;
    for (int d = 0; d < ndim; d++) {
        int64_t size = cell->hi[d] - cell->lo[d];
        double most = (double)((size + n - 1) / n) / (double)size;
        if (most < best_share) {
            best = d;
            best_share = most;
        }
    }
    *share = *cell;
    if (best < 0) return k == 0;
    int64_t lo, hi;
    shard_range(cell->hi[best] - cell->lo[best], 0, n, k, &lo, &hi);
    share->lo[best] = cell->lo[best] + lo;
    share->hi[best] = cell->lo[best] + hi;
    return lo < hi;
}

int32_t
deal_replica(const struct grid *from, int32_t reader, int32_t turn)
{
    return reader < 0 ? turn % from->nreplica : grid_spot(from, reader).replica;
}

int32_t
deal_source(const struct deal *d, int32_t replica, int32_t addend)
{
    return grid_pos(d->from, (struct spot){d->src, addend, replica});
}
