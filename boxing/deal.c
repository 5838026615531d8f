/* deal.c - gives the addends of a cell to the groups that want them, at the least cost.
 *
 * An addend that some group holds in full stays there for nothing. Of the rest
 * either all go into one sum, or each goes to the group that has most of it
 * already, whichever sends less; when the second wins, no two addends want the
 * same group (two would leave at least as much missing as the sum sends). */
#include "boxing/deal.h"

#include <string.h>

/* The group of the destination tile that a source position's device belongs to, -1 if to none. */
static int32_t
group_of(const struct grid *from, const struct grid *to, int32_t dst, int32_t source_pos)
{
    int32_t pos = grid_other(from, to, source_pos);
    if (pos < 0) return -1;
    struct spot s = grid_spot(to, pos);
    return s.corner == dst ? s.addend : -1;
}

/* Is this destination position's device a source of the cell, and with which addend? -1: no. */
static int32_t
addend_of(const struct grid *from, const struct grid *to, int32_t src, int32_t dest_pos)
{
    int32_t pos = grid_other(to, from, dest_pos);
    if (pos < 0) return -1;
    struct spot s = grid_spot(from, pos);
    return s.corner == src ? s.addend : -1;
}

struct best {
    int32_t group, held; /* the group with most members that hold the addend, and how many; -1, 0: none */
};

static struct best
best_group(const struct grid *from, const struct grid *to, int32_t src, int32_t dst, int32_t addend)
{
    struct best best = {-1, 0};
    for (int32_t k = 0; k < from->nreplica && best.held < to->nreplica; k++) {
        int32_t group = group_of(from, to, dst, grid_pos(from, (struct spot){src, addend, k}));
        int32_t held = 1;
        if (group < 0) continue;
        for (int32_t m = k + 1; m < from->nreplica && held < to->nreplica; m++)
            held += group_of(from, to, dst, grid_pos(from, (struct spot){src, addend, m})) == group;
        if (held > best.held) best = (struct best){group, held};
    }
    return best;
}

/* Does any destination of a group hold any addend? */
static bool
group_touches(const struct grid *from, const struct grid *to, int32_t src, int32_t dst, int32_t group)
{
    for (int32_t k = 0; k < to->nreplica; k++)
        if (addend_of(from, to, src, grid_pos(to, (struct spot){dst, group, k})) >= 0) return true;
    return false;
}

/* What the addends that no group has in full would cost. */
struct rest {
    int32_t n;
    int64_t missing; /* sent when each goes where most of it is */
    bool held;       /* somebody who may want one holds one */
};

static struct rest
rest_of(const struct grid *from, const struct grid *to, int32_t src, int32_t dst)
{
    struct rest r = {0, 0, false};
    for (int32_t i = 0; i < from->naddend; i++) {
        struct best b = best_group(from, to, src, dst, i);
        if (b.held == to->nreplica) continue;
        r.n++;
        r.missing += to->nreplica - b.held;
        r.held |= b.held > 0;
    }
    return r;
}

static int64_t
sum_cost(int64_t addends, int64_t members, bool held)
{
    return addends + members - 2 + !held;
}

int64_t
deal_cost_apart(const struct grid *from, const struct grid *to)
{
    return sum_cost(from->naddend, to->nreplica, false);
}

int64_t
deal_cost(const struct grid *from, const struct grid *to, int32_t src, int32_t dst)
{
    if (to->naddend == 1 && from->naddend > 1)
        return sum_cost(from->naddend, to->nreplica, group_touches(from, to, src, dst, 0));
    struct rest r = rest_of(from, to, src, dst);
    return r.n > 1 ? MIN(r.missing, sum_cost(r.n, to->nreplica, r.held)) : r.missing;
}

void
deal_init(struct deal *d, struct arena *a, const struct grid *from, const struct grid *to)
{
    *d = (struct deal){.from = from, .to = to};
    d->take = ARENA_ARRAY(a, int32_t, to->naddend);
    d->summed = ARENA_ARRAY(a, bool, from->naddend);
    d->owner = ARENA_ARRAY(a, int32_t, from->layout->place->nrank);
}

/* The first group at or after `start` that has taken nothing, -1 if there is none. */
static int32_t
free_group(const struct deal *d, int32_t start)
{
    for (int32_t k = 0; k < d->to->naddend; k++) {
        int32_t group = (start + k) % d->to->naddend;
        if (d->take[group] == TAKE_NOTHING) return group;
    }
    return -1;
}

/* Marks what no group has in full (summed), gives the others their group. */
static void
keep_whole_addends(struct deal *d)
{
    for (int32_t i = 0; i < d->from->naddend; i++) {
        struct best b = best_group(d->from, d->to, d->src, d->dst, i);
        d->summed[i] = b.held < d->to->nreplica;
        d->nsummed += d->summed[i];
        if (!d->summed[i]) d->take[b.group] = i;
    }
}

/* Each of the rest to a group of its own; false (and nothing done) when there are not enough groups for it. */
static bool
give_apart(struct deal *d, bool held)
{
    for (int32_t i = 0; i < d->from->naddend; i++) {
        if (!d->summed[i]) continue;
        struct best b = held ? best_group(d->from, d->to, d->src, d->dst, i) : (struct best){-1, 0};
        int32_t turn = d->from->naddend > 1 ? i : grid_tile(d->from, d->src);
        int32_t group = b.held > 0 ? b.group : free_group(d, turn % d->to->naddend);
        if (group < 0 || d->take[group] != TAKE_NOTHING) goto undo;
        d->take[group] = i;
    }
    memset(d->summed, 0, sizeof *d->summed * (size_t)d->from->naddend);
    d->nsummed = 0;
    return true;
undo:
    for (int32_t j = 0; j < d->to->naddend; j++)
        if (d->take[j] >= 0 && d->summed[d->take[j]]) d->take[j] = TAKE_NOTHING;
    return false;
}

/* The rest into one sum: for a group that holds some of it, else any; cells take turns. */
static void
give_sum(struct deal *d)
{
    int32_t turn = grid_tile(d->from, d->src) + grid_tile(d->to, d->dst), group = -1;
    for (int32_t k = 0; k < d->from->naddend && group < 0; k++) {
        int32_t i = (turn + k) % d->from->naddend;
        if (d->summed[i]) group = best_group(d->from, d->to, d->src, d->dst, i).group;
    }
    if (group < 0) group = free_group(d, turn % d->to->naddend);
    if (group < 0) group = turn % d->to->naddend;
    int32_t joined = d->take[group];
    if (joined >= 0) {
        d->summed[joined] = true;
        d->nsummed++;
    }
    d->take[group] = TAKE_SUM;
    d->sum_group = group;
}

static void
deal_to_groups(struct deal *d)
{
    keep_whole_addends(d);
    struct rest r = rest_of(d->from, d->to, d->src, d->dst);
    bool apart = r.n == 1 || r.missing <= sum_cost(r.n, d->to->nreplica, r.held);
    if (r.n > 0 && !(apart && give_apart(d, r.held))) give_sum(d);
}

/* Members of the sum's group who hold an addend of it reduce a share each; without any, all holders do. */
static void
choose_owners(struct deal *d)
{
    d->nowner = 0;
    for (int32_t k = 0; k < d->to->nreplica; k++) {
        int32_t pos = grid_pos(d->to, (struct spot){d->dst, d->sum_group, k});
        int32_t addend = addend_of(d->from, d->to, d->src, pos);
        if (addend >= 0 && d->summed[addend]) d->owner[d->nowner++] = grid_other(d->to, d->from, pos);
    }
    bool all = d->nowner == d->to->nreplica;
    d->direct = all && (d->nowner == 1 || d->nsummed == 2);
    if (d->nowner > 0) return;
    for (int32_t i = 0; i < d->from->naddend; i++)
        for (int32_t k = 0; d->summed[i] && k < d->from->nreplica; k++)
            d->owner[d->nowner++] = grid_pos(d->from, (struct spot){d->src, i, k});
}

void
deal_cell(struct deal *d, int32_t src, int32_t dst)
{
    d->src = src;
    d->dst = dst;
    d->nsummed = 0;
    d->direct = false;
    for (int32_t j = 0; j < d->to->naddend; j++)
        d->take[j] = TAKE_NOTHING;
    if (d->to->naddend > 1) {
        deal_to_groups(d);
    } else if (d->from->naddend == 1) {
        d->take[0] = 0;
    } else {
        d->nsummed = d->from->naddend;
        memset(d->summed, true, sizeof *d->summed * (size_t)d->nsummed);
        d->take[0] = TAKE_SUM;
        d->sum_group = 0;
    }
    if (d->nsummed > 0) choose_owners(d);
}

int32_t
deal_source(const struct deal *d, int32_t reader, int32_t turn, int32_t addend)
{
    int32_t replica = reader < 0 ? turn % d->from->nreplica : grid_spot(d->from, reader).replica;
    return grid_pos(d->from, (struct spot){d->src, addend, replica});
}
