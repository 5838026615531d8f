/* lower.c - program nodes become tasks: one for each rank, moves between them where layouts differ.
 *
 * A value may be wanted in several layouts; each move of it is made once,
 * however many want it. Views are no tasks: a part of a value carries strides,
 * and those who read it fold them in. */
#include "actors/lower.h"

#include "runtime/device.h"
#include "runtime/error.h"
#include "sbp/rule.h"

#include <string.h>

static int32_t
device_index(struct lower *l, int kind, int rank)
{
    const struct plan *p = l->plan;
    for (int32_t i = 0; i < p->ndevice; i++)
        if (p->device[i].kind == kind && p->device[i].rank == rank) return i;
    assert(!"a device of the program is not in the plan");
    return -1;
}

static struct draft *
draft_new(struct lower *l, enum task_kind kind, int32_t node, int device_kind, int rank, int32_t pos, bool piece,
          int32_t *id)
{
    if (l->ndraft == l->room) {
        int32_t room = l->room ? 2 * l->room : 256;
        struct draft *more = ARENA_ARRAY(&l->tmp, struct draft, room);
        if (l->ndraft) memcpy(more, l->draft, sizeof(*more) * (size_t)l->ndraft);
        for (int32_t i = 0; i < l->ndraft; i++)
            if (!more[i].in) more[i].in_end = &more[i].in;
        l->draft = more;
        l->room = room;
    }
    *id = l->ndraft++;
    struct draft *d = &l->draft[*id];
    d->in_end = &d->in;
    d->control = -1;
    d->piece = piece;
    struct task *t = &d->task;
    t->kind = (uint8_t)kind;
    t->node = node;
    t->device = (int16_t)device_index(l, device_kind, rank);
    t->thread = l->plan->device[t->device].thread;
    t->pos = pos;
    t->nact = piece ? l->program->pieces : 1;
    t->priority = (uint64_t)*id;
    t->told = node >= 0 ? node : l->at;
    if (t->told >= 0) t->line = l->program->node[t->told].line;
    if (node >= 0) {
        const struct prog_node *n = &l->program->node[node];
        t->phase = n->phase;
        t->name = n->op->name;
    }
    return d;
}

static void
draft_out(struct draft *d, int64_t bytes, int32_t every)
{
    d->out[d->nout++] = (struct out_port){ .nreg = 1, .every = every, .bytes = bytes, .root = -1 };
}

/* Does the result of this task come once a batch? */
static bool
once_a_batch(const struct draft *d)
{
    return !d->piece || d->task.kind == TASK_ACCUMULATE;
}

/* The port by which task `to` reads result `out` of task `from`; made when it is not there yet. */
static int
port_of(struct lower *l, int32_t to, int32_t from, int32_t out, int32_t *port)
{
    struct draft *d = &l->draft[to];
    *port = 0;
    for (struct edge *e = d->in; e; e = e->next, ++*port)
        if (e->task == from && e->out == out) return 0;
    const struct draft *f = &l->draft[from];
    bool once = once_a_batch(f);
    if (!once && !d->piece)
        return fail(E_PLAN, "%s: a value that differs from piece to piece enters what is computed once a batch",
                    d->task.name);
    struct edge *e = ARENA_NEW(&l->tmp, struct edge);
    *e = (struct edge){ .task = from, .out = out, .hold = once && d->piece ? l->program->pieces : 1, .need = 1 };
    *d->in_end = e;
    d->in_end = &e->next;
    d->nin++;
    return 0;
}

/* The next argument of the task reads this part. */
static int
add_part(struct lower *l, int32_t task, const struct part *part, int argument)
{
    struct arg *arg = &l->draft[task].task.arg[argument];
    *arg = (struct arg){ .kind = part->kind,
                         .index = part->index,
                         .skip = part->skip * (int64_t)dtype_bytes(part->view.dtype),
                         .piece_stride = part->piece_stride };
    if (part->kind == ARG_REG) TRY(port_of(l, task, part->index, part->out, &arg->index));
    return 0;
}

static void
arguments(struct lower *l, int32_t task, int n)
{
    struct task *t = &l->draft[task].task;
    t->narg = n;
    t->arg = ARENA_ARRAY(&l->plan->arena, struct arg, n);
}

/* The local view at a mesh position, dense, knowing its place in the whole. */
static struct view
local_view(const struct layout *layout, const struct type *type, int pos)
{
    struct type local = layout_shard(layout, type, pos);
    struct view v = view_dense(&local, NULL);
    struct box b;
    layout_box(layout, type, pos, &b);
    for (int i = 0; i < type->ndim; i++) {
        v.offset[i] = b.lo[i];
        v.whole[i] = type->dim[i];
    }
    return v;
}

static struct pval *
pval_new(struct lower *l, const struct type *type, const struct layout *layout, bool piece, int32_t node)
{
    struct pval *v = ARENA_NEW(&l->tmp, struct pval);
    v->type = *type;
    v->layout = layout;
    v->piece = piece;
    v->node = node;
    v->part = ARENA_ARRAY(&l->tmp, struct part, layout->place->nrank);
    for (int pos = 0; pos < layout->place->nrank; pos++) v->part[pos].view = local_view(layout, type, pos);
    return v;
}

static void
part_is_result(struct part *p, int32_t task, int32_t out)
{
    p->kind = ARG_REG;
    p->index = task;
    p->out = out;
    p->skip = 0;
}

/* ---- moves ---- */

/* The window of a part (its box in the whole starts at lo) that holds slice. */
static struct view
window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip)
{
    struct view v = *part;
    *skip = 0;
    for (int i = 0; i < v.ndim; i++) {
        *skip += (slice->lo[i] - lo[i]) * v.stride[i];
        v.dim[i] = slice->hi[i] - slice->lo[i];
    }
    return v;
}

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
        struct view v = window(&dense, s->slice[i].lo, slice, skip);
        *skip += s->slice_offset[i];
        return v;
    }
    assert(!"a staged slice is not in its stage");
    return (struct view){ 0 };
}

/* Which device kind a rank of the move has. */
static int
move_kind(const struct box_plan *b, int rank)
{
    return place_find(b->to->place, rank) >= 0 ? b->to->place->kind : b->from->place->kind;
}

/* The tasks of one move: an actor for each stage, one for each destination part. */
struct mover {
    struct lower *l;
    const struct box_plan *b;
    struct pval *from;
    int32_t *stage_task, *dst_task;
};

static int
move_args(struct mover *m, int32_t task, const struct box_step *step, const struct box_source *s, int32_t *arg)
{
    struct task *t = &m->l->draft[task].task;
    struct part staged = { .kind = ARG_REG, .view.dtype = m->b->type.dtype };
    const struct part *part = &m->from->part[s->staged ? 0 : s->pos];
    if (s->staged) {
        staged.index = m->stage_task[s->pos];
        part = &staged;
    }
    if (s->rank != step->dst)
        t->received += box_numel(&step->slice, m->b->type.ndim) * (int64_t)dtype_bytes(m->b->type.dtype);
    for (int i = 0; i < t->narg; i++) {
        const struct arg *a = &t->arg[i];
        bool same = a->kind == part->kind;
        if (same && part->kind == ARG_LEAF) same = a->index == part->index && a->skip == 0 && part->skip == 0;
        if (same && part->kind == ARG_REG) {
            const struct edge *e = m->l->draft[task].in;
            for (int k = 0; k < a->index; k++) e = e->next;
            same = e->task == part->index && e->out == part->out &&
                   a->skip == part->skip * (int64_t)dtype_bytes(part->view.dtype);
        }
        if (same) {
            *arg = i;
            return 0;
        }
    }
    *arg = t->narg++;
    return add_part(m->l, task, part, *arg);
}

static int
move_from(struct mover *m, int32_t task, const struct box_step *step, int i, struct box_from *from)
{
    const struct box_plan *b = m->b;
    const struct box_source *s = &step->source[i];
    int64_t skip;
    TRY(move_args(m, task, step, s, &from->arg));
    if (s->staged) {
        from->view = stage_window(b, s->pos, &step->slice, &skip);
    } else {
        struct box box;
        layout_box(b->from, &b->type, s->pos, &box);
        from->view = window(&m->from->part[s->pos].view, box.lo, &step->slice, &skip);
    }
    from->skip = skip * (int64_t)dtype_bytes(b->type.dtype);
    return 0;
}

static int
move_step(struct mover *m, int32_t task, const struct box_step *step)
{
    const struct box_plan *b = m->b;
    struct task *t = &m->l->draft[task].task;
    struct box_move *move = &t->move[t->nmove++];
    int64_t skip;
    if (step->to_stage) {
        move->view = stage_window(b, step->dst_index, &step->slice, &skip);
    } else {
        struct view part = local_view(b->to, &b->type, step->dst_index);
        move->view = window(&part, part.offset, &step->slice, &skip);
    }
    move->skip = skip * (int64_t)dtype_bytes(b->type.dtype);
    move->verb = step->verb;
    move->reduce = step->reduce;
    move->nfrom = step->verb == BOX_FILL ? 0 : step->nsource;
    move->from = ARENA_ARRAY(&m->l->plan->arena, struct box_from, move->nfrom);
    for (int i = 0; i < move->nfrom; i++) TRY(move_from(m, task, step, i, &move->from[i]));
    return 0;
}

/* One box actor: all steps that write the same part. */
static int
move_task(struct mover *m, bool to_stage, int index, int rank, int64_t bytes, int32_t *id)
{
    const struct box_plan *b = m->b;
    int nmove = 0, nsource = 0;
    for (int i = 0; i < b->nstep; i++) {
        const struct box_step *s = &b->step[i];
        if (s->to_stage != to_stage || s->dst_index != index) continue;
        nmove++;
        nsource += s->nsource;
    }
    struct draft *d =
        draft_new(m->l, TASK_BOX, m->from->node, move_kind(b, rank), rank, index, m->from->piece, id);
    d->task.move = ARENA_ARRAY(&m->l->plan->arena, struct box_move, nmove);
    d->task.box = (struct box_plan *)b;
    d->task.name = arena_strdup(&m->l->plan->arena, b->name);
    draft_out(d, bytes, 1);
    d->task.nresult = 1;
    arguments(m->l, *id, nsource);
    m->l->draft[*id].task.narg = 0;
    for (int i = 0; i < b->nstep; i++) {
        const struct box_step *s = &b->step[i];
        if (s->to_stage == to_stage && s->dst_index == index) TRY(move_step(m, *id, s));
    }
    return 0;
}

static void
remember_box(struct lower *l, struct box_plan *b)
{
    if (l->nbox == l->box_room) {
        int32_t room = l->box_room ? 2 * l->box_room : 16;
        struct box_plan **more = ARENA_ARRAY(&l->tmp, struct box_plan *, room);
        if (l->nbox) memcpy(more, l->box, sizeof(*more) * (size_t)l->nbox);
        l->box = more;
        l->box_room = room;
    }
    l->box[l->nbox++] = b;
}

static int
move_tasks(struct lower *l, const struct box_plan *b, struct pval *from, struct pval *to)
{
    struct mover m = { .l = l, .b = b, .from = from };
    size_t size = dtype_bytes(b->type.dtype);
    m.stage_task = ARENA_ARRAY(&l->tmp, int32_t, b->nstage);
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

/* The value in another layout. */
static int
moved(struct lower *l, struct pval *v, const struct layout *layout, struct pval **out)
{
    *out = v;
    if (v->layout == layout) return 0;
    for (struct pval *m = v->moved; m; m = m->moved)
        if (m->layout == layout) {
            *out = m;
            return 0;
        }
    struct box_plan *b;
    TRY(box_plan(&l->plan->arena, &v->type, v->layout, layout, &b));
    struct pval *to = pval_new(l, &v->type, layout, v->piece, v->node);
    if (b->alias) {
        for (int pos = 0; pos < layout->place->nrank; pos++) {
            struct view own = to->part[pos].view;
            to->part[pos] = v->part[place_find(v->layout->place, layout->place->rank[pos])];
            /* Where there is nothing, its shape is the new layout's all the same: {0, 4} is not {4, 0}. */
            if (view_numel(&own) == 0) to->part[pos].view = own;
        }
    } else {
        remember_box(l, b);
        TRY(move_tasks(l, b, v, to));
    }
    to->moved = v->moved;
    v->moved = to;
    *out = to;
    return 0;
}

/* ---- nodes ---- */

static struct pval *
value_of(struct lower *l, struct ref r)
{
    return r.kind == REF_LEAF ? l->leaf_val[r.index] : l->node_val[r.index * OP_OUT + r.out];
}

/* The operands of a node, each in the layout that it wants; NULL for numbers and absent ones. */
static int
operands(struct lower *l, const struct prog_node *n, struct pval **in)
{
    for (int i = 0; i < n->nin; i++) {
        in[i] = NULL;
        if (n->in[i].kind != REF_NODE && n->in[i].kind != REF_LEAF) continue;
        const struct layout *want = n->op->flags & OP_MOVE ? n->layout[0] : n->want[i];
        TRY(moved(l, value_of(l, n->in[i]), want, &in[i]));
    }
    return 0;
}

static struct call *
call_of(struct lower *l, const struct prog_node *n, struct arena *a)
{
    struct call *c = ARENA_NEW(a, struct call);
    struct type *in = ARENA_ARRAY(a, struct type, n->nin);
    for (int i = 0; i < n->nin; i++) in[i] = ref_type(l->program, n->in[i]);
    *c = (struct call){ .op = n->op, .nin = n->nin, .nout = n->nout, .in = in, .attr = n->attr, .layout = n->want };
    c->out = arena_dup(a, n->type, sizeof(*n->type) * (size_t)n->nout);
    return c;
}

static struct view
number_view(const struct type *t, void *data)
{
    return (struct view){ .data = data, .dtype = t->dtype };
}

/* How many threads a kernel is worth: a team costs microseconds to wake and as much to join, so what one core does in
 * less than TEAM_NS is left to one. Rates are those of one core: 280 flop and 20 bytes a nanosecond. */
static int
team_of(const struct lower *l, const struct call *c, int nrank)
{
    enum { TEAM_NS = 200000 };
    double bytes = 0, flops = 0;
    int threads = MAX(1, l->program->threads / l->plan->nthread);
    struct rule rule;
    struct arena tmp = { 0 };
    if (threads == 1) return 1;
    for (int i = 0; i < c->nin; i++) bytes += (double)type_bytes(&c->in[i]);
    for (int k = 0; k < c->nout; k++) bytes += (double)type_bytes(&c->out[k]);
    if (c->op->flops) flops = c->op->flops(c);
    else if (!(c->op->flags & OP_SOURCE) && !call_infer(&tmp, &(struct call){ .op = c->op, .nin = c->nin,
             .nout = c->nout, .in = c->in, .out = (struct type[OP_OUT]){ { 0 } }, .attr = c->attr }, &rule))
        flops = 2 * rule_points(&rule);
    arena_fini(&tmp);
    return MAX(flops / 280, bytes / 20) / nrank > TEAM_NS ? threads : 1;
}

static int
compute_task(struct lower *l, int32_t node, int pos, struct pval **in, struct call *c)
{
    const struct prog_node *n = &l->program->node[node];
    const struct layout *out = n->layout[0];
    int32_t id;
    struct draft *d =
        draft_new(l, TASK_COMPUTE, node, out->place->kind, out->place->rank[pos], pos, n->piece, &id);
    d->checks = n->op->flags & OP_CHECKS;
    struct view *view = ARENA_ARRAY(&l->tmp, struct view, n->nin + n->nout);
    arguments(l, id, n->nin);
    for (int i = 0; i < n->nin; i++) {
        if (in[i]) {
            view[i] = in[i]->part[pos].view;
            TRY(add_part(l, id, &in[i]->part[pos], i));
        } else if (n->in[i].kind == REF_NUMBER) {
            view[i] = number_view(&c->in[i], NULL);
            l->draft[id].task.arg[i] = (struct arg){ .kind = ARG_NUMBER, .index = n->in[i].index };
        }
    }
    for (int k = 0; k < n->nout; k++) {
        view[n->nin + k] = local_view(n->layout[k], &n->type[k], pos);
        struct type local = layout_shard(n->layout[k], &n->type[k], pos);
        draft_out(&l->draft[id], type_bytes(&local), 1);
        part_is_result(&l->node_val[node * OP_OUT + k]->part[pos], id, k);
    }
    struct task *t = &l->draft[id].task;
    t->nresult = n->nout;
    struct kcall k = { .call = c, .in = view, .out = view + n->nin, .threads = team_of(l, c, out->place->nrank) };
    return exec_new(&k, out->place->kind, &t->exec);
}

/* ---- chains of element-wise nodes ---- */

/* A chain in the making, and what the plan keeps of it. */
struct chain {
    struct fuse_step step[FUSE_STEPS];
    struct plan_chain plan;
};

static int
chain_input(struct plan_chain *c, struct ref r, const struct layout *want)
{
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].kind == r.kind && c->in[i].index == r.index && c->in[i].out == r.out && c->want[i] == want) return i;
    c->in[c->nin] = r;
    c->want[c->nin] = want;
    return c->nin++;
}

static int
chain_step(const struct plan_chain *c, int32_t node, int n)
{
    for (int i = 0; i < n; i++)
        if (c->member[i] == node) return i;
    return -1;
}

static void
chain_of(struct lower *l, int32_t node, struct chain *chain)
{
    struct arena *a = &l->plan->arena;
    struct plan_chain *c = &chain->plan;
    *c = (struct plan_chain){ .member = ARENA_ARRAY(a, int32_t, FUSE_STEPS),
                              .in = ARENA_ARRAY(a, struct ref, FUSE_INPUTS),
                              .want = ARENA_ARRAY(a, const struct layout *, FUSE_INPUTS),
                              .shown = ARENA_ARRAY(a, int32_t, OP_OUT) };
    c->nstep = fuse_members(l, node, c->member);
    for (int i = 0; i < c->nstep; i++) {
        const struct prog_node *m = &l->program->node[c->member[i]];
        struct fuse_step *s = &chain->step[i];
        *s = (struct fuse_step){ .call = call_of(l, m, a), .out = -1 };
        for (int k = 0; k < m->nin; k++) {
            int inside = m->in[k].kind == REF_NODE ? chain_step(c, m->in[k].index, i) : -1;
            s->arg[k] = inside >= 0 ? (struct fuse_arg){ true, inside } : (struct fuse_arg){ false, -1 };
            if (inside < 0 && m->in[k].kind != REF_NONE)
                s->arg[k].index = chain_input(c, m->in[k], m->in[k].kind == REF_NUMBER ? NULL : m->want[k]);
        }
        if (!fuse_shown(l, c->member[i])) continue;
        s->out = c->nout;
        c->shown[c->nout++] = c->member[i];
    }
}

static const char *
chain_name(struct lower *l, const struct chain *chain)
{
    struct str s = { 0 };
    for (int i = 0; i < chain->plan.nstep; i++) str_addf(&s, "%s%s", i ? "+" : "", chain->step[i].call->op->name);
    const char *name = arena_strdup(&l->plan->arena, str_text(&s));
    str_free(&s);
    return name;
}

static int
chain_task(struct lower *l, const struct chain *chain, struct plan_chain *c, const char *name, struct pval *const *in,
           int pos)
{
    int32_t node = c->member[c->nstep - 1], id;
    const struct prog_node *last = &l->program->node[node];
    const struct layout *out = last->layout[0];
    struct view *view = ARENA_ARRAY(&l->tmp, struct view, c->nin + c->nout);
    struct draft *d = draft_new(l, TASK_COMPUTE, node, out->place->kind, out->place->rank[pos], pos, last->piece, &id);
    d->task.name = name;
    d->task.chain = c;
    arguments(l, id, c->nin);
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].kind == REF_NUMBER) {
            struct type t = ref_type(l->program, c->in[i]);
            view[i] = number_view(&t, NULL);
            l->draft[id].task.arg[i] = (struct arg){ .kind = ARG_NUMBER, .index = c->in[i].index };
        } else {
            view[i] = in[i]->part[pos].view;
            TRY(add_part(l, id, &in[i]->part[pos], i));
        }
    }
    for (int k = 0; k < c->nout; k++) {
        const struct prog_node *n = &l->program->node[c->shown[k]];
        struct type local = layout_shard(n->layout[0], &n->type[0], pos);
        view[c->nin + k] = local_view(n->layout[0], &n->type[0], pos);
        draft_out(&l->draft[id], type_bytes(&local), 1);
        part_is_result(&l->node_val[c->shown[k] * OP_OUT]->part[pos], id, k);
    }
    struct task *t = &l->draft[id].task;
    t->nresult = c->nout;
    return exec_fused(c->nstep, chain->step, c->nin, view, c->nout, view + c->nin, out->place->kind, &t->exec);
}

static int
lower_chain(struct lower *l, int32_t node)
{
    struct chain chain;
    struct pval *in[FUSE_INPUTS] = { 0 };
    chain_of(l, node, &chain);
    struct plan_chain *c = arena_dup(&l->plan->arena, &chain.plan, sizeof chain.plan);
    const char *name = chain_name(l, &chain);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].kind != REF_NUMBER) TRY(moved(l, value_of(l, c->in[i]), c->want[i], &in[i]));
    for (int k = 0; k < c->nout; k++) {
        const struct prog_node *n = &l->program->node[c->shown[k]];
        l->node_val[c->shown[k] * OP_OUT] = pval_new(l, &n->type[0], n->layout[0], n->piece, c->shown[k]);
    }
    for (int pos = 0; pos < l->program->node[node].layout[0]->place->nrank; pos++)
        TRY(chain_task(l, &chain, c, name, in, pos));
    return 0;
}

/* A task that reads one part: an accumulation, or a dense copy of a window. */
static int
single_task(struct lower *l, enum task_kind kind, struct pval *v, int pos, bool piece, int32_t *id)
{
    const struct place *p = v->layout->place;
    struct draft *d = draft_new(l, kind, v->node, p->kind, p->rank[pos], pos, piece, id);
    struct type local = layout_shard(v->layout, &v->type, pos);
    d->task.type = local;
    d->task.name = kind == TASK_ACCUMULATE ? "accumulate" : "copy";
    d->task.source = v->part[pos].view;
    draft_out(d, type_bytes(&local), kind == TASK_ACCUMULATE ? l->program->pieces : 1);
    d->task.nresult = 1;
    arguments(l, *id, 1);
    return add_part(l, *id, &v->part[pos], 0);
}

/* A view of part pos; where no strides show it (a reshape of a transposed part), a dense copy, which lies as the result. */
static int
view_part(struct lower *l, int32_t node, const struct call *c, struct pval *in, int pos, struct part *out)
{
    const struct prog_node *n = &l->program->node[node];
    const struct part *from = &in->part[pos];
    struct view v = out->view;
    int64_t skip = 0;
    if (n->op->view(c, &from->view, &v, &skip)) {
        int32_t id;
        TRY(single_task(l, TASK_COPY, in, pos, in->piece, &id));
        l->draft[id].task.node = node;
        part_is_result(out, id, 0);
        return 0;
    }
    *out = *from;
    out->view = v;
    out->skip = from->skip + skip;
    return 0;
}

static int
lower_node(struct lower *l, int32_t node)
{
    const struct prog_node *n = &l->program->node[node];
    struct pval **in = ARENA_ARRAY(&l->tmp, struct pval *, n->nin);
    if (l->group[node] != node) return 0; /* computed with a later one */
    if (l->group_size[node] > 1) return lower_chain(l, node);
    TRY(operands(l, n, in));
    if (n->op->flags & OP_MOVE && !n->accumulate) {
        l->node_val[node * OP_OUT] = in[0];
        return 0;
    }
    for (int k = 0; k < n->nout; k++)
        l->node_val[node * OP_OUT + k] = pval_new(l, &n->type[k], n->layout[k], n->piece && !n->accumulate, node);
    struct call *c = call_of(l, n, &l->plan->arena);
    for (int pos = 0; pos < n->layout[0]->place->nrank; pos++) {
        struct part *out = &l->node_val[node * OP_OUT]->part[pos];
        int32_t id;
        if (n->accumulate) {
            TRY(single_task(l, TASK_ACCUMULATE, in[0], pos, true, &id));
            part_is_result(out, id, 0);
        } else if (n->op->flags & OP_VIEW) {
            TRY(view_part(l, node, c, in[0], pos, out));
        } else {
            TRY(compute_task(l, node, pos, in, c));
        }
    }
    return 0;
}

static void
lower_leaves(struct lower *l)
{
    struct plan *p = l->plan;
    for (int32_t i = 0; i < l->program->nleaf; i++) {
        const struct prog_leaf *f = &l->program->leaf[i];
        struct pval *v = pval_new(l, &f->type, f->layout, f->piece, -1);
        for (int pos = 0; pos < f->layout->place->nrank; pos++) {
            struct part *part = &v->part[pos];
            part->kind = ARG_LEAF;
            part->index = p->leaf_first[i] + pos;
            struct type local = layout_shard(f->layout, &f->type, pos);
            part->piece_stride = f->piece ? type_bytes(&local) : 0;
        }
        l->leaf_val[i] = v;
    }
}

int
lower_nodes(struct lower *l)
{
    const struct program *p = l->program;
    l->node_val = ARENA_ARRAY(&l->tmp, struct pval *, MAX(1, p->nnode * OP_OUT));
    l->leaf_val = ARENA_ARRAY(&l->tmp, struct pval *, MAX(1, p->nleaf));
    lower_leaves(l);
    fuse_nodes(l);
    for (int32_t i = 0; i < p->nnode; i++) {
        l->at = i;
        int status = lower_node(l, i);
        if (!status) continue;
        const struct line *at = &p->node[i].line;
        if (at->file) err_note("%s:%d", at->file, at->line);
        return status;
    }
    return 0;
}

/* ---- roots ---- */

/* A part may be written straight into the root's buffer when it is a whole register that no other root has. */
static bool
takes_root(const struct lower *l, const struct part *part, bool piece)
{
    if (part->kind != ARG_REG || part->skip != 0 || !view_is_dense(&part->view)) return false;
    const struct draft *d = &l->draft[part->index];
    const struct out_port *o = &d->out[part->out];
    int64_t bytes = view_numel(&part->view) * (int64_t)dtype_bytes(part->view.dtype);
    return o->root < 0 && o->bytes == bytes && piece == !once_a_batch(d);
}

int
lower_roots(struct lower *l)
{
    struct plan *p = l->plan;
    for (int32_t k = 0; k < l->program->nroot; k++) {
        const struct prog_root *root = &l->program->root[k];
        struct pval *v = value_of(l, root->ref);
        for (int pos = 0; pos < v->layout->place->nrank; pos++) {
            struct part part = v->part[pos];
            if (!takes_root(l, &part, root->join)) {
                int32_t id;
                p->over[k] = false;
                TRY(single_task(l, TASK_COPY, v, pos, root->join, &id));
                part_is_result(&part, id, 0);
            }
            struct out_port *o = &l->draft[part.index].out[part.out];
            o->root = p->root_first[k] + pos;
            if (root->join) o->nreg = l->program->pieces;
        }
    }
    return 0;
}

/* ---- order ---- */

bool
lower_before(const struct lower *l, int32_t a, int32_t b)
{
    return l->reach && (l->reach[(size_t)b * (size_t)l->words + (size_t)a / 64] >> (a % 64) & 1);
}

void
lower_order(struct lower *l, int32_t a, int32_t b)
{
    assert(a < b);
    if (lower_before(l, a, b)) return;
    struct draft *from = &l->draft[a], *to = &l->draft[b];
    if (from->control < 0) {
        from->control = from->nout;
        from->out[from->nout++] = (struct out_port){ .control = true, .nreg = 1, .every = 1, .root = -1 };
    }
    struct edge *e = ARENA_NEW(&l->tmp, struct edge);
    *e = (struct edge){ .task = a, .out = from->control, .hold = 1, .need = 1 };
    if (from->task.nact > to->task.nact) e->need = from->task.nact;
    if (from->task.nact < to->task.nact) e->hold = to->task.nact;
    *to->in_end = e;
    to->in_end = &e->next;
    to->nin++;
    if (!l->reach) return;
    uint64_t *rb = l->reach + (size_t)b * (size_t)l->words, *ra = l->reach + (size_t)a * (size_t)l->words;
    for (int32_t i = 0; i < l->words; i++) rb[i] |= ra[i];
    rb[a / 64] |= 1ull << (a % 64);
}
