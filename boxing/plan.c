/* plan.c - box_plan: from the deal of every cell to the steps of every rank.
 *
 * Each rank's part of the plan can be made alone: its stage (the cells of its
 * source part of which it reduces a share) and its destination part (the cells
 * of it, each copied, reduced or filled). A whole plan is the ranks' parts one
 * after the other, all stages first. */
#include "boxing/box.h"
#include "boxing/deal.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

struct maker {
    struct arena *arena;
    struct grid from, to;
    struct deal deal;
    struct box_plan *plan;
    int32_t *stage_of; /* by source position: index of its stage, -1: not known here */
    int room;          /* of plan->step while it grows (malloc) */
};

static struct box_step *
add_step(struct maker *m, struct box_step step)
{
    struct box_plan *p = m->plan;
    if (p->nstep == m->room) {
        m->room = m->room ? 2 * m->room : 64;
        p->step = must_realloc(p->step, sizeof *p->step * (size_t)m->room);
    }
    p->step[p->nstep] = step;
    return &p->step[p->nstep++];
}

/* Share k of n of a cell: cut along the dimension that keeps the largest share smallest. */
static bool
share_of(const struct box *cell, int ndim, int32_t n, int32_t k, struct box *out)
{
    int best = -1;
    double best_share = 1;
    for (int d = 0; d < ndim; d++) {
        int64_t size = cell->hi[d] - cell->lo[d];
        double share = (double)((size + n - 1) / n) / (double)size;
        if (share < best_share) {
            best = d;
            best_share = share;
        }
    }
    *out = *cell;
    if (best < 0) return k == 0;
    int64_t lo, hi;
    shard_range(cell->hi[best] - cell->lo[best], n, k, &lo, &hi);
    out->lo[best] = cell->lo[best] + lo;
    out->hi[best] = cell->lo[best] + hi;
    return lo < hi;
}

/* The source position of the device that does a step. */
static int32_t
reader_of(const struct maker *m, const struct box_step *step)
{
    if (step->to_stage) return grid_find(&m->from, step->dst);
    return grid_other(&m->to, &m->from, step->dst_index);
}

static struct box_source
part_source(const struct maker *m, const struct box_step *step, int32_t turn, int32_t addend)
{
    int32_t pos = deal_source(&m->deal, reader_of(m, step), turn, addend);
    return (struct box_source){.rank = grid_rank(&m->from, pos), .pos = pos};
}

/* The addends that a group gets, in the order of the mesh. */
static void
set_sources(struct maker *m, struct box_step *step, int32_t group, int32_t turn)
{
    struct box_source *source = ARENA_ARRAY(m->arena, struct box_source, m->deal.ntaken[group]);
    int32_t n = 0;
    for (int32_t i = 0; i < m->from.naddend; i++)
        if (m->deal.give[i] == group) source[n++] = part_source(m, step, turn, i);
    step->nsource = n;
    step->source = source;
}

/* ---- stages ---- */

/* The share of a group's sum over a cell that source position `pos` reduces, if it is an owner. */
static void
plan_share(struct maker *m, int32_t pos, int32_t group, const struct box *cell)
{
    struct box_step step = {.verb = BOX_REDUCE,
                            .reduce = grid_reduce(&m->from),
                            .to_stage = true,
                            .dst = grid_rank(&m->from, pos),
                            .dst_index = m->plan->nstage};
    int32_t k = 0;
    deal_owners(&m->deal, group);
    while (k < m->deal.nowner && m->deal.owner[k] != pos) k++;
    if (m->deal.direct || k == m->deal.nowner) return;
    if (!share_of(cell, m->from.type->ndim, m->deal.nowner, k, &step.slice)) return;
    set_sources(m, &step, group, 0);
    add_step(m, step);
}

/* The steps from `first` on fill the stage of source position pos: its slices one after the other. */
static void
add_stage(struct maker *m, int32_t pos, int32_t first)
{
    int32_t n = m->plan->nstep - first;
    int64_t numel = 0;
    if (n == 0) return;
    struct box *slice = ARENA_ARRAY(m->arena, struct box, n);
    int64_t *offset = ARENA_ARRAY(m->arena, int64_t, n);
    for (int32_t k = 0; k < n; k++) {
        slice[k] = m->plan->step[first + k].slice;
        offset[k] = numel;
        numel += box_numel(&slice[k], m->from.type->ndim);
    }
    m->stage_of[pos] = m->plan->nstage;
    m->plan->stage[m->plan->nstage++] = (struct box_stage){grid_rank(&m->from, pos), numel, n, slice, offset};
}

/* All that source position `pos` reduces for others: shares of the cells of its own part. */
static void
plan_stage(struct maker *m, int32_t pos)
{
    int32_t first = m->plan->nstep, src = grid_spot(&m->from, pos).corner;
    struct box part;
    struct cell_walk w;
    layout_box(m->from.layout, m->from.type, pos, &part);
    for (bool more = cell_begin(&w, &m->to, &part); more; more = cell_next(&w)) {
        int32_t n = deal_shares(&m->deal, src, w.corner);
        struct box share;
        for (int32_t k = 0; k < n; k++) {
            if (!share_of(&w.box, m->to.type->ndim, n, k, &share)) continue;
            deal_cell(&m->deal, src, w.corner, k);
            for (int32_t j = 0; j < m->to.naddend; j++)
                if (m->deal.ntaken[j] > 1) plan_share(m, pos, j, &share);
        }
    }
    add_stage(m, pos, first);
}

/* ---- destinations ---- */

/* The sum of a cell, share by share from those who reduced it. */
static void
copy_shares(struct maker *m, const struct box_step *step)
{
    for (int32_t k = 0; k < m->deal.nowner; k++) {
        struct box_step copy = *step;
        if (!share_of(&step->slice, m->to.type->ndim, m->deal.nowner, k, &copy.slice)) continue;
        int32_t pos = m->deal.owner[k];
        struct box_source source = {grid_rank(&m->from, pos), m->stage_of[pos], true};
        copy.verb = BOX_COPY;
        copy.nsource = 1;
        copy.source = arena_dup(m->arena, &source, sizeof source);
        add_step(m, copy);
    }
}

/* One cell of a destination part: a copy, a sum or nothing, as the deal says. */
static void
plan_cell(struct maker *m, struct box_step step, struct spot at)
{
    int32_t group = at.addend, ntaken = m->deal.ntaken[group];
    if (ntaken > 1) deal_owners(&m->deal, group);
    if (ntaken > 1 && !m->deal.direct) {
        copy_shares(m, &step);
        return;
    }
    step.verb = ntaken == 0 ? BOX_FILL : ntaken == 1 ? BOX_COPY : BOX_REDUCE;
    step.reduce = ntaken == 0 ? grid_reduce(&m->to) : ntaken > 1 ? grid_reduce(&m->from) : RED_NONE;
    if (ntaken > 0) set_sources(m, &step, group, at.replica + grid_tile(&m->to, at.corner));
    add_step(m, step);
}

/* The cells of destination position `pos`. */
static void
plan_part(struct maker *m, int32_t pos)
{
    struct spot at = grid_spot(&m->to, pos);
    struct box_step step = {.dst = grid_rank(&m->to, pos), .dst_index = pos};
    struct box part;
    struct cell_walk w;
    layout_box(m->to.layout, m->to.type, pos, &part);
    for (bool more = cell_begin(&w, &m->from, &part); more; more = cell_next(&w)) {
        int32_t n = deal_shares(&m->deal, w.corner, at.corner);
        for (int32_t k = 0; k < n; k++) {
            if (!share_of(&w.box, m->to.type->ndim, n, k, &step.slice)) continue;
            deal_cell(&m->deal, w.corner, at.corner, k);
            plan_cell(m, step, at);
        }
    }
}

/* ---- the whole ---- */

static int
refuse_other_partial(const struct grid *from, const struct grid *to)
{
    enum reduce a = grid_reduce(from), b = grid_reduce(to);
    if (a == RED_NONE || b == RED_NONE || a == b) return 0;
    struct str s = {0};
    layout_print(from->layout, &s);
    str_add(&s, " on ");
    place_print(from->layout->place, &s);
    str_add(&s, " cannot be moved to ");
    layout_print(to->layout, &s);
    str_add(&s, " on ");
    place_print(to->layout->place, &s);
    int code = fail(E_SBP, "boxing: %s: one kind of partial (%s) does not become another (%s); go through B or S first",
                    str_text(&s), reduce_text(a), reduce_text(b));
    str_free(&s);
    return code;
}

static int
by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void
list_ranks(struct box_plan *p, struct arena *a)
{
    const struct place *from = p->from->place, *to = p->to->place;
    int32_t n = from->nrank + to->nrank, *rank = ARENA_ARRAY(a, int32_t, n);
    memcpy(rank, from->rank, sizeof *rank * (size_t)from->nrank);
    memcpy(rank + from->nrank, to->rank, sizeof *rank * (size_t)to->nrank);
    qsort(rank, (size_t)n, sizeof *rank, by_number);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || rank[i] != rank[p->nrank - 1]) rank[p->nrank++] = rank[i];
    p->rank = rank;
}

static void
count_received(struct box_plan *p, struct arena *a)
{
    int64_t width = (int64_t)dtype_bytes(p->type.dtype);
    bool other_kind = p->from->place->kind != p->to->place->kind;
    p->received = ARENA_ARRAY(a, int64_t, p->nrank);
    for (int i = 0; i < p->nstep; i++) {
        const struct box_step *s = &p->step[i];
        int32_t *at = bsearch(&s->dst, p->rank, (size_t)p->nrank, sizeof s->dst, by_number);
        assert(at);
        for (int32_t k = 0; k < s->nsource; k++)
            if (s->source[k].rank != s->dst || (other_kind && !s->to_stage))
                p->received[at - p->rank] += box_numel(&s->slice, p->type.ndim) * width;
    }
    for (int i = 0; i < p->nrank; i++) p->bytes += p->received[i];
}

static struct box_plan *
plan_new(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to)
{
    struct box_plan *p = ARENA_NEW(a, struct box_plan);
    p->type = *t;
    p->from = from;
    p->to = to;
    p->alias = layout_same_boxes(from, to, t);
    p->bound = box_bytes(t, from, to);
    p->name = box_name(t, from, to);
    return p;
}

static void
maker_init(struct maker *m, struct arena *a, struct box_plan *p)
{
    *m = (struct maker){.arena = a, .from = grid_of(p->from, &p->type), .to = grid_of(p->to, &p->type), .plan = p};
    int32_t n = p->from->place->nrank;
    deal_init(&m->deal, a, &m->from, &m->to);
    m->stage_of = ARENA_ARRAY(a, int32_t, n);
    for (int32_t i = 0; i < n; i++) m->stage_of[i] = -1;
}

/* Hands the steps over to the arena. */
static void
maker_finish(struct maker *m)
{
    struct box_step *grown = m->plan->step;
    if (grown) m->plan->step = arena_dup(m->arena, grown, sizeof *grown * (size_t)m->plan->nstep);
    free(grown);
    count_received(m->plan, m->arena);
}

int
box_plan(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to,
         struct box_plan **out)
{
    struct grid g = grid_of(from, t), h = grid_of(to, t);
    TRY(refuse_other_partial(&g, &h));
    struct box_plan *p = *out = plan_new(a, t, from, to);
    struct maker m;
    list_ranks(p, a);
    maker_init(&m, a, p);
    if (!p->alias) {
        int32_t nstage = g.naddend > 1 ? from->place->nrank : 0;
        p->stage = ARENA_ARRAY(a, struct box_stage, nstage);
        for (int32_t pos = 0; pos < nstage; pos++) plan_stage(&m, pos);
        for (int32_t pos = 0; pos < to->place->nrank; pos++) plan_part(&m, pos);
    }
    maker_finish(&m);
    return 0;
}

int
box_plan_rank(struct arena *a, const struct type *t, const struct layout *from, const struct layout *to, int rank,
              struct box_plan **out)
{
    struct grid g = grid_of(from, t), h = grid_of(to, t);
    TRY(refuse_other_partial(&g, &h));
    struct box_plan *p = *out = plan_new(a, t, from, to);
    struct maker m;
    int32_t number = rank, src = grid_find(&g, rank), dst = grid_find(&h, rank);
    p->nrank = 1;
    p->rank = arena_dup(a, &number, sizeof number);
    p->stage = ARENA_NEW(a, struct box_stage);
    maker_init(&m, a, p);
    if (!p->alias && src >= 0 && g.naddend > 1) plan_stage(&m, src);
    if (!p->alias && dst >= 0) plan_part(&m, dst);
    maker_finish(&m);
    return 0;
}
