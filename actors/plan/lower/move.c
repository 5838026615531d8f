/* move.c - makes the box tasks that convert a value to another layout. A value is converted to a layout once. */
#include "actors/plan/lower/move.h"
#include "actors/plan/lower/shared_shard.h"
#include "actors/plan/lower/send.h"
#include "actors/plan/lower/intern.h"
#include "actors/plan/lower/draft.h"
#include "actors/plan/lower/collective.h"

#include "kernels/cuda/launch.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/tensor/atlas.h"
#include "boxing/plan.h"

#include <string.h>

/* Returns the dense block of a stage buffer that holds `slice`. */
static struct view
stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, int64_t *skip)
{
    const struct box_stage *s = &b->stage[stage];
    int32_t i = box_stage_find(b, stage, slice);
    const struct box *own = s->work.step[i].slice;
    struct type t = b->type;
    t.dtype = (uint8_t)box_stage_dtype(b, s->work.pos);
    for (int k = 0; k < t.ndim; k++) t.dim[k] = own->hi[k] - own->lo[k];
    struct view dense = view_dense(&t, NULL);
    struct view v = part_window(&dense, own->lo, slice, skip);
    *skip += s->offset[i];
    return v;
}

/* Returns the kind of the device that fills a stage buffer or shard of the move. */
static int
move_kind(const struct box_plan *b, bool to_stage)
{
    return (to_stage ? b->from : b->to)->place->kind;
}

/* Returns true if the move runs once per micro-batch. It may do so although the value does not change, if the value
 * is fetched again for each micro-batch. */
static bool
moves_pieces(const struct lower *l, const struct pval *v)
{
    const struct prog_node *n = &l->program->node[l->at];
    return v->piece || (n->again && n->piece);
}

void
mover_init(struct mover *m, struct lower *l, const struct plan_move *move, const struct redistribution *x,
           struct pval *from)
{
    const struct box_plan *b = x->own;
    int32_t n = from->mine->n + b->nstage + x->nin;
    *m = (struct mover){.l = l, .move = move, .b = b, .from = from, .piece = moves_pieces(l, from), .cross = x};
    m->box = ARENA_ARRAY(&l->tmp, struct box, from->mine->n);
    m->boxed = ARENA_ARRAY(&l->tmp, bool, from->mine->n);
    m->stage_task = ARENA_ARRAY(&l->tmp, int32_t, b->nstage);
    m->part_task = ARENA_ARRAY(&l->tmp, int32_t, b->npart);
    m->recv = ARENA_ARRAY(&l->tmp, int32_t, x->nin);
    m->arg = ARENA_ARRAY(&l->tmp, int32_t, n);
    m->arg_task = ARENA_ARRAY(&l->tmp, int32_t, n);
    for (int32_t i = 0; i < n; i++) m->arg_task[i] = -1;
}

/* ---- arguments of a task ---- */

/* placeholder view for stage buffers and received buffers, whose slices have views of their own */
static const struct view row;

struct view
mover_window(struct mover *m, int32_t stage, int32_t pos, const struct box *slice, struct part *part, int64_t *skip)
{
    const struct box_plan *b = m->b;
    if (stage != BOX_PART) {
        *part = (struct part){.kind = ARG_REG, .index = m->stage_task[stage], .view = &row};
        return stage_window(b, stage, slice, skip);
    }
    int32_t k = local_set_find(m->from->mine, pos);
    *part = m->from->part[k];
    if (!m->boxed[k]) layout_box(b->from, &b->type, pos, &m->box[k]);
    m->boxed[k] = true;
    return part_window(part->view, m->box[k].lo, slice, skip);
}

struct view
mover_received(const struct mover *m, const struct redistribute_channel *c, int32_t which, int64_t *skip)
{
    const struct box *slice = c->slice[which].slice;
    struct type t = m->b->type;
    t.dtype = (uint8_t)redistribute_dtype(m->cross, c);
    for (int d = 0; d < t.ndim; d++) t.dim[d] = slice->hi[d] - slice->lo[d];
    *skip = c->offset[which];
    return view_dense(&t, NULL);
}

/* Finds the source of a slice, and returns the source's index in the `arg` array of struct mover. *part: location
 * of the source; *view: view of the slice in the source; *skip: elements from the source's start to the slice. */
static int32_t
move_source(struct mover *m, const struct box_work *w, bool to_stage, const struct box_source *s,
            const struct box *slice, struct part *part, struct view *view, int64_t *skip)
{
    int32_t own = m->from->mine->n, which;
    if (!redistribute_in_place(m->cross, w, to_stage, s)) {
        int32_t channel = redistribute_find(m->cross, w, to_stage, s, slice, &which);
        *part = (struct part){.kind = ARG_REG, .index = m->recv[channel], .view = &row};
        *view = mover_received(m, &m->cross->in[channel], which, skip);
        return own + m->b->nstage + channel;
    }
    *view = mover_window(m, s->stage, s->pos, slice, part, skip);
    return s->stage != BOX_PART ? own + s->stage : local_set_find(m->from->mine, s->pos);
}

/* Finds the argument by which the task reads a source, and returns its index in *arg. Adds an argument if none
 * reads the source. */
static int
move_arg(struct mover *m, int32_t task, int32_t source, const struct part *part, int32_t *arg)
{
    if (m->arg_task[source] != task) {
        m->arg_task[source] = task;
        m->arg[source] = m->l->draft[task].task.narg++;
        TRY(draft_reads(m->l, task, part, m->arg[source], true));
    }
    *arg = m->arg[source];
    return 0;
}

/* Returns the bytes that a step reads from another device. Equal rank numbers of different device kinds are
 * different devices. */
static int64_t
received_of(const struct mover *m, const struct box_source *s, const struct box *slice, int rank, bool to_stage)
{
    bool own = s->rank == rank && move_kind(m->b, to_stage) == m->b->from->place->kind;
    return own ? 0 : box_numel(slice, m->b->type.ndim) * box_source_width(m->b, s);
}

/* Makes the compiled kernel of a step. Makes none if the device compiles no kernels, or if the step accesses
 * memory of another device kind. */
static int
make_launch(struct mover *m, int32_t task, struct box_move *move)
{
    struct plan *p = m->l->plan;
    int kind = p->device[m->l->draft[task].task.device].kind;
    bool own = m->b->to->place->kind == kind && (move->verb == BOX_FILL || m->b->from->place->kind == kind);
    if (!own || !(device_kind(kind)->flags & COMPILES)) return 0;
    struct view *in = ARENA_ARRAY(&m->l->tmp, struct view, move->nfrom);
    struct cuda_launch *made;
    for (int i = 0; i < move->nfrom; i++) in[i] = *move->from[i].view;
    TRY(cuda_launch_combine(&p->arena, move->reduce, move->nfrom, in, move->view, true, &made));
    move->launch = made;
    return 0;
}

/* Adds a step to the task's move. The step computes `slice`, which is the slice of `step` or a part of it; `step`
 * belongs to work w. dst: view of the destination. skip: elements from the start of the task's register to the
 * destination. */
int
move_add(struct mover *m, int32_t task, const struct box_work *w, bool to_stage, const struct box_step *step,
         const struct box *slice, int rank, const struct view *dst, int64_t skip)
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
        struct box_from *from = &move->from[i];
        struct part part;
        struct view view;
        int32_t source = move_source(m, w, to_stage, &step->source[i], slice, &part, &view, &skip);
        TRY(move_arg(m, task, source, &part, &from->arg));
        from->view = intern_view(m->l, &view);
        from->skip = skip * (int64_t)dtype_bytes(view.dtype);
        m->l->draft[task].task.move.received += received_of(m, &step->source[i], slice, rank, to_stage);
    }
    return make_launch(m, task, move);
}

/* ---- tasks ---- */

static int
move_step(struct mover *m, int32_t task, const struct box_work *w, bool to_stage, const struct box_step *step)
{
    struct view view;
    int64_t skip;
    if (to_stage)
        view = stage_window(m->b, w->same, step->slice, &skip);
    else
        view = part_window(&m->part, m->part.offset, step->slice, &skip);
    return move_add(m, task, w, to_stage, step, step->slice, w->rank, &view, skip);
}

/* Copies the steps of the task that fills one replica to the task that fills another replica. Both tasks read the
 * same sources by the same arguments. */
static int
move_alike(struct mover *m, int32_t task, const struct box_work *w, int32_t like)
{
    struct task_move *t = &m->l->draft[task].task.move;
    *t = m->l->draft[like].task.move;
    t->received = 0;
    for (int32_t i = 0; i < w->nstep; i++)
        for (int32_t k = 0; k < w->step[i].nsource; k++) {
            const struct box_source *s = &w->step[i].source[k];
            struct part part;
            struct view view;
            int64_t skip;
            int32_t arg, source = move_source(m, w, false, s, w->step[i].slice, &part, &view, &skip);
            TRY(move_arg(m, task, source, &part, &arg));
            m->l->draft[task].task.move.received += received_of(m, s, w->step[i].slice, w->rank, false);
        }
    return 0;
}

/* Makes a box task, whose steps write one shard or stage buffer. like: a task whose steps are copied, because it
 * fills a replica of the shard; -1: none. */
static int
move_task(struct mover *m, const struct box_work *w, bool to_stage, int32_t like, int64_t bytes, int32_t *id)
{
    const struct box_plan *b = m->b;
    int32_t nsource = 0, index = to_stage ? w->same : w->pos;
    for (int i = 0; i < w->nstep; i++) nsource += w->step[i].nsource;
    bool fetches = !to_stage && redistribute_fetches(m->cross, m->l->program, m->move, w->pos);
    int kind = move_kind(b, to_stage || fetches), rank = fetches ? b->from->place->rank[w->pos] : w->rank;
    struct draft *d = draft_new(m->l, &kind_box, m->from->node, kind, rank, index, m->piece, id);
    if (like < 0) d->task.move.step = ARENA_ARRAY(&m->l->plan->arena, struct box_move, w->nstep);
    d->task.move.of = m->move;
    d->task.move.stage = to_stage;
    d->task.name = m->move->name;
    draft_out(m->l, d, bytes, 1);
    d->out[0].where.index = draft_device(m->l, move_kind(b, to_stage), w->rank);
    d->task.nresult = 1;
    draft_args(m->l, *id, nsource);
    m->l->draft[*id].task.narg = 0;
    if (like >= 0) return move_alike(m, *id, w, like);
    if (!to_stage) m->part = part_local(b->to, &b->type, w->pos);
    for (int i = 0; i < w->nstep; i++) TRY(move_step(m, *id, w, to_stage, &w->step[i]));
    return 0;
}

int
move_stages(struct mover *m, int32_t first, int32_t end)
{
    const struct box_stage *stage = m->b->stage;
    for (int32_t i = first; i < end; i++) {
        int64_t bytes = stage[i].numel * box_stage_width(m->b, stage[i].work.pos);
        TRY(move_task(m, &stage[i].work, true, -1, bytes, &m->stage_task[i]));
    }
    return 0;
}

int
move_parts(struct mover *m, struct pval *to)
{
    const struct box_plan *b = m->b;
    for (int32_t i = 0; i < b->npart; i++) {
        const struct box_work *w = &b->part[i];
        struct type local = layout_shard(to->layout, &to->type, w->pos);
        /* replicas in different memory spaces read different sources in place, so their steps differ */
        bool alike = w->same < i && m->cross->one_space;
        TRY(move_task(m, w, false, alike ? m->part_task[w->same] : -1, type_bytes(&local), &m->part_task[i]));
        part_is_result(&to->part[i], m->part_task[i], 0);
    }
    return 0;
}

static struct plan_move *
remember_move(struct lower *l, const struct hop *hop, const struct box_plan *b)
{
    ARENA_GROW(&l->tmp, l->move, l->nmove + 1, l->move_capacity);
    struct plan_move m = {.step = hop->step,
                          .operand = hop->operand,
                          .hop = hop->turn,
                          .value = hop->value,
                          .type = b->type,
                          .from = b->from,
                          .to = b->to,
                          .name = hop->name,
                          .bytes = b->bytes,
                          .bound = b->bound};
    if (b->relay) m.nleg = b->relay->nleg, m.nchunk = b->relay->nchunk, m.back = b->relay->back;
    return l->move[l->nmove++] = arena_dup(&l->plan->arena, &m, sizeof m);
}

/* Converts a value to a layout that differs in name only. No bytes move, because every shard is already on its
 * device. */
static void
move_name(struct pval *v, struct pval *to)
{
    for (int32_t k = 0; k < to->mine->n; k++) {
        const struct view *own = to->part[k].view;
        int32_t rank = to->layout->place->rank[to->mine->pos[k]];
        to->part[k] = v->part[local_set_find(v->mine, place_find(v->layout->place, rank))];
        /* an empty shard must have the shape of the new layout: {0, 4} differs from {4, 0} */
        if (view_numel(own) == 0) to->part[k].view = own;
    }
}

/* Returns the converted value for plan_scratch(), which lowers a single rank and runs nothing. The shards are
 * dense, and have no real source. */
static struct pval *
moved_alone(struct lower *l, struct pval *v, const struct layout *layout)
{
    struct pval *to = v;
    while (to && to->layout != layout) to = to == v ? v->moved : to->moved;
    if (to) return to;
    to = pval_new(l, &v->type, layout, moves_pieces(l, v), v->ref);
    for (int32_t k = 0; k < to->mine->n; k++) to->part[k].kind = ARG_LEAF;
    to->moved = v->moved;
    return v->moved = to;
}

/* Lowers one hop: makes the tasks that convert the value to the hop's layout. */
static int
move_once(struct lower *l, struct pval *v, const struct hop *hop, bool share, struct pval **out)
{
    const struct layout *layout = hop->to;
    const struct redistribution *x;
    struct pval *to = *out = pval_new(l, &v->type, layout, moves_pieces(l, v), v->ref);
    if (hop->number < 0) {
        move_name(v, to);
        return 0;
    }
    if (v->mine->n == 0 && to->mine->n == 0) return 0;
    TRY(redistribute_of(&l->crosses, &v->type, v->layout, layout, &x));
    /* no task of this partition takes part in the hop */
    if (to->mine->n == 0 && x->own->nstage + x->nin + x->nout == 0) return 0;
    struct plan_move *move = remember_move(l, hop, x->own);
    bool fetches = hop_fetches(l->program, move), done = false;
    if (!fetches) TRY(collective_parts(l, move, x, v, to, &done));
    if (redistribute_is_all(x) && !fetches && share && !done) TRY(shared_shard_parts(l, move, x, v, to, &done));
    return done ? 0 : move_across(l, move, x, v, to);
}

/* Returns true if the next hop of the outline converts this operand of the current node. */
static bool
is_next_read(const struct lower *l, int operand)
{
    const struct hop *h = &l->outline->hop[l->hop];
    return l->hop < l->outline->nhop && h->step == l->at && h->operand == operand;
}

/* Makes all hops of a move. Values between two hops are never shared with other moves, so the cost of a move does
 * not depend on other moves. */
int
lower_moved(struct lower *l, struct pval *v, const struct layout *layout, int operand, bool share, struct pval **out)
{
    struct pval *to = v;
    if (l->mines.first) {
        *out = moved_alone(l, v, layout);
        return 0;
    }
    if (!is_next_read(l, operand)) { /* the value has the layout already, or was converted to it earlier */
        if (v->layout != layout)
            for (to = v->moved; to->layout != layout;) to = to->moved;
        *out = to;
        return 0;
    }
    while (is_next_read(l, operand)) {
        const struct hop *hop = &l->outline->hop[l->hop];
        TRY(move_once(l, to, hop, share || hop->to != layout, &to));
        l->hop++;
    }
    *out = to;
    if (l->program->node[l->at].again) return 0;
    to->moved = v->moved;
    v->moved = to;
    return 0;
}
