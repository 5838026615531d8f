/* move.c - values in other layouts: the box actors of a move, made once however many want it. */
#include "actors/plan/lower.h"

#include "boxing/path.h"
#include "runtime/device.h"
#include "runtime/error.h"

#include <string.h>

/* The dense block in a staging part that holds slice. */
static struct view
stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, int64_t *skip)
{
    const struct box_stage *s = &b->stage[stage];
    int32_t i = box_stage_find(b, stage, slice);
    const struct box *own = s->work.step[i].slice;
    struct type t = b->type;
    t.dtype = (uint8_t)layout_dtype(b->to, t.dtype);
    for (int k = 0; k < t.ndim; k++) t.dim[k] = own->hi[k] - own->lo[k];
    struct view dense = view_dense(&t, NULL);
    struct view v = part_window(&dense, own->lo, slice, skip);
    *skip += s->offset[i];
    return v;
}

/* Which device kind a rank of the move has. */
int
move_kind(const struct box_plan *b, int rank)
{
    return place_find(b->to->place, rank) >= 0 ? b->to->place->kind : b->from->place->kind;
}

void
mover_init(struct mover *m, struct lower *l, const struct box_plan *b, struct pval *from)
{
    int32_t n = from->layout->place->nrank + b->nstage;
    *m = (struct mover){.l = l, .b = b, .from = from};
    m->box = ARENA_ARRAY(&l->tmp, struct box, from->layout->place->nrank);
    m->boxed = ARENA_ARRAY(&l->tmp, bool, from->layout->place->nrank);
    m->stage_task = ARENA_ARRAY(&l->tmp, int32_t, b->nstage);
    m->arg = ARENA_ARRAY(&l->tmp, int32_t, n);
    m->arg_task = ARENA_ARRAY(&l->tmp, int32_t, n);
    for (int32_t i = 0; i < n; i++) m->arg_task[i] = -1;
}

/* The argument by which the task reads a source; made when it has none yet. */
static int
move_arg(struct mover *m, int32_t task, const struct box_source *s, int32_t *arg)
{
    struct view row = {.dtype = (uint8_t)layout_dtype(m->b->to, m->b->type.dtype)};
    struct part staged = {.kind = ARG_REG, .view = &row};
    const struct part *part = &m->from->part[s->pos];
    int32_t at = s->pos;
    if (s->stage != BOX_PART) {
        at = m->from->layout->place->nrank + s->stage;
        staged.index = m->stage_task[s->stage];
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
    if (s->stage != BOX_PART) {
        view = stage_window(b, s->stage, slice, &skip);
    } else {
        if (!m->boxed[s->pos]) layout_box(b->from, &b->type, s->pos, &m->box[s->pos]);
        m->boxed[s->pos] = true;
        view = part_window(m->from->part[s->pos].view, m->box[s->pos].lo, slice, &skip);
    }
    from->view = intern_view(m->l, &view);
    from->skip = skip * (int64_t)dtype_bytes(view.dtype);
    return 0;
}

static int64_t
received_of(const struct mover *m, const struct box_source *s, const struct box *slice, int rank)
{
    int64_t width = s->stage == BOX_PART ? box_width_from(m->b) : box_width_to(m->b);
    return s->rank == rank ? 0 : box_numel(slice, m->b->type.ndim) * width;
}

/* One more move of the task: a slice of a step, done by rank. dst, skip: where it goes in the task's register. */
int
move_add(struct mover *m, int32_t task, const struct box_step *step, const struct box *slice, int rank,
         const struct view *dst, int64_t skip)
{
    struct task *t = &m->l->draft[task].task;
    struct box_move *move = &t->move.step[t->move.nstep++];
    *move = (struct box_move){.verb = step->verb,
                              .reduce = step->reduce,
                              .skip = skip * (int64_t)dtype_bytes(dst->dtype),
                              .view = intern_view(m->l, dst)};
    move->nfrom = step->verb == BOX_FILL ? 0 : step->nsource;
    move->from = ARENA_ARRAY(&m->l->plan->arena, struct box_from, move->nfrom);
    for (int i = 0; i < move->nfrom; i++) {
        TRY(move_from(m, task, &step->source[i], slice, &move->from[i]));
        m->l->draft[task].task.move.received += received_of(m, &step->source[i], slice, rank);
    }
    return 0;
}

static int
move_step(struct mover *m, int32_t task, const struct box_work *w, bool to_stage, const struct box_step *step)
{
    struct view view;
    int64_t skip;
    if (to_stage)
        view = stage_window(m->b, w->same, step->slice, &skip);
    else
        view = part_window(&m->part, m->part.offset, step->slice, &skip);
    return move_add(m, task, step, step->slice, w->rank, &view, skip);
}

/* What a replica does is done: it reads the same by the same arguments. */
static int
move_alike(struct mover *m, int32_t task, const struct box_work *w, int32_t like)
{
    struct task_move *t = &m->l->draft[task].task.move;
    *t = m->l->draft[like].task.move;
    t->received = 0;
    for (int32_t i = 0; i < w->nstep; i++)
        for (int32_t k = 0; k < w->step[i].nsource; k++) {
            int32_t arg;
            TRY(move_arg(m, task, &w->step[i].source[k], &arg));
            m->l->draft[task].task.move.received += received_of(m, &w->step[i].source[k], w->step[i].slice, w->rank);
        }
    return 0;
}

/* One box actor: all steps that write the same part. like: a task that does the same, -1: none yet. */
static int
move_task(struct mover *m, const struct box_work *w, bool to_stage, int32_t like, int64_t bytes, int32_t *id)
{
    const struct box_plan *b = m->b;
    int32_t nsource = 0, index = to_stage ? w->same : w->pos;
    for (int i = 0; i < w->nstep; i++) nsource += w->step[i].nsource;
    struct draft *d =
        draft_new(m->l, &kind_box, m->from->node, move_kind(b, w->rank), w->rank, index, m->from->piece, id);
    if (like < 0) d->task.move.step = ARENA_ARRAY(&m->l->plan->arena, struct box_move, w->nstep);
    d->task.move.box = (struct box_plan *)b;
    d->task.move.stage = to_stage;
    d->task.name = b->name;
    draft_out(m->l, d, bytes, 1);
    d->task.nresult = 1;
    draft_args(m->l, *id, nsource);
    m->l->draft[*id].task.narg = 0;
    if (like >= 0) return move_alike(m, *id, w, like);
    if (!to_stage) m->part = part_local(b->to, &b->type, w->pos);
    for (int i = 0; i < w->nstep; i++) TRY(move_step(m, *id, w, to_stage, &w->step[i]));
    return 0;
}

static void
remember_box(struct lower *l, struct box_plan *b)
{
    if (l->nbox == l->box_capacity) {
        int32_t capacity = l->box_capacity ? 2 * l->box_capacity : 16;
        struct box_plan **more = ARENA_ARRAY(&l->tmp, struct box_plan *, capacity);
        if (l->nbox) memcpy(more, l->box, sizeof *more * (size_t)l->nbox);
        l->box = more;
        l->box_capacity = capacity;
    }
    l->box[l->nbox++] = b;
}

static int
move_tasks(struct lower *l, const struct box_plan *b, struct pval *from, struct pval *to)
{
    struct mover m;
    mover_init(&m, l, b, from);
    for (int i = 0; i < b->nstage; i++)
        TRY(move_task(&m, &b->stage[i].work, true, -1, b->stage[i].numel * box_width_to(b), &m.stage_task[i]));
    int32_t *task = ARENA_ARRAY(&l->tmp, int32_t, b->npart);
    for (int32_t i = 0; i < b->npart; i++) {
        const struct box_work *w = &b->part[i];
        struct type local = layout_shard(to->layout, &to->type, w->pos);
        TRY(move_task(&m, w, false, w->same < i ? task[w->same] : -1, type_bytes(&local), &task[i]));
        part_is_result(&to->part[w->pos], task[i], 0);
    }
    return 0;
}

/* A move reads its sources in place. A plan that is read and not run reads nothing. */
static bool
reaches(const struct lower *l, int from, int to)
{
    return from == to || l->program->dry_run || (device_kind(from)->flags & device_kind(to)->flags & HOST_READS);
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
