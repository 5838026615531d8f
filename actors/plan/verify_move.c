/* verify_move.c - the tasks of a move do what box_plan() says, on the value that is meant.
 *
 * The tasks of one move follow one another, first those that fill stages, then
 * one for each part of the destination. Every step's windows are worked out
 * again: a window that is equal lies inside its source or destination, because
 * its slice does. */
#include "actors/plan/verify_value.h"

/* Which value a move moves: a view says so itself, another is what the first argument holds. */
static int
moved_value(struct values *s, int32_t task, const struct box_plan *b, struct ref *r)
{
    const struct plan *p = s->v->plan;
    int32_t node = p->task[task].node;
    *r = (struct ref){0};
    if (node >= 0 && p->program->node[node].op->flags & OP_VIEW) {
        *r = (struct ref){.kind = REF_NODE, .index = node};
        return 0;
    }
    for (int32_t i = task; i < p->ntask && task_box(&p->task[i]) == b && r->kind == REF_NONE; i++)
        for (int32_t a = 0; a < p->task[i].narg && r->kind == REF_NONE; a++) {
            const struct arg *arg = &p->task[i].arg[a];
            if (arg->kind == ARG_REG && arg->index >= 0 && arg->index < p->task[i].nin &&
                p->task[i].in[arg->index].task >= task)
                continue; /* a stage of this move */
            struct content c;
            TRY(value_content(s, i, a, &c));
            *r = c.ref;
        }
    return 0;
}

/* The first task of the next move. */
int
value_begin_move(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct box_plan *b = p->task[task].move.box;
    s->box++;
    s->box_task = 0;
    s->box_version = NULL;
    if (s->box >= p->nbox || p->box[s->box] != b)
        return proof_fail(s->v, task, "its move is not number %d of the plan", (int)s->box);
    TRY(moved_value(s, task, b, &s->box_ref));
    struct type t = ref_type(p->program, s->box_ref);
    if (s->box_ref.kind != REF_NONE && !type_equal(&t, &b->type))
        return proof_fail(s->v, task, "moves a value of another type");
    if (s->box_ref.kind == REF_NONE && type_numel(&b->type) > 0) return proof_fail(s->v, task, "moves nothing");
    return 0;
}

/* The dense block of a staging part that holds slice. */
static bool
stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view, int64_t *skip)
{
    const struct box_stage *s = &b->stage[stage];
    for (int32_t i = 0; i < s->work.nstep; i++) {
        bool inside = true;
        const struct box *own = s->work.step[i].slice;
        struct type t = {.dtype = (uint8_t)layout_dtype(b->to, b->type.dtype), .ndim = b->type.ndim};
        for (int d = 0; d < t.ndim; d++) {
            inside = inside && slice->lo[d] >= own->lo[d] && slice->hi[d] <= own->hi[d];
            t.dim[d] = own->hi[d] - own->lo[d];
        }
        if (!inside) continue;
        struct view dense = view_dense(&t, NULL);
        *view = value_window(&dense, own->lo, slice, skip);
        *skip += s->offset[i];
        return true;
    }
    return false;
}

static int
check_from(struct values *s, int32_t task, const struct box_step *step, int32_t i, const struct box_from *f)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = t->move.box;
    const struct box_source *from = &step->source[i];
    struct view part, view;
    int64_t skip, more = 0;
    if (f->arg < 0 || f->arg >= t->narg)
        return proof_fail(s->v, task, "a move reads argument %d of %d", (int)f->arg, (int)t->narg);
    if (from->stage != BOX_PART) {
        struct content c;
        TRY(value_content(s, task, f->arg, &c));
        bool found =
            !c.layout && c.box == b && c.pos == from->stage && stage_window(b, from->stage, step->slice, &view, &skip);
        if (!found)
            return proof_fail(s->v, task, "argument %d is not stage %d of its move", (int)f->arg, (int)from->stage);
    } else {
        struct box box;
        TRY(value_read(s, task, f->arg, s->box_ref, b->from, from->pos, &part, &skip));
        TRY(value_version(s, task, f->arg, &s->box_version));
        layout_box(b->from, &b->type, from->pos, &box);
        view = value_window(&part, box.lo, step->slice, &more);
    }
    if (!value_same_view(f->view, &view))
        return proof_fail(s->v, task, "the window of a source is not what its step says");
    return proof_same(s->v, task, "skip of a source", t->arg[f->arg].skip + f->skip,
                      (skip + more) * (int64_t)dtype_bytes(view.dtype));
}

static int
check_step(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step,
           const struct box_move *m)
{
    const struct box_plan *b = s->v->plan->task[task].move.box;
    struct view view;
    int64_t skip;
    TRY(proof_same(s->v, task, "verb of a move", m->verb, step->verb));
    TRY(proof_same(s->v, task, "reduce of a move", m->reduce, step->reduce));
    TRY(proof_same(s->v, task, "nfrom", m->nfrom, step->verb == BOX_FILL ? 0 : step->nsource));
    if (s->v->plan->task[task].move.stage) {
        if (!stage_window(b, w->same, step->slice, &view, &skip)) return proof_fail(s->v, task, "a step fills nothing");
    } else {
        struct view part = value_part(b->to, &b->type, w->pos);
        view = value_window(&part, part.offset, step->slice, &skip);
    }
    if (!value_same_view(m->view, &view))
        return proof_fail(s->v, task, "the window of a destination is not what its step says");
    TRY(proof_same(s->v, task, "skip of a destination", m->skip, skip * (int64_t)dtype_bytes(view.dtype)));
    for (int32_t i = 0; i < m->nfrom; i++) TRY(check_from(s, task, step, i, &m->from[i]));
    return 0;
}

static int64_t
received(const struct box_plan *b, const struct box_work *w, const struct box_step *step)
{
    int64_t n = 0;
    for (int32_t i = 0; step->verb != BOX_FILL && i < step->nsource; i++)
        if (step->source[i].rank != w->rank) n += box_source_bytes(b, step, i);
    return n;
}

static int
check_moves(struct values *s, int32_t task, int32_t index)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = t->move.box;
    const struct box_work *w = index < b->nstage ? &b->stage[index].work : &b->part[index - b->nstage];
    int64_t bytes = 0, nsource = 0;
    TRY(proof_same(s->v, task, "nstep", t->move.nstep, w->nstep));
    for (int32_t i = 0; i < w->nstep; i++) nsource += w->step[i].nsource;
    if (t->narg > nsource)
        return proof_fail(s->v, task, "narg is %d for %lld sources", (int)t->narg, (long long)nsource);
    for (int32_t i = 0; i < w->nstep; i++) {
        TRY(check_step(s, task, w, &w->step[i], &t->move.step[i]));
        bytes += received(b, w, &w->step[i]);
    }
    return proof_same(s->v, task, "received", t->move.received, bytes);
}

int
value_move(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct box_plan *b = t->move.box;
    if (task == 0 || task_box(&p->task[task - 1]) != b) TRY(value_begin_move(s, task));
    int32_t index = s->box_task++, stages = b->nstage;
    if (index >= stages + b->to->place->nrank) return proof_fail(s->v, task, "its move has no such part");
    bool staged = index < stages;
    struct content c = {
        .ref = s->box_ref, .layout = staged ? NULL : b->to, .pos = staged ? index : index - stages, .box = b};
    TRY(proof_same(s->v, task, "pos", t->pos, c.pos));
    TRY(proof_same(s->v, task, "stage", t->move.stage, staged));
    TRY(proof_same(s->v, task, "node", t->node,
                   s->box_ref.kind == REF_NODE   ? s->box_ref.index
                   : s->box_ref.kind == REF_LEAF ? -1
                                                 : t->node));
    bool piece = s->box_ref.kind == REF_NONE ? t->nact > 1 : value_varies(s->v, s->box_ref);
    TRY(value_rate(s, task, piece, 1));
    int64_t bytes;
    if (staged) {
        int kind = place_find(b->to->place, b->stage[index].work.rank) >= 0 ? b->to->place->kind : b->from->place->kind;
        TRY(value_on(s, task, kind, b->stage[index].work.rank));
        bytes = b->stage[index].numel * box_width_to(b);
    } else {
        TRY(value_at(s, task, b->to));
        struct type local = layout_shard(b->to, &b->type, c.pos);
        bytes = type_bytes(&local);
    }
    TRY(proof_same(s->v, task, "bytes of a result", t->out[0].bytes, bytes));
    TRY(check_moves(s, task, index));
    *value_result(s, task, 0) = c;
    bool last = task + 1 == p->ntask || task_box(&p->task[task + 1]) != b;
    return last ? proof_same(s->v, task, "parts of its move", s->box_task, stages + b->to->place->nrank) : 0;
}
