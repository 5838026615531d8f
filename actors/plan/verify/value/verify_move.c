/* verify_move.c - proves that the tasks of a move do what box_plan() says, and that the move carries the right
 * value.
 *
 * The tasks of a move are consecutive: first those that fill stage buffers, then one per destination shard. The
 * proof derives the window of every step again, and compares it with the plan's. A derived window is inside its
 * source or destination, so an equal window is, too. */
#include "actors/plan/verify/value/verify_move.h"
#include "actors/plan/verify/value/verify_send.h"
#include "actors/plan/verify/value/verify_part.h"

/* Finds the value that a move reads. If the task names a view node, that is the node's result. Otherwise it is the
 * content of the first argument, of any task of the move, that identifies a value. REF_NONE: no argument does. */
static int
moved_value(struct values *s, int32_t task, const struct plan_move *b, struct ref *r)
{
    const struct plan *p = s->v->plan;
    int32_t node = p->task[task].node;
    *r = (struct ref){0};
    if (node >= 0 && p->program->node[node].op->flags & OP_VIEW) {
        *r = (struct ref){.kind = REF_NODE, .index = node};
        return 0;
    }
    for (int32_t i = task; i < p->ntask && task_hop(&p->task[i]) == b && r->kind == REF_NONE; i++)
        for (int32_t a = 0; a < p->task[i].narg && r->kind == REF_NONE; a++) {
            const struct arg *arg = &p->task[i].arg[a];
            if (arg->kind == ARG_REG && arg->index >= 0 && arg->index < p->task[i].nin &&
                p->task[i].in[arg->index].task >= task)
                continue; /* a source on another host, or an empty source, does not identify the value */
            struct content c;
            TRY(value_content(s, i, a, &c));
            *r = c.ref;
        }
    return 0;
}

/* Proves that moves are listed in the order of steps, operands and hops. So no two moves have the same name. */
static int
check_name(const struct values *s, int32_t task, const struct plan_move *b)
{
    const struct plan *p = s->v->plan;
    const struct plan_move *last = s->box ? p->move[s->box - 1] : NULL;
    int c = last ? b->step - last->step : 1;
    if (c == 0) c = b->operand - last->operand;
    if (c == 0) c = b->hop - last->hop;
    if (b->step < 0 || b->step >= p->program->nnode || b->operand < 0 || b->hop < 0 || c <= 0)
        return proof_fail(s->v, task, "its move (step %d, operand %d, hop %d) must sort after the previous move",
                          (int)b->step, b->operand, b->hop);
    return 0;
}

/* Begins the proof of the next move, at its first task. */
int
value_begin_move(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct plan_move *b = p->task[task].move.of;
    s->box++;
    s->box_task = 0;
    s->halfway = false;
    s->box_version = NULL;
    if (s->box >= p->nmove || p->move[s->box] != b)
        return proof_fail(s->v, task, "its move must be move %d of the plan", (int)s->box);
    TRY(check_name(s, task, b));
    TRY(redistribute_of(&s->crosses, &b->type, b->from, b->to, &s->cross));
    TRY(moved_value(s, task, b, &s->box_ref));
    /* If all sources of a move are on other hosts, this host cannot derive which value the move carries. This host
     * then trusts the value that the plan names. The hosts of the sources check that name, each in its own plan
     * partition. */
    if (s->box_ref.kind == REF_NONE && !redistribute_is_all(s->cross)) s->box_ref = b->value;
    struct type t = ref_type(p->program, s->box_ref);
    if (s->box_ref.kind != REF_NONE && !type_equal(&t, &b->type))
        return proof_fail(s->v, task, "moves a value of another type than its move has");
    if (s->box_ref.kind == REF_NONE && type_numel(&b->type) > 0)
        return proof_fail(s->v, task, "moves elements of a value that no task computes");
    return 0;
}

int
value_takes(const struct values *s, int32_t task, const struct box_from *f, const struct view *view, int64_t skip)
{
    const struct task *t = &s->v->plan->task[task];
    if (!view_same(f->view, view))
        return proof_fail(s->v, task, "the source window of a step does not match the layouts");
    return proof_same(s->v, task, "offset of a source", t->arg[f->arg].skip + f->skip,
                      skip * (int64_t)dtype_bytes(view->dtype));
}

int
value_fills(const struct values *s, int32_t task, const struct box_move *m, const struct view *view, int64_t skip)
{
    if (!view_same(m->view, view))
        return proof_fail(s->v, task, "the destination window of a step does not match the layouts");
    return proof_same(s->v, task, "offset of a destination", m->skip, skip * (int64_t)dtype_bytes(view->dtype));
}

int
value_source(struct values *s, int32_t task, const struct box_from *f, int32_t pos, const struct box *slice,
             struct view *view, int64_t *skip)
{
    const struct box_plan *b = s->cross->own;
    struct view part;
    struct box box;
    int64_t more;
    TRY(value_read(s, task, f->arg, s->box_ref, b->from, pos, &s->box_version, &part, skip));
    layout_box(b->from, &b->type, pos, &box);
    *view = value_window(&part, box.lo, slice, &more);
    *skip += more;
    return 0;
}

static int
check_from(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
           const struct box_from *f)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = s->cross->own;
    const struct box_source *from = &step->source[i];
    struct view view;
    int64_t skip;
    if (f->arg < 0 || f->arg >= t->narg)
        return proof_fail(s->v, task, "a move reads argument %d; the task has %d arguments", (int)f->arg, (int)t->narg);
    if (!redistribute_in_place(s->cross, w, t->move.stage, from)) return value_received(s, task, w, step, i, f);
    if (from->stage != BOX_PART) {
        struct content c;
        TRY(value_content(s, task, f->arg, &c));
        bool found = !c.layout && !c.received && c.box == t->move.of && c.pos == from->stage &&
                     value_stage_window(b, from->stage, step->slice, &view, &skip);
        if (!found)
            return proof_fail(s->v, task, "argument %d must be stage buffer %d of its move", (int)f->arg,
                              (int)from->stage);
    } else {
        TRY(value_source(s, task, f, from->pos, step->slice, &view, &skip));
    }
    return value_takes(s, task, f, &view, skip);
}

static int
check_box_step(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step,
               const struct box_move *m)
{
    const struct box_plan *b = s->cross->own;
    struct view view;
    int64_t skip;
    TRY(proof_same(s->v, task, "kind of a step of a move", m->verb, step->verb));
    TRY(proof_same(s->v, task, "reduction of a step of a move", m->reduce, step->reduce));
    TRY(proof_same(s->v, task, "number of sources of a step of a move", m->nfrom,
                   step->verb == BOX_FILL ? 0 : step->nsource));
    if (s->v->plan->task[task].move.stage) {
        if (!value_stage_window(b, w->same, step->slice, &view, &skip))
            return proof_fail(s->v, task, "a step fills no part of its stage buffer");
    } else {
        struct view part = value_part(b->to, &b->type, w->pos);
        view = value_window(&part, part.offset, step->slice, &skip);
    }
    TRY(value_fills(s, task, m, &view, skip));
    for (int32_t i = 0; i < m->nfrom; i++) TRY(check_from(s, task, w, step, i, &m->from[i]));
    return 0;
}

static int64_t
received_bytes(const struct box_plan *b, const struct box_work *w, const struct box_step *step, bool staged)
{
    int64_t n = 0;
    bool other_kind = !staged && b->from->place->kind != b->to->place->kind;
    for (int32_t i = 0; step->verb != BOX_FILL && i < step->nsource; i++)
        if (other_kind || step->source[i].rank != w->rank) n += box_source_bytes(b, step, i);
    return n;
}

static int
check_moves(struct values *s, int32_t task, const struct box_work *w)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = s->cross->own;
    int64_t bytes = 0, nsource = 0;
    TRY(proof_same(s->v, task, "number of steps", t->move.nstep, w->nstep));
    for (int32_t i = 0; i < w->nstep; i++) nsource += w->step[i].nsource;
    if (t->narg > nsource)
        return proof_fail(s->v, task, "has %d arguments, but only %lld sources", (int)t->narg, (long long)nsource);
    for (int32_t i = 0; i < w->nstep; i++) {
        TRY(check_box_step(s, task, w, &w->step[i], &t->move.step[i]));
        bytes += received_bytes(b, w, &w->step[i], t->move.stage);
    }
    return proof_same(s->v, task, "size of the received data", t->move.received, bytes);
}

/* Proves that the task names the node of the moved value, and acts once or once per micro-batch, as the value
 * requires. */
int
value_moves(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    struct ref r = s->box_ref;
    TRY(proof_same(s->v, task, "node", t->node, r.kind == REF_NODE ? r.index : r.kind == REF_LEAF ? -1 : t->node));
    const struct prog_node *anew = task_fetches(s->v->plan, t);
    if (anew) return value_rate(s, task, anew->piece, 1);
    if (r.kind == REF_NONE) return value_rate(s, task, t->nact > 1, 1);
    /* A value that does not change may be gathered again per micro-batch. Its other moves may then run per
     * micro-batch, too. */
    return value_rate(s, task, value_varies(s->v, r) || (t->nact > 1 && *value_again(s, r)), 1);
}

/* Proves that a shard is filled by its own device. A shard fetched from offload may also be filled by the device
 * of the offloaded value. */
static int
check_place(struct values *s, int32_t task, const struct box_work *w)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct place *from = t->move.of->from->place, *to = t->move.of->to->place;
    const struct plan_device *holder = &p->device[task_holder(t)];
    if (!redistribute_fetches(s->cross, p->program, t->move.of, w->pos)) return value_at(s, task, t->move.of->to);
    if (holder->kind != to->kind || holder->rank != w->rank)
        return proof_fail(s->v, task, "must fetch for the device of rank %d", (int)w->rank);
    return value_on(s, task, from->kind, from->rank[w->pos]);
}

int
value_move(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct plan_move *of = t->move.of;
    if (task == 0 || task_hop(&s->v->plan->task[task - 1]) != of) TRY(value_begin_move(s, task));
    const struct box_plan *b = s->cross->own;
    int32_t which;
    enum turn turn = value_turn(s, &which);
    bool staged = turn == FILL_STAGES;
    if (!staged && turn != FILL_PARTS)
        return proof_fail(s->v, task, "its move has no stage buffer or shard left to fill");
    const struct box_work *w = staged ? &b->stage[which].work : &b->part[which];
    struct content c = {.ref = s->box_ref, .layout = staged ? NULL : b->to, .pos = staged ? which : w->pos, .box = of};
    TRY(proof_same(s->v, task, "mesh position", t->pos, c.pos));
    TRY(proof_same(s->v, task, "flag \"fills a stage buffer\"", t->move.stage, staged));
    TRY(value_moves(s, task));
    int64_t bytes;
    if (staged) {
        TRY(value_on(s, task, b->from->place->kind, w->rank));
        bytes = b->stage[which].numel * box_stage_width(b, w->pos);
    } else {
        TRY(check_place(s, task, w));
        struct type local = layout_shard(b->to, &b->type, c.pos);
        bytes = type_bytes(&local);
    }
    TRY(proof_same(s->v, task, "size of a result", t->out[0].bytes, bytes));
    TRY(check_moves(s, task, w));
    *value_result(s, task, 0) = c;
    return value_end_move(s, task);
}
