/* bytes.c - computes the bytes of a move in closed form, without planning it.
 *
 * A cell is the intersection of a source tile and a destination tile (deal.h). If no rank that needs a cell holds an
 * addend of it before the move, each element costs addends + members - 1 transmissions; members are the ranks that
 * need it. A cell that some rank holds both before and after the move costs less. On one mesh, all such cells have
 * the same cost, and kept.c computes their volume. Between two meshes, all ranks with such cells are visited, and
 * each cell is counted at its first rank. */
#include "boxing/bytes.h"
#include "boxing/box.h"
#include "boxing/deal.h"
#include "boxing/kept.h"

#include <limits.h>

/* Returns true if `pos` is the first position in its destination tile whose device also holds the source tile with
 * corner `src`. The cell, the intersection of both tiles, is counted only there, although several devices may hold
 * it. */
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

/* Returns the bytes that a move between two meshes saves in cells that a rank holds both before and after the
 * move. */
static int64_t
saved_across(const struct grid *from, const struct grid *to)
{
    int64_t saved = 0, apart = deal_cost_apart(from, to);
    if (grid_apart(from, to)) return 0;
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
    return box_bytes_known(t, from, to, NULL);
}

int64_t
box_bytes_known(const struct type *t, const struct layout *from, const struct layout *to, struct hash_table *known)
{
    if (from == to) return 0;
    struct grid g = grid_of(from, t), h = grid_of(to, t);
    enum reduce a = grid_reduce(&g), b = grid_reduce(&h);
    if (a != RED_NONE && b != RED_NONE && a != b) return INT64_MAX;
    int64_t apart = deal_cost_apart(&g, &h), sent = type_numel(t) * apart;
    if (from->place == to->place)
        sent -= kept_volume(&g, &h, known) * (apart - deal_cost(&g, &h, 0, 0));
    else
        sent -= saved_across(&g, &h);
    return sent;
}

/* Returns true if the move changes only the layout's name. Without partial values this is so if two conditions hold.
 * No bytes are sent, so each rank already has its shard. There are as many replicas as before, so no rank holds more
 * than its shard. */
bool
box_renames(const struct type *t, const struct layout *from, const struct layout *to, int64_t bytes)
{
    if (from == to) return true;
    if (bytes != 0 || layout_partial(from) != RED_NONE || layout_partial(to) != RED_NONE) return false;
    if (from->place != to->place) return layout_same_boxes(from, to, t);
    return type_numel(t) == 0 || grid_of(from, t).nreplica == grid_of(to, t).nreplica;
}
