/* move.c - values in other layouts: the box actors of a move, made once however many want it. */
#include "actors/plan/lower.h"

#include "boxing/path.h"
#include "runtime/device.h"
#include "runtime/error.h"

#include <string.h>

/* The dense block in a staging part that holds slice. */
static struct view
stage_window(const struct box_plan *b, int stage, const struct box *slice, int64_t *skip)
{
    const struct box_stage *s = &b->stage[stage];
    int ndim = b->type.ndim;
    for (int i = 0; i < s->nslice; i++) {
        struct box both;
        bool meets = box_intersect(&s->slice[i], slice, ndim, &both);
        if (!meets || box_numel(&both, ndim) != box_numel(slice, ndim)) continue;
        struct type t = b->type;
        for (int k = 0; k < ndim; k++) t.dim[k] = s->slice[i].hi[k] - s->slice[i].lo[k];
        struct view dense = view_dense(&t, NULL);
        struct view v = part_window(&dense, s->slice[i].lo, slice, skip);
        *skip += s->slice_offset[i];
        return v;
    }
    assert(!"a staged slice is not in its stage");
    return (struct view){0};
}

/* Which device kind a rank of the move has. */
int
move_kind(const struct box_plan *b, int rank)
{
    return place_find(b->to->place, rank) >= 0 ? b->to->place->kind : b->from->place->kind;
}

/* The steps that fill a stage or, after those, a destination part: they stand together, in this order. */
static void
find_steps(struct mover *m)
{
    const struct box_plan *b = m->b;
    int32_t n = b->nstage + b->to->place->nrank;
    m->first_step = ARENA_ARRAY(&m->l->tmp, int32_t, n + 1);
    for (int i = 0; i < b->nstep; i++) {
        const struct box_step *s = &b->step[i];
        m->first_step[(s->to_stage ? s->dst_index : b->nstage + s->dst_index) + 1]++;
    }
    for (int32_t i = 0; i < n; i++) m->first_step[i + 1] += m->first_step[i];
}

void
mover_init(struct mover *m, struct lower *l, const struct box_plan *b, struct pval *from)
{
    int32_t n = from->layout->place->nrank + b->nstage;
    *m = (struct mover){.l = l, .b = b, .from = from, .part_index = -1};
    m->box = ARENA_ARRAY(&l->tmp, struct box, from->layout->place->nrank);
    m->boxed = ARENA_ARRAY(&l->tmp, bool, from->layout->place->nrank);
    m->stage_task = ARENA_ARRAY(&l->tmp, int32_t, b->nstage);
    m->arg = ARENA_ARRAY(&l->tmp, int32_t, n);
    m->arg_task = ARENA_ARRAY(&l->tmp, int32_t, n);
    for (int32_t i = 0; i < n; i++) m->arg_task[i] = -1;
    find_steps(m);
}

const struct box_step *
mover_steps(const struct mover *m, bool to_stage, int32_t index, int32_t *n)
{
    int32_t at = to_stage ? index : m->b->nstage + index;
    *n = m->first_step[at + 1] - m->first_step[at];
    return m->b->step + m->first_step[at];
}

/* The argument by which the task reads a source; made when it has none yet. */
static int
move_arg(struct mover *m, int32_t task, const struct box_source *s, int32_t *arg)
{
    struct view row = {.dtype = m->b->type.dtype};
    struct part staged = {.kind = ARG_REG, .view = &row};
    const struct part *part = &m->from->part[s->staged ? 0 : s->pos];
    int32_t at = s->staged ? m->from->layout->place->nrank + s->pos : s->pos;
    if (s->staged) {
        staged.index = m->stage_task[s->pos];
        part = &staged;
    }
    if (m->arg_task[at] != task) {
        m->arg_task[at] = task;
        m->arg[at] = m->l->draft[task].task.narg++;
        TRY(draft_reads(m->l, task, part, m->arg[at], true));
    }
    *arg = m->arg[at];
    return 0;
}

static int
move_from(struct mover *m, int32_t task, const struct box_source *s, const struct box *slice, struct box_from *from)
{
    const struct box_plan *b = m->b;
    int64_t skip;
    struct view view;
    TRY(move_arg(m, task, s, &from->arg));
    if (s->staged) {
        view = stage_window(b, s->pos, slice, &skip);
    } else {
        if (!m->boxed[s->pos]) layout_box(b->from, &b->type, s->pos, &m->box[s->pos]);
        m->boxed[s->pos] = true;
        view = part_window(m->from->part[s->pos].view, m->box[s->pos].lo, slice, &skip);
    }
    from->view = intern_view(m->l, &view);
    from->skip = skip * (int64_t)dtype_bytes(b->type.dtype);
    return 0;
}

/* One more move of the task: a slice of a step, done by rank. dst, skip: where it goes in the task's register. */
int
move_add(struct mover *m, int32_t task, const struct box_step *step, const struct box *slice, int rank,
         const struct view *dst, int64_t skip)
{
    struct task *t = &m->l->draft[task].task;
    struct box_move *move = &t->move.step[t->move.nstep++];
    int64_t size = (int64_t)dtype_bytes(m->b->type.dtype);
    *move = (struct box_move){
        .verb = step->verb, .reduce = step->reduce, .skip = skip * size, .view = intern_view(m->l, dst)};
    move->nfrom = step->verb == BOX_FILL ? 0 : step->nsource;
    move->from = ARENA_ARRAY(&m->l->plan->arena, struct box_from, move->nfrom);
    for (int i = 0; i < move->nfrom; i++) {
        TRY(move_from(m, task, &step->source[i], slice, &move->from[i]));
        if (step->source[i].rank != rank)
            m->l->draft[task].task.move.received += box_numel(slice, m->b->type.ndim) * size;
    }
    return 0;
}

static int
move_step(struct mover *m, int32_t task, const struct box_step *step)
{
    struct view view;
    int64_t skip;
    if (step->to_stage) {
        view = stage_window(m->b, step->dst_index, &step->slice, &skip);
    } else {
        if (m->part_index != step->dst_index) m->part = part_local(m->b->to, &m->b->type, step->dst_index);
        m->part_index = step->dst_index;
        view = part_window(&m->part, m->part.offset, &step->slice, &skip);
    }
    return move_add(m, task, step, &step->slice, step->dst, &view, skip);
}

/* One box actor: all steps that write the same part. */
static int
move_task(struct mover *m, bool to_stage, int index, int rank, int64_t bytes, int32_t *id)
{
    const struct box_plan *b = m->b;
    int32_t nmove, nsource = 0;
    const struct box_step *step = mover_steps(m, to_stage, index, &nmove);
    for (int i = 0; i < nmove; i++) nsource += step[i].nsource;
    struct draft *d = draft_new(m->l, &kind_box, m->from->node, move_kind(b, rank), rank, index, m->from->piece, id);
    d->task.move.step = ARENA_ARRAY(&m->l->plan->arena, struct box_move, nmove);
    d->task.move.box = (struct box_plan *)b;
    d->task.move.stage = to_stage;
    d->task.name = b->name;
    draft_out(m->l, d, bytes, 1);
    d->task.nresult = 1;
    draft_args(m->l, *id, nsource);
    m->l->draft[*id].task.narg = 0;
    for (int i = 0; i < nmove; i++) TRY(move_step(m, *id, &step[i]));
    return 0;
}

static void
remember_box(struct lower *l, struct box_plan *b)
{
    if (l->nbox == l->box_room) {
        int32_t room = l->box_room ? 2 * l->box_room : 16;
        struct box_plan **more = ARENA_ARRAY(&l->tmp, struct box_plan *, room);
        if (l->nbox) memcpy(more, l->box, sizeof *more * (size_t)l->nbox);
        l->box = more;
        l->box_room = room;
    }
    l->box[l->nbox++] = b;
}

static int
move_tasks(struct lower *l, const struct box_plan *b, struct pval *from, struct pval *to)
{
    struct mover m;
    size_t size = dtype_bytes(b->type.dtype);
    mover_init(&m, l, b, from);
    for (int i = 0; i < b->nstage; i++)
        TRY(move_task(&m, true, i, b->stage[i].rank, b->stage[i].numel * (int64_t)size, &m.stage_task[i]));
    for (int pos = 0; pos < to->layout->place->nrank; pos++) {
        struct type local = layout_shard(to->layout, &to->type, pos);
        int32_t id;
        TRY(move_task(&m, false, pos, to->layout->place->rank[pos], type_bytes(&local), &id));
        part_is_result(&to->part[pos], id, 0);
    }
    return 0;
}

/* A move reads its sources in place. A plan that is read and not run reads nothing. */
static bool
reaches(const struct lower *l, int from, int to)
{
    return from == to || l->program->shown || (device_kind(from)->flags & device_kind(to)->flags & HOST_READS);
}

/* One hop: the value in another layout, directly. */
static int
move_once(struct lower *l, struct pval *v, const struct layout *layout, bool share, struct pval **out)
{
    struct box_plan *b;
    if (!reaches(l, v->layout->place->kind, layout->place->kind))
        return fail(E_PLACE, "a value does not go from %s to %s devices: their memories do not reach each other",
                    device_kind_text(v->layout->place->kind), device_kind_text(layout->place->kind));
    TRY(box_plan(&l->plan->arena, &v->type, v->layout, layout, &b));
    struct pval *to = *out = pval_new(l, &v->type, layout, v->piece, v->node);
    if (b->alias) {
        for (int pos = 0; pos < layout->place->nrank; pos++) {
            const struct view *own = to->part[pos].view;
            to->part[pos] = v->part[place_find(v->layout->place, layout->place->rank[pos])];
            /* Where there is nothing, its shape is the new layout's all the same: {0, 4} is not {4, 0}. */
            if (view_numel(own) == 0) to->part[pos].view = own;
        }
        return 0;
    }
    remember_box(l, b);
    bool shared = false;
    if (share) TRY(share_parts(l, b, v, to, &shared));
    return shared ? 0 : move_tasks(l, b, v, to);
}

/* The value in another layout, by the cheapest way. What is between two hops is this move's alone, so that a move
 * costs what it costs whatever else is moved. */
int
lower_moved(struct lower *l, struct pval *v, const struct layout *layout, bool share, struct pval **out)
{
    struct pval *to = *out = v;
    if (v->layout == layout) return 0;
    for (struct pval *m = v->moved; m; m = m->moved)
        if (m->layout == layout) {
            *out = m;
            return 0;
        }
    const struct box_candidate *way = outline_way(l->outline, &v->type, v->layout, layout);
    for (int k = 0; k < way->nhop; k++) TRY(move_once(l, to, way->hop[k].to, share || k + 1 < way->nhop, &to));
    to->moved = v->moved;
    v->moved = to;
    *out = to;
    return 0;
}
