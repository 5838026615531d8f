/* verify_send.c - what is sent is the window that its channel stands for, and what is received is taken for nothing
 * else.
 *
 * Which channels a move has, and in which order their tasks stand, follows from its layouts and the map (cross.h); the
 * windows are worked out again. What a channel brings is what the part at its other end proves to send: both say the
 * same number for it (channel.what), or are not connected. */
#include "actors/plan/verify_value.h"

#include "runtime/device.h"

bool
value_stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view, int64_t *skip)
{
    const struct box_stage *s = &b->stage[stage];
    for (int32_t i = 0; i < s->work.nstep; i++) {
        bool inside = true;
        const struct box *own = s->work.step[i].slice;
        struct type t = {.dtype = (uint8_t)box_stage_dtype(b, s->work.pos), .ndim = b->type.ndim};
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

/* ---- turns ---- */

enum turn
value_turn(struct values *s, int32_t *which)
{
    const struct cross *x = s->cross;
    struct cross_level done = {.nout = x->npart};
    int32_t n = s->box_task++;
    if (n < x->npart) return *which = n, SEND_ALL;
    n -= x->npart;
    for (int32_t k = 0; k < x->nlevel; done = x->level[k++]) {
        const struct cross_level *end = &x->level[k];
        if ((*which = done.nin + n) < end->nin) return RECV_ALL;
        n -= end->nin - done.nin;
        if ((*which = done.nstage + n) < end->nstage) return FILL_STAGES;
        n -= end->nstage - done.nstage;
        if ((*which = done.nout + n) < end->nout) return SEND_ALL;
        n -= end->nout - done.nout;
    }
    if ((*which = done.nin + n) < x->nin) return RECV_ALL;
    *which = n - (x->nin - done.nin);
    return *which < x->own->npart ? FILL_PARTS : NO_TURN;
}

int
value_end_move(const struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct cross *x = s->cross;
    if (task + 1 < p->ntask && task_hop(&p->task[task + 1]) == p->task[task].move.of) return 0;
    return proof_same(s->v, task, "parts of its move", s->box_task, x->nout + x->nin + x->own->nstage + x->own->npart);
}

/* ---- channels ---- */

/* The task's channel is this one, seen from here. */
static int
check_channel(struct values *s, int32_t task, const struct cross_channel *x, bool sends)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    if (t->channel < 0) return proof_fail(s->v, task, "has no channel");
    const struct channel *c = &p->channel[t->channel];
    const struct channel_name *n = &c->name;
    if (n->step != t->move.of->step || n->operand != t->move.of->operand || n->hop != t->move.of->hop)
        return proof_fail(s->v, task, "its channel is that of another hop");
    if (n->from_side != x->from_side || n->from != x->from || n->to_side != x->to_side || n->to != x->to)
        return proof_fail(s->v, task, "its channel is that of another part");
    TRY(proof_same(s->v, task, "sends of its channel", c->sends, sends));
    TRY(proof_same(s->v, task, "peer of its channel", c->peer, x->peer));
    TRY(proof_same(s->v, task, "turn of its channel", c->turn, cross_turn(s->cross, x, sends)));
    TRY(proof_same(s->v, task, "dtype of its channel", c->dtype, cross_dtype(s->cross, x)));
    TRY(proof_same(s->v, task, "bytes of its channel", c->bytes,
                   x->numel * (int64_t)dtype_bytes(cross_dtype(s->cross, x))));
    TRY(proof_same(s->v, task, "slices of its channel", c->nslice, sends ? x->nslice : 0));
    return proof_same(s->v, task, "content of its channel", (int64_t)c->what,
                      (int64_t)cross_what(s->cross, s->box_ref, x));
}

/* Slice i of what a channel carries, of which the window `got` lies so many bytes from the start of argument 0. */
static int
check_window(struct values *s, int32_t task, const struct cross_channel *x, int32_t i, const struct view *got,
             int64_t bytes)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = s->cross->own;
    struct view part, view;
    int64_t skip = 0, more = 0;
    if (x->from_side == SIDE_STAGE) {
        struct content c;
        TRY(value_content(s, task, 0, &c));
        bool found = !c.layout && !c.received && c.box == t->move.of && b->stage[c.pos].work.pos == x->from &&
                     value_stage_window(b, c.pos, x->slice[i].slice, &view, &more);
        if (!found) return proof_fail(s->v, task, "does not send the stage of part %d", (int)x->from);
    } else {
        struct box box;
        TRY(value_read(s, task, 0, s->box_ref, b->from, x->from, &part, &skip));
        TRY(value_version(s, task, 0, &s->box_version));
        layout_box(b->from, &b->type, x->from, &box);
        view = value_window(&part, box.lo, x->slice[i].slice, &more);
    }
    if (!view_same(got, &view)) return proof_fail(s->v, task, "a window that it sends is not what its channel says");
    return proof_same(s->v, task, "skip of what it sends", t->arg[0].skip + bytes,
                      (skip + more) * (int64_t)dtype_bytes(view.dtype));
}

/* The next task of a move: it is its turn; which of those. */
static int
begin_turn(struct values *s, int32_t task, enum turn turn, int32_t *which)
{
    const struct task *t = &s->v->plan->task[task];
    if (task == 0 || task_hop(&s->v->plan->task[task - 1]) != t->move.of) TRY(value_begin_move(s, task));
    if (value_turn(s, which) != turn) return proof_fail(s->v, task, "it is not its turn to %s", t->kind->name);
    return value_moves(s, task);
}

int
value_send(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    int32_t which;
    TRY(begin_turn(s, task, SEND_ALL, &which));
    const struct cross_channel *x = &s->cross->out[which];
    const struct place *from = s->cross->own->from->place;
    TRY(proof_same(s->v, task, "narg", t->narg, 1));
    TRY(value_on(s, task, from->kind, from->rank[cross_from(s->cross, x)]));
    TRY(check_channel(s, task, x, true));
    const struct channel_slice *slice = s->v->plan->channel[t->channel].slice;
    for (int32_t i = 0; i < x->nslice; i++) TRY(check_window(s, task, x, i, slice[i].view, slice[i].skip));
    return value_end_move(s, task);
}

/* What comes in is next, by a task of this kind; its register then holds it. */
static int
next_in(struct values *s, int32_t task, const struct cross_channel **x, const struct place **to)
{
    int32_t which;
    TRY(begin_turn(s, task, RECV_ALL, &which));
    *x = &s->cross->in[which];
    *to = ((*x)->to_side == SIDE_STAGE ? s->cross->own->from : s->cross->own->to)->place;
    TRY(proof_same(s->v, task, "bytes of a result", s->v->plan->task[task].out[0].bytes,
                   (*x)->numel * (int64_t)dtype_bytes(cross_dtype(s->cross, *x))));
    *value_result(s, task, 0) =
        (struct content){.ref = s->box_ref, .pos = which, .received = true, .box = s->v->plan->task[task].move.of};
    return value_end_move(s, task);
}

int
value_recv(struct values *s, int32_t task)
{
    const struct cross_channel *x;
    const struct place *to;
    TRY(next_in(s, task, &x, &to));
    TRY(proof_same(s->v, task, "narg", s->v->plan->task[task].narg, 0));
    TRY(value_on(s, task, to->kind, to->rank[cross_to(s->cross, x)]));
    return check_channel(s, task, x, false);
}

/* ---- from one space to another ---- */

/* Step i takes slice i, and puts it behind those before it. */
static int
check_carried(struct values *s, int32_t task, const struct cross_channel *x, int32_t i)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_move *m = &t->move.step[i];
    struct type type = s->cross->own->type;
    type.dtype = (uint8_t)cross_dtype(s->cross, x);
    for (int d = 0; d < type.ndim; d++) type.dim[d] = x->slice[i].slice->hi[d] - x->slice[i].slice->lo[d];
    struct view dense = view_dense(&type, NULL);
    TRY(proof_same(s->v, task, "verb of a move", m->verb, BOX_COPY));
    TRY(proof_same(s->v, task, "reduce of a move", m->reduce, RED_NONE));
    TRY(proof_same(s->v, task, "nfrom", m->nfrom, 1));
    TRY(proof_same(s->v, task, "the argument that it carries", m->from[0].arg, 0));
    if (!view_same(m->view, &dense)) return proof_fail(s->v, task, "what it carries does not lie dense");
    TRY(proof_same(s->v, task, "skip of a destination", m->skip,
                   x->offset[i] * (int64_t)dtype_bytes((enum dtype)type.dtype)));
    return check_window(s, task, x, i, m->from[0].view, m->from[0].skip);
}

int
value_transfer(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct cross_channel *x;
    const struct place *to;
    TRY(next_in(s, task, &x, &to));
    const struct place *from = s->cross->own->from->place;
    const struct plan_device *holder = &p->device[task_holder(t)];
    int kind = device_carrier(from->kind, to->kind);
    if (x->peer != p->memory) return proof_fail(s->v, task, "carries what comes from memory %d", (int)x->peer);
    int32_t reader = to->rank[cross_to(s->cross, x)];
    TRY(value_on(s, task, kind, kind == to->kind ? reader : from->rank[cross_from(s->cross, x)]));
    if (holder->kind != to->kind || holder->rank != reader)
        return proof_fail(s->v, task, "carries to another device than rank %d of the program", (int)reader);
    TRY(proof_same(s->v, task, "pos", t->pos, x->to));
    TRY(proof_same(s->v, task, "narg", t->narg, 1));
    TRY(proof_same(s->v, task, "stage", t->move.stage, false));
    TRY(proof_same(s->v, task, "received", t->move.received, 0));
    TRY(proof_same(s->v, task, "nstep", t->move.nstep, x->nslice));
    for (int32_t i = 0; i < x->nslice; i++) TRY(check_carried(s, task, x, i));
    return 0;
}

/* ---- what is received is read ---- */

int
value_received(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
               const struct box_from *f)
{
    const struct cross *x = s->cross;
    const struct task *t = &s->v->plan->task[task];
    int32_t which, channel = cross_find(x, w, t->move.stage, &step->source[i], step->slice, &which);
    struct type type = x->own->type;
    type.dtype = (uint8_t)cross_dtype(x, &x->in[channel]);
    struct content got;
    TRY(value_content(s, task, f->arg, &got));
    if (!got.received || got.box != t->move.of || got.pos != channel)
        return proof_fail(s->v, task, "argument %d does not hold what came for it", (int)f->arg);
    for (int d = 0; d < type.ndim; d++) type.dim[d] = step->slice->hi[d] - step->slice->lo[d];
    struct view dense = view_dense(&type, NULL);
    if (!view_same(f->view, &dense)) return proof_fail(s->v, task, "the window of what came is not what its step says");
    return proof_same(s->v, task, "skip of what came", t->arg[f->arg].skip + f->skip,
                      x->in[channel].offset[which] * (int64_t)dtype_bytes(type.dtype));
}
