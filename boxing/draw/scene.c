/* scene.c - prepares a picture of a layout: selects the dimensions and cuts to draw, finds the holders of tiles, and
 * makes labels. */
#include "boxing/draw/scene.h"
#include "boxing/bytes.h"
#include "boxing/name.h"
#include "boxing/plan.h"

#include "runtime/base/error.h"

#include <string.h>

enum { PLAN_RANKS = 256 };

struct shown
shown_of(int n, int most)
{
    struct shown s = {.n = MIN(n, most)};
    assert(most >= 3 && most <= SHOWN);
    for (int i = 0; i < s.n; i++) s.index[i] = i;
    if (n <= most) return s;
    s.index[most - 2] = -1;
    s.index[most - 1] = n - 1;
    return s;
}

static struct parts
dim_parts(struct arena *a, const struct grid *g, int dim)
{
    const struct type *t = g->type;
    struct parts p = {.at = ARENA_ARRAY(a, int64_t, 2)};
    if (dim < 0) {
        p.n = 1;
        p.at[1] = 1;
        return p;
    }
    struct cell_walk w;
    struct box line = {{0}, {0}};
    p.at = ARENA_ARRAY(a, int64_t, MIN(g->layout->place->nrank, t->dim[dim]) + 1);
    for (int d = 0; d < t->ndim; d++) line.hi[d] = d == dim ? t->dim[d] : 1;
    for (bool more = cell_begin(&w, g, &line); more; more = cell_next(&w)) p.at[++p.n] = w.box.hi[dim];
    return p;
}

static bool
is_cut(const struct layout *l, int dim)
{
    for (int a = 0; l && a < l->place->naxis; a++)
        if (l->sbp[a].kind == SBP_S && l->sbp[a].axis == dim && l->place->axis[a] > 1) return true;
    return false;
}

/* Selects two dimensions to draw: the first two that are split. If fewer are split, adds the last dimensions. */
static void
choose_dims(struct scene *s, const struct type *t, const struct layout *l, const struct layout *other)
{
    int chosen[2] = {-1, -1}, n = 0;
    for (int d = 0; d < t->ndim && n < 2; d++)
        if (is_cut(l, d) || is_cut(other, d)) chosen[n++] = d;
    for (int d = t->ndim - 1; d >= 0 && n < 2; d--)
        if (chosen[0] != d) chosen[n++] = d;
    s->row = n == 2 ? MIN(chosen[0], chosen[1]) : -1;
    s->col = n == 2 ? MAX(chosen[0], chosen[1]) : chosen[0];
}

void
scene_of(struct scene *s, struct arena *a, const struct type *t, const struct layout *l, const struct layout *other)
{
    *s = (struct scene){.grid = grid_of(l, t), .row = -1, .col = -1, .npage = 1, .empty = type_numel(t) == 0};
    s->between = layout_partial(l) == RED_SUM ? "+" : reduce_text(layout_partial(l));
    if (s->empty) return;
    choose_dims(s, t, l, other);
    s->rows = dim_parts(a, &s->grid, s->row);
    s->cols = dim_parts(a, &s->grid, s->col);
    for (int d = 0; d < t->ndim; d++) {
        if (d == s->row || d == s->col || !is_cut(l, d)) continue;
        s->page_dim[s->npage_dim] = d;
        s->page[s->npage_dim] = dim_parts(a, &s->grid, d);
        s->npage *= s->page[s->npage_dim++].n;
    }
}

/* Returns which part of a dimension a page shows. k: index of the dimension among those drawn as pages. */
static int
page_part(const struct scene *s, int page, int k)
{
    for (int i = s->npage_dim - 1; i > k; i--) page /= s->page[i].n;
    return page % s->page[k].n;
}

int32_t
scene_pos(const struct scene *s, int page, int row, int col, int addend, int replica)
{
    struct box point = {{0}, {0}};
    struct cell_walk w;
    if (s->row >= 0) point.lo[s->row] = s->rows.at[row];
    if (s->col >= 0) point.lo[s->col] = s->cols.at[col];
    for (int k = 0; k < s->npage_dim; k++) point.lo[s->page_dim[k]] = s->page[k].at[page_part(s, page, k)];
    for (int d = 0; d < s->grid.type->ndim; d++) point.hi[d] = point.lo[d] + 1;
    bool found = cell_begin(&w, &s->grid, &point);
    assert(found);
    return grid_pos(&s->grid, (struct spot){w.corner, addend, replica});
}

const struct box_work *
scene_work(const struct scene *s, int32_t pos)
{
    if (!s->plan || s->plan->alias) return NULL;
    assert(s->plan->part[pos].pos == pos);
    return &s->plan->part[pos];
}

void
scene_within(const struct parts *p, int i, const struct box *slice, int dim, double *from, double *to)
{
    double size = (double)(p->at[i + 1] - p->at[i]);
    *from = dim < 0 ? 0 : (double)(slice->lo[dim] - p->at[i]) / size;
    *to = dim < 0 ? 1 : (double)(slice->hi[dim] - p->at[i]) / size;
}

void
scene_slice_text(const struct scene *s, const struct box *slice, struct str *out)
{
    const struct type *t = s->grid.type;
    str_add(out, "[");
    for (int d = 0; d < t->ndim; d++) {
        str_add(out, d ? ", " : "");
        if (slice->lo[d] == 0 && slice->hi[d] == t->dim[d])
            str_add(out, ":");
        else
            str_addf(out, "%lld:%lld", (long long)slice->lo[d], (long long)slice->hi[d]);
    }
    str_add(out, "]");
}

void
scene_label(const struct scene *s, int page, int row, int col, int addend, struct str *out)
{
    struct shown who = shown_of(s->grid.nreplica, s->grid.nreplica > LABEL_RANKS ? 4 : LABEL_RANKS);
    for (int k = 0; k < who.n; k++) {
        str_add(out, k ? ", " : "");
        if (who.index[k] < 0)
            str_add(out, "...");
        else
            str_addf(out, "%d", grid_rank(&s->grid, scene_pos(s, page, row, col, addend, who.index[k])));
    }
}

void
scene_page_text(const struct scene *s, int page, struct str *out)
{
    if (s->npage == 1) return;
    for (int d = 0; d < s->grid.type->ndim; d++) {
        int k = 0;
        while (k < s->npage_dim && s->page_dim[k] != d) k++;
        str_add(out, d ? ", " : "[");
        if (k == s->npage_dim) {
            str_add(out, ":");
        } else {
            const int64_t *at = &s->page[k].at[page_part(s, page, k)];
            str_addf(out, "%lld:%lld", (long long)at[0], (long long)at[1]);
        }
    }
    str_add(out, "]");
}

void
scene_place_text(const struct scene *s, struct str *out)
{
    const struct place *p = s->grid.layout->place;
    if (p->nrank <= 16) {
        place_print(p, out);
        return;
    }
    for (int a = 0; a < p->naxis; a++) str_addf(out, "%s%d", a ? " x " : "", p->axis[a]);
    str_add(out, " ranks");
}

void
scene_type_text(const struct scene *s, struct str *out)
{
    type_print(s->grid.type, out);
    if (s->empty) str_add(out, ", no elements");
    if (s->row >= 0) str_addf(out, ", axis %d down", s->row);
    if (s->col >= 0) str_addf(out, ", axis %d across", s->col);
}

size_t
scene_color(int32_t rank, size_t n)
{
    size_t r = (size_t)rank;
    return (r + r / 8 + r / 64) % n;
}

void
bytes_print(int64_t bytes, struct str *out)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    size_t u = 0;
    for (; value >= 1024 && u + 1 < countof(unit); u++) value /= 1024;
    bool whole = value == (double)(int64_t)value;
    str_addf(out, whole ? "%.0f %s" : "%.1f %s", value, unit[u]);
}

void
move_text_of(struct move_text *m, struct arena *a, const struct type *t, const struct layout *from,
             const struct layout *to)
{
    struct box_plan *p;
    *m = (struct move_text){.name = "exchange", .bytes = box_bytes(t, from, to)};
    if (m->bytes < INT64_MAX) m->name = box_name(t, from, to);
    if (m->bytes < INT64_MAX && from->place->nrank + to->place->nrank > PLAN_RANKS) return;
    if (box_plan(a, t, from, to, &p)) {
        m->refused = arena_strdup(a, err_text());
        return;
    }
    m->nrank = p->nrank;
    m->rank = p->rank;
    m->received = p->received;
    m->plan = p;
}
