/* verify_share.c - a part that several ranks fill together is filled whole, each slice once, with what the move says.
 *
 * The tasks of a shared move stand together: for each group of parts that are
 * alike its FILLs, then a JOIN for each of the parts. */
#include "actors/plan/verify_value.h"

#include "runtime/error.h"

static bool
within(const struct box *in, const struct box *out, int ndim)
{
    for (int d = 0; d < ndim; d++)
        if (in->lo[d] < out->lo[d] || in->hi[d] > out->hi[d] || in->lo[d] >= in->hi[d]) return false;
    return true;
}

/* A step of the move that says how this slice comes about: from parts of the source, all of them that it takes. */
static const struct box_step *
step_for(const struct box_plan *b, const struct box_move *m)
{
    for (int32_t i = 0; i < b->nstep; i++) {
        const struct box_step *s = &b->step[i];
        bool staged = false;
        for (int32_t k = 0; k < s->nsource; k++) staged = staged || s->source[k].staged;
        if (!staged && s->verb == m->verb && s->reduce == m->reduce && s->nsource == m->nfrom &&
            within(&m->slice, &s->slice, b->type.ndim))
            return s;
    }
    return NULL;
}

static int
check_source(struct values *s, int32_t task, const struct box_move *m, const struct box_source *from,
             const struct box_from *f)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = t->move.box;
    struct view part, view;
    struct box box;
    int64_t skip, more;
    if (f->arg < 0 || f->arg >= t->narg)
        return proof_fail(s->v, task, "a move reads argument %d of %d", (int)f->arg, (int)t->narg);
    TRY(value_read(s, task, f->arg, s->box_ref, b->from, from->pos, &part, &skip));
    TRY(value_version(s, task, f->arg, &s->box_version));
    layout_box(b->from, &b->type, from->pos, &box);
    view = value_window(&part, box.lo, &m->slice, &more);
    if (!value_same_view(&f->view, &view))
        return proof_fail(s->v, task, "the window of a source is not what its step says");
    return proof_same(s->v, task, "skip of a source", t->arg[f->arg].skip + f->skip,
                      (skip + more) * (int64_t)dtype_bytes(b->type.dtype));
}

static int
check_slice(struct values *s, int32_t task, const struct box_move *m, int64_t *received)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct box_plan *b = t->move.box;
    int64_t skip, size = (int64_t)dtype_bytes(b->type.dtype);
    struct box whole;
    layout_box(b->to, &b->type, t->pos, &whole);
    const struct box_step *step = step_for(b, m);
    if (!step || !within(&m->slice, &whole, b->type.ndim)) return proof_fail(s->v, task, "fills a slice of no step");
    struct view part = value_part(b->to, &b->type, t->pos);
    struct view view = value_window(&part, part.offset, &m->slice, &skip);
    if (!value_same_view(&m->view, &view))
        return proof_fail(s->v, task, "the window of a destination is not what its step says");
    TRY(proof_same(s->v, task, "skip of a destination", m->skip, skip * size));
    for (int32_t i = 0; i < m->nfrom; i++) {
        TRY(check_source(s, task, m, &step->source[i], &m->from[i]));
        if (step->source[i].rank != p->device[t->device].rank) *received += box_numel(&m->slice, b->type.ndim) * size;
    }
    return 0;
}

static int64_t
local_bytes(const struct box_plan *b, int32_t pos)
{
    struct type t = layout_shard(b->to, &b->type, pos);
    return type_bytes(&t);
}

/* What all tasks of a shared move have in common. */
static int
check_shared(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct box_plan *b = t->move.box;
    if (task == 0 || task_box(&p->task[task - 1]) != b) TRY(value_begin_move(s, task));
    if (t->pos < 0 || t->pos >= b->to->place->nrank) return proof_fail(s->v, task, "pos is %d", (int)t->pos);
    if (s->box_ref.kind == REF_NODE) TRY(proof_same(s->v, task, "node", t->node, s->box_ref.index));
    TRY(value_rate(s, task, false, 1));
    return proof_same(s->v, task, "bytes of a result", t->out[0].bytes, local_bytes(b, t->pos));
}

int
value_fill(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    int64_t received = 0;
    TRY(check_shared(s, task));
    for (int32_t i = 0; i < t->move.nstep; i++) TRY(check_slice(s, task, &t->move.step[i], &received));
    TRY(proof_same(s->v, task, "received", t->move.received, received));
    *value_result(s, task, 0) = (struct content){.layout = NULL, .pos = -1, .box = t->move.box};
    return 0;
}

/* Does this task fill slices of a part of the move? */
static bool
fills(const struct task *t, const struct box_plan *b)
{
    return task_box(t) == b && t->kind->flags & KIND_ALIAS && t->kind->flags & KIND_WRITES;
}

/* The slices of all that the task joins: they cover its part, none twice. */
static int
check_cover(struct values *s, int32_t task, int64_t *own)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct box_plan *b = t->move.box;
    int ndim = b->type.ndim;
    int64_t sum = 0;
    int32_t first = t->out[0].where.index;
    struct box mine, both;
    layout_box(b->to, &b->type, t->pos, &mine);
    for (int32_t i = 0; i < t->nin; i++) {
        const struct task *f = &p->task[t->in[i].task];
        if (p->task[t->in[i].task].out[t->in[i].out].control) continue;
        if (!fills(f, b) || (f->out[0].where.kind == IN_TASK ? f->out[0].where.index : t->in[i].task) != first)
            return proof_fail(s->v, task, "joins what is not of its part");
        for (int32_t k = 0; k < f->move.nstep; k++) {
            const struct box *slice = &f->move.step[k].slice;
            if (!within(slice, &mine, ndim)) return proof_fail(s->v, task, "joins a slice of another part");
            sum += box_numel(slice, ndim);
            if (f->device == t->device) *own += box_numel(slice, ndim);
            for (int32_t j = 0; j <= i; j++) {
                const struct task *g = &p->task[t->in[j].task];
                for (int32_t n = 0; n < (j < i ? (fills(g, b) ? g->move.nstep : 0) : k); n++)
                    if (box_intersect(slice, &g->move.step[n].slice, ndim, &both))
                        return proof_fail(s->v, task, "a slice is filled twice");
            }
        }
    }
    if (sum != box_numel(&mine, ndim))
        return proof_fail(s->v, task, "joins %lld elements of %lld", (long long)sum, (long long)box_numel(&mine, ndim));
    return 0;
}

int
value_join(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = t->move.box;
    int64_t own = 0;
    TRY(check_shared(s, task));
    TRY(value_at(s, task, b->to));
    if (t->out[0].where.kind != IN_TASK) return proof_fail(s->v, task, "joins nothing");
    TRY(check_cover(s, task, &own));
    TRY(proof_same(s->v, task, "received", t->move.received,
                   local_bytes(b, t->pos) - own * (int64_t)dtype_bytes(b->type.dtype)));
    *value_result(s, task, 0) = (struct content){.ref = s->box_ref, .layout = b->to, .pos = t->pos, .box = b};
    return 0;
}
