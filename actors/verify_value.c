/* verify_value.c - every task reads and writes the bytes that the program means.
 *
 * Goes through the tasks in order and keeps for each result what it holds: part
 * `pos` of a program value in a layout. What a task must read follows from the
 * program; that it is there, under the offset and strides that the task uses, is
 * what is shown. Moves are transparent (the same value in another layout); a
 * view operator is found again by asking its record how it lies in its operand.
 * So a plan that passes computes its program, whatever made it; the kernels
 * themselves, and box_plan(), are trusted. */
#include "actors/verify.h"

#include "runtime/error.h"

struct content {
    struct ref ref;              /* NODE or LEAF, never a move; NONE: a move of nothing, so of no bytes */
    const struct layout *layout; /* NULL: a staging part */
    int32_t pos;                 /* mesh position; staging: which stage */
    const struct box_plan *box;  /* staging, and ref NONE */
};

/* The steps of a move by what they fill: stages, then destination parts. */
struct steps {
    int32_t *first; /* [nstage + nrank + 1] */
    const struct box_step **step;
};

struct values {
    struct proof *v;
    struct content *out; /* by out-port */
    int32_t *done;       /* by node: positions computed so far */
    int32_t *root_task;  /* by root part: who writes it */
    int32_t sum;         /* the node whose sums come now */
    int32_t box;         /* index of the move that the tasks now are part of, and how many of them were seen */
    int32_t box_task;
    struct ref box_ref;
    struct steps steps;
};

/* ---- where a part is found ---- */

/* A part by itself: dense, knowing its place in the whole. */
static struct view
part_view(const struct layout *l, const struct type *t, int pos)
{
    struct type local = layout_shard(l, t, pos);
    struct view v = view_dense(&local, NULL);
    struct box b;
    layout_box(l, t, pos, &b);
    for (int d = 0; d < t->ndim; d++) {
        v.offset[d] = b.lo[d];
        v.whole[d] = t->dim[d];
    }
    return v;
}

/* The window of a part (it begins at lo) that holds slice; *skip elements from the part's start. */
static struct view
window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip)
{
    struct view v = *part;
    *skip = 0;
    for (int d = 0; d < v.ndim; d++) {
        *skip += (slice->lo[d] - lo[d]) * v.stride[d];
        v.dim[d] = slice->hi[d] - slice->lo[d];
    }
    return v;
}

static bool
same_view(const struct view *a, const struct view *b)
{
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int d = 0; same && d < a->ndim; d++) same = a->dim[d] == b->dim[d] && a->stride[d] == b->stride[d];
    return same;
}

static const struct prog_node *
node_of(const struct proof *v, struct ref r)
{
    return r.kind == REF_NODE ? &v->plan->program->node[r.index] : NULL;
}

/* The value itself, however often it was moved. */
static struct ref
unmoved(const struct proof *v, struct ref r)
{
    for (const struct prog_node *n = node_of(v, r); n && n->op->flags & OP_MOVE && !n->accumulate; n = node_of(v, r))
        r = n->in[0];
    return r;
}

/* The mesh position of layout `in` that has the same bytes as position pos of l on the same device; -1. */
static int
position_in(const struct layout *in, const struct layout *l, int pos, const struct type *t)
{
    if (in == l) return pos;
    int at = in->place->kind == l->place->kind ? place_find(in->place, l->place->rank[pos]) : -1;
    if (at < 0) return -1;
    if (layout_has_partial(in) || layout_has_partial(l)) return layout_same_boxes(in, l, t) ? at : -1;
    struct box a, b;
    layout_box(in, t, at, &a);
    layout_box(l, t, pos, &b);
    bool same = true;
    for (int d = 0; d < t->ndim; d++) same = same && a.lo[d] == b.lo[d] && a.hi[d] == b.hi[d];
    bool empty = box_numel(&a, t->ndim) == 0 && box_numel(&b, t->ndim) == 0;
    return same || empty ? at : -1;
}

static bool find_part(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
                      struct view *view, int64_t *skip);

/* The same for the result of a view operator: its record says how it lies in its operand. */
static bool
find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos, struct view *view,
          int64_t *skip)
{
    struct view in;
    if (!find_part(v, c, n->in[0], n->want[0], pos, &in, skip)) return false;
    struct type type = ref_type(v->plan->program, n->in[0]), result = n->type[0];
    struct call call = {
        .op = n->op, .nin = n->nin, .nout = 1, .in = &type, .out = &result, .attr = n->attr, .layout = n->want};
    int64_t more = 0;
    *view = part_view(n->layout[0], &result, pos);
    if (n->op->view(&call, &in, view, &more)) return false;
    *skip += more;
    return true;
}

/* How part pos of value r in layout l lies in a register or leaf that holds c: view, and elements to skip. */
static bool
find_part(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
          struct view *view, int64_t *skip)
{
    if (!c->layout) return false;
    r = unmoved(v, r);
    struct type t = ref_type(v->plan->program, r);
    const struct layout *found = c->layout;
    *skip = 0;
    if (c->ref.kind == REF_NONE || (c->ref.kind == r.kind && c->ref.index == r.index && c->ref.out == r.out)) {
        if (c->ref.kind == REF_NONE && !type_equal(&t, &c->box->type)) return false;
        if (position_in(c->layout, l, pos, &t) != c->pos) return false;
        *view = part_view(c->layout, &t, c->pos);
    } else {
        const struct prog_node *n = node_of(v, r);
        if (!n || !(n->op->flags & OP_VIEW) || n->accumulate) return false;
        int at = position_in(n->layout[0], l, pos, &t);
        if (at < 0 || !find_view(v, c, n, at, view, skip)) return false;
        found = n->layout[0];
    }
    /* Where there is nothing, it has the shape that l gives it. */
    if (found != l && view_numel(view) == 0) *view = part_view(l, &t, pos);
    return true;
}

/* What argument a of a task holds. */
static int
content_of(const struct values *s, int32_t task, int32_t a, struct content *c)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct arg *arg = &t->arg[a];
    if (arg->kind == ARG_REG && arg->index >= 0 && arg->index < t->nin) {
        const struct in_port *in = &t->in[arg->index];
        if (p->task[in->task].out[in->out].control)
            return proof_fail(s->v, task, "argument %d is a control edge", (int)a);
        *c = s->out[s->v->first_out[in->task] + in->out];
        return 0;
    }
    if (arg->kind != ARG_LEAF || arg->index < 0 || arg->index >= p->nleaf_part)
        return proof_fail(s->v, task, "argument %d is of kind %d, index %d", (int)a, arg->kind, (int)arg->index);
    const struct plan_part *part = &p->leaf_part[arg->index];
    const struct prog_leaf *leaf = &p->program->leaf[part->index];
    *c = (struct content){.ref = {.kind = REF_LEAF, .index = part->index}, .layout = leaf->layout, .pos = part->pos};
    if (leaf->piece && t->nact != p->pieces)
        return proof_fail(s->v, task, "argument %d is a piece, and acts once a batch", (int)a);
    struct type local = layout_shard(leaf->layout, &leaf->type, part->pos);
    return proof_same(s->v, task, "piece_stride", arg->piece_stride, leaf->piece ? type_bytes(&local) : 0);
}

/* Argument a is part pos of value r in layout l; it lies as *view, *skip elements from the argument's register or leaf.
 */
static int
reads(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos, struct view *view,
      int64_t *skip)
{
    struct content c;
    if (a < 0 || a >= s->v->plan->task[task].narg)
        return proof_fail(s->v, task, "argument %d of %d", (int)a, (int)s->v->plan->task[task].narg);
    TRY(content_of(s, task, a, &c));
    if (find_part(s->v, &c, r, l, pos, view, skip)) return 0;
    return proof_fail(s->v, task, "argument %d does not hold what the program says", (int)a);
}

static int
reads_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
         struct view *view)
{
    int64_t skip;
    TRY(reads(s, task, a, r, l, pos, view, &skip));
    return proof_same(s->v, task, "skip of an argument", s->v->plan->task[task].arg[a].skip,
                      skip * (int64_t)dtype_bytes(view->dtype));
}

/* ---- what all tasks share ---- */

static int
runs_on(const struct values *s, int32_t task, int kind, int rank)
{
    const struct plan_device *d = &s->v->plan->device[s->v->plan->task[task].device];
    if (d->kind == kind && d->rank == rank) return 0;
    return proof_fail(s->v, task, "runs on another device than rank %d of the program", rank);
}

static int
runs_at(const struct values *s, int32_t task, const struct layout *l)
{
    int32_t pos = s->v->plan->task[task].pos;
    if (pos < 0 || pos >= l->place->nrank)
        return proof_fail(s->v, task, "pos is %d of %d", (int)pos, (int)l->place->nrank);
    return runs_on(s, task, l->place->kind, l->place->rank[pos]);
}

static int
acts(const struct values *s, int32_t task, bool piece, int32_t every)
{
    const struct task *t = &s->v->plan->task[task];
    TRY(proof_same(s->v, task, "nact", t->nact, piece ? s->v->plan->pieces : 1));
    for (int32_t k = 0; k < t->nresult; k++) TRY(proof_same(s->v, task, "every", t->out[k].every, every));
    return 0;
}

static bool
piece_of(const struct proof *v, struct ref r)
{
    const struct program *g = v->plan->program;
    r = unmoved(v, r);
    if (r.kind == REF_LEAF) return g->leaf[r.index].piece;
    return r.kind == REF_NODE && g->node[r.index].piece && !g->node[r.index].accumulate;
}

/* Positions of a node come one after the other, each once. */
static int
next_position(const struct values *s, int32_t task, int32_t node)
{
    return proof_same(s->v, task, "pos", s->v->plan->task[task].pos, s->done[node]++);
}

static struct content *
result_of(const struct values *s, int32_t task, int32_t k)
{
    return &s->out[s->v->first_out[task] + k];
}

/* ---- kinds ---- */

/* The task's arguments are these operands, in these layouts. */
static int
check_arguments(struct values *s, int32_t task, int32_t nin, const struct ref *in, const struct layout *const *want)
{
    static const uint8_t kind[] = {[REF_NONE] = ARG_NONE, [REF_NUMBER] = ARG_NUMBER};
    const struct task *t = &s->v->plan->task[task];
    TRY(proof_same(s->v, task, "narg", t->narg, nin));
    for (int32_t i = 0; i < nin; i++) {
        struct view view;
        if (in[i].kind == REF_NODE || in[i].kind == REF_LEAF) {
            TRY(reads_at(s, task, i, in[i], want[i], t->pos, &view));
            continue;
        }
        TRY(proof_same(s->v, task, "kind of an argument", t->arg[i].kind, kind[in[i].kind]));
        if (in[i].kind == REF_NUMBER) TRY(proof_same(s->v, task, "index of a number", t->arg[i].index, in[i].index));
    }
    return 0;
}

/* Result number `out` of the task is result k of a node. */
static int
check_result(struct values *s, int32_t task, int32_t out, int32_t node, int32_t k)
{
    const struct task *t = &s->v->plan->task[task];
    const struct prog_node *n = &s->v->plan->program->node[node];
    struct type local = layout_shard(n->layout[k], &n->type[k], t->pos);
    TRY(proof_same(s->v, task, "bytes of a result", t->out[out].bytes, type_bytes(&local)));
    *result_of(s, task, out) =
        (struct content){.ref = {REF_NODE, (uint8_t)k, node}, .layout = n->layout[k], .pos = t->pos};
    return 0;
}

static bool
is_member(const struct plan_chain *c, int32_t n, int32_t node)
{
    for (int32_t i = 0; i < n; i++)
        if (c->member[i] == node) return true;
    return false;
}

/* Members are element-wise nodes of one layout, in order, the last is the task's own; an operand is an earlier member or
 * among what the chain reads. */
static int
check_chain(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct program *g = s->v->plan->program;
    const struct plan_chain *c = t->chain;
    const struct prog_node *last = &g->node[t->node];
    if (c->nstep < 2 || c->member[c->nstep - 1] != t->node)
        return proof_fail(s->v, task, "its chain does not end at node %d", (int)t->node);
    for (int32_t i = 0; i < c->nstep; i++) {
        int32_t m = c->member[i];
        if (m < 0 || m >= g->nnode || (i && m <= c->member[i - 1]))
            return proof_fail(s->v, task, "member %d of its chain is node %d", (int)i, (int)m);
        const struct prog_node *n = &g->node[m];
        if (!(n->op->flags & OP_ELTWISE) || n->accumulate || n->layout[0] != last->layout[0] || n->piece != last->piece ||
            !shape_equal(&n->type[0], &last->type[0]))
            return proof_fail(s->v, task, "%s does not belong in its chain", n->op->name);
        if (m != t->node) TRY(next_position(s, task, m));
        for (int32_t k = 0; k < n->nin; k++) {
            bool found = n->in[k].kind == REF_NONE || (n->in[k].kind == REF_NODE && is_member(c, i, n->in[k].index));
            for (int32_t a = 0; a < c->nin && !found; a++)
                found = c->in[a].kind == n->in[k].kind && c->in[a].index == n->in[k].index &&
                        c->in[a].out == n->in[k].out && (n->in[k].kind == REF_NUMBER || c->want[a] == n->want[k]);
            if (!found) return proof_fail(s->v, task, "operand %d of %s is not read", (int)k, n->op->name);
        }
    }
    TRY(check_arguments(s, task, c->nin, c->in, c->want));
    for (int32_t k = 0; k < c->nout; k++) {
        if (!is_member(c, c->nstep, c->shown[k])) return proof_fail(s->v, task, "shows node %d", (int)c->shown[k]);
        TRY(check_result(s, task, k, c->shown[k], 0));
    }
    return 0;
}

static int
check_compute(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct prog_node *n = &p->program->node[t->node];
    if (n->accumulate || n->op->flags & (OP_MOVE | OP_VIEW))
        return proof_fail(s->v, task, "node %d computes nothing", (int)t->node);
    TRY(next_position(s, task, t->node));
    TRY(runs_at(s, task, n->layout[0]));
    TRY(acts(s, task, n->piece, 1));
    if (t->chain) return check_chain(s, task);
    TRY(check_arguments(s, task, n->nin, n->in, n->want));
    for (int32_t k = 0; k < n->nout; k++) TRY(check_result(s, task, k, t->node, k));
    return 0;
}

/* A task that reads part pos of value r as it is: an accumulation, a copy. */
static int
check_single(struct values *s, int32_t task, struct ref r, const struct layout *l, struct ref result)
{
    const struct task *t = &s->v->plan->task[task];
    struct type whole = ref_type(s->v->plan->program, r), local;
    struct view view;
    TRY(runs_at(s, task, l));
    TRY(proof_same(s->v, task, "narg", t->narg, 1));
    TRY(reads_at(s, task, 0, r, l, t->pos, &view));
    local = layout_shard(l, &whole, t->pos);
    if (!type_equal(&t->type, &local)) return proof_fail(s->v, task, "type is not that of its part");
    if (!same_view(&t->source, &view)) return proof_fail(s->v, task, "source is not how its part lies");
    TRY(proof_same(s->v, task, "bytes of a result", t->out[0].bytes, type_bytes(&local)));
    *result_of(s, task, 0) = (struct content){.ref = result, .layout = l, .pos = t->pos};
    return 0;
}

/* Sums come in the order of the nodes that ask for them; a task's own node is that of what is summed. */
static int
check_accumulate(struct values *s, int32_t task)
{
    const struct program *g = s->v->plan->program;
    if (s->sum >= 0 && s->done[s->sum] == g->node[s->sum].layout[0]->place->nrank) s->sum++;
    s->sum = MAX(s->sum, 0);
    while (s->sum < g->nnode && !g->node[s->sum].accumulate) s->sum++;
    if (s->sum == g->nnode) return proof_fail(s->v, task, "the program has no such sum of pieces");
    const struct prog_node *n = &g->node[s->sum];
    TRY(next_position(s, task, s->sum));
    TRY(acts(s, task, true, s->v->plan->pieces));
    return check_single(s, task, n->in[0], n->layout[0], (struct ref){.kind = REF_NODE, .index = s->sum});
}

/* Does the task's argument hold what its root is? */
static bool
copies_root(const struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct prog_root *root = &p->program->root[p->root_part[t->out[0].root].index];
    struct view view;
    struct content c;
    int64_t skip;
    return t->narg == 1 && !content_of(s, task, 0, &c) && t->pos >= 0 &&
           t->pos < ref_layout(p->program, root->ref)->place->nrank &&
           find_part(s->v, &c, root->ref, ref_layout(p->program, root->ref), t->pos, &view, &skip);
}

/* A dense copy that stands for a view which no strides show. */
static int
check_view_copy(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    if (t->node < 0) return proof_fail(s->v, task, "copies to no root, and for no view");
    const struct prog_node *n = &s->v->plan->program->node[t->node];
    if (!(n->op->flags & OP_VIEW)) return proof_fail(s->v, task, "copies to no root, and for no view");
    TRY(acts(s, task, n->piece, 1));
    TRY(check_single(s, task, n->in[0], n->want[0], (struct ref){.kind = REF_NODE, .index = t->node}));
    result_of(s, task, 0)->layout = n->layout[0];
    return 0;
}

static int
check_copy(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    if (t->out[0].root < 0 || (t->node >= 0 && p->program->node[t->node].op->flags & OP_VIEW && !copies_root(s, task)))
        return check_view_copy(s, task);
    const struct plan_part *part = &p->root_part[t->out[0].root];
    const struct prog_root *root = &p->program->root[part->index];
    TRY(proof_same(s->v, task, "pos", t->pos, part->pos));
    TRY(acts(s, task, root->join, 1));
    return check_single(s, task, root->ref, ref_layout(p->program, root->ref), unmoved(s->v, root->ref));
}

/* ---- moves ---- */

static int32_t
filled_by(const struct box_plan *b, const struct box_step *step)
{
    return step->to_stage ? step->dst_index : b->nstage + step->dst_index;
}

/* Sorts the steps of a move by what they fill. */
static void
sort_steps(struct values *s, const struct box_plan *b)
{
    int32_t n = b->nstage + b->to->place->nrank;
    struct steps *t = &s->steps;
    t->first = ARENA_ARRAY(&s->v->tmp, int32_t, n + 1);
    t->step = ARENA_ARRAY(&s->v->tmp, const struct box_step *, b->nstep + 1);
    for (int32_t i = 0; i < b->nstep; i++) t->first[filled_by(b, &b->step[i]) + 1]++;
    for (int32_t i = 0; i < n; i++) t->first[i + 1] += t->first[i];
    int32_t *next = arena_dup(&s->v->tmp, t->first, sizeof(*next) * (size_t)(n + 1));
    for (int32_t i = 0; i < b->nstep; i++) t->step[next[filled_by(b, &b->step[i])]++] = &b->step[i];
}

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
    for (int32_t i = task; i < p->ntask && p->task[i].box == b && r->kind == REF_NONE; i++)
        for (int32_t a = 0; a < p->task[i].narg && r->kind == REF_NONE; a++) {
            const struct arg *arg = &p->task[i].arg[a];
            if (arg->kind == ARG_REG && arg->index >= 0 && arg->index < p->task[i].nin &&
                p->task[i].in[arg->index].task >= task)
                continue; /* a stage of this move */
            struct content c;
            TRY(content_of(s, i, a, &c));
            *r = c.ref;
        }
    return 0;
}

/* The first task of the next move. */
static int
begin_move(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct box_plan *b = p->task[task].box;
    s->box++;
    s->box_task = 0;
    if (s->box >= p->nbox || p->box[s->box] != b)
        return proof_fail(s->v, task, "its move is not number %d of the plan", (int)s->box);
    sort_steps(s, b);
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
    for (int32_t i = 0; i < s->nslice; i++) {
        bool inside = true;
        struct type t = {.dtype = b->type.dtype, .ndim = b->type.ndim};
        for (int d = 0; d < t.ndim; d++) {
            inside = inside && slice->lo[d] >= s->slice[i].lo[d] && slice->hi[d] <= s->slice[i].hi[d];
            t.dim[d] = s->slice[i].hi[d] - s->slice[i].lo[d];
        }
        if (!inside) continue;
        struct view dense = view_dense(&t, NULL);
        *view = window(&dense, s->slice[i].lo, slice, skip);
        *skip += s->slice_offset[i];
        return true;
    }
    return false;
}

static int
check_from(struct values *s, int32_t task, const struct box_step *step, int32_t i, const struct box_from *f)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = t->box;
    const struct box_source *from = &step->source[i];
    struct view part, view;
    int64_t skip, more = 0;
    if (f->arg < 0 || f->arg >= t->narg)
        return proof_fail(s->v, task, "a move reads argument %d of %d", (int)f->arg, (int)t->narg);
    if (from->staged) {
        struct content c;
        TRY(content_of(s, task, f->arg, &c));
        bool found =
            !c.layout && c.box == b && c.pos == from->pos && stage_window(b, from->pos, &step->slice, &view, &skip);
        if (!found)
            return proof_fail(s->v, task, "argument %d is not stage %d of its move", (int)f->arg, (int)from->pos);
    } else {
        struct box box;
        TRY(reads(s, task, f->arg, s->box_ref, b->from, from->pos, &part, &skip));
        layout_box(b->from, &b->type, from->pos, &box);
        view = window(&part, box.lo, &step->slice, &more);
    }
    if (!same_view(&f->view, &view)) return proof_fail(s->v, task, "the window of a source is not what its step says");
    return proof_same(s->v, task, "skip of a source", t->arg[f->arg].skip + f->skip,
                      (skip + more) * (int64_t)dtype_bytes(b->type.dtype));
}

static int
check_step(struct values *s, int32_t task, const struct box_step *step, const struct box_move *m)
{
    const struct box_plan *b = s->v->plan->task[task].box;
    struct view view;
    int64_t skip;
    TRY(proof_same(s->v, task, "verb of a move", m->verb, step->verb));
    TRY(proof_same(s->v, task, "reduce of a move", m->reduce, step->reduce));
    TRY(proof_same(s->v, task, "nfrom", m->nfrom, step->verb == BOX_FILL ? 0 : step->nsource));
    if (step->to_stage) {
        if (!stage_window(b, step->dst_index, &step->slice, &view, &skip))
            return proof_fail(s->v, task, "a step fills nothing");
    } else {
        struct view part = part_view(b->to, &b->type, step->dst_index);
        view = window(&part, part.offset, &step->slice, &skip);
    }
    if (!same_view(&m->view, &view))
        return proof_fail(s->v, task, "the window of a destination is not what its step says");
    TRY(proof_same(s->v, task, "skip of a destination", m->skip, skip * (int64_t)dtype_bytes(b->type.dtype)));
    for (int32_t i = 0; i < m->nfrom; i++) TRY(check_from(s, task, step, i, &m->from[i]));
    return 0;
}

static int64_t
received(const struct box_plan *b, const struct box_step *step)
{
    int64_t n = 0;
    for (int32_t i = 0; step->verb != BOX_FILL && i < step->nsource; i++)
        if (step->source[i].rank != step->dst)
            n += box_numel(&step->slice, b->type.ndim) * (int64_t)dtype_bytes(b->type.dtype);
    return n;
}

static int
check_moves(struct values *s, int32_t task, int32_t index)
{
    const struct task *t = &s->v->plan->task[task];
    int32_t first = s->steps.first[index], n = s->steps.first[index + 1] - first;
    int64_t bytes = 0, nsource = 0;
    TRY(proof_same(s->v, task, "nmove", t->nmove, n));
    for (int32_t i = 0; i < n; i++) nsource += s->steps.step[first + i]->nsource;
    if (t->narg > nsource)
        return proof_fail(s->v, task, "narg is %d for %lld sources", (int)t->narg, (long long)nsource);
    for (int32_t i = 0; i < n; i++) {
        TRY(check_step(s, task, s->steps.step[first + i], &t->move[i]));
        bytes += received(t->box, s->steps.step[first + i]);
    }
    return proof_same(s->v, task, "received", t->received, bytes);
}

static int
check_box(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct box_plan *b = t->box;
    if (task == 0 || p->task[task - 1].box != b) TRY(begin_move(s, task));
    int32_t index = s->box_task++, stages = b->nstage;
    if (index >= stages + b->to->place->nrank) return proof_fail(s->v, task, "its move has no such part");
    bool staged = index < stages;
    struct content c = {
        .ref = s->box_ref, .layout = staged ? NULL : b->to, .pos = staged ? index : index - stages, .box = b};
    TRY(proof_same(s->v, task, "pos", t->pos, c.pos));
    TRY(proof_same(s->v, task, "node", t->node,
                   s->box_ref.kind == REF_NODE   ? s->box_ref.index
                   : s->box_ref.kind == REF_LEAF ? -1
                                                 : t->node));
    bool piece = s->box_ref.kind == REF_NONE ? t->nact > 1 : piece_of(s->v, s->box_ref);
    TRY(acts(s, task, piece, 1));
    int64_t bytes;
    if (staged) {
        int kind = place_find(b->to->place, b->stage[index].rank) >= 0 ? b->to->place->kind : b->from->place->kind;
        TRY(runs_on(s, task, kind, b->stage[index].rank));
        bytes = b->stage[index].numel * (int64_t)dtype_bytes(b->type.dtype);
    } else {
        TRY(runs_at(s, task, b->to));
        struct type local = layout_shard(b->to, &b->type, c.pos);
        bytes = type_bytes(&local);
    }
    TRY(proof_same(s->v, task, "bytes of a result", t->out[0].bytes, bytes));
    TRY(check_moves(s, task, index));
    *result_of(s, task, 0) = c;
    bool last = task + 1 == p->ntask || p->task[task + 1].box != b;
    return last ? proof_same(s->v, task, "parts of its move", s->box_task, stages + b->to->place->nrank) : 0;
}

/* ---- what outlives the run ---- */

/* A result that is written into a root part is that part of the root's value, whole and dense. */
static int
check_root(struct values *s, int32_t task, int32_t k)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct out_port *o = &t->out[k];
    if (o->control || o->root < 0) return 0;
    const struct plan_part *part = &p->root_part[o->root];
    const struct prog_root *root = &p->program->root[part->index];
    if (s->root_task[o->root] >= 0) return proof_fail(s->v, task, "root part %d has two writers", (int)o->root);
    s->root_task[o->root] = task;
    struct view view;
    int64_t skip;
    bool whole =
        find_part(s->v, result_of(s, task, k), root->ref, ref_layout(p->program, root->ref), part->pos, &view, &skip);
    if (!whole || skip || !view_is_dense(&view))
        return proof_fail(s->v, task, "result %d is not part %d of root %d", (int)k, (int)part->pos, (int)part->index);
    TRY(proof_same(s->v, task, "nreg of a root", o->nreg, root->join ? p->pieces : 1));
    TRY(proof_same(s->v, task, "times that a root is made", t->nact / o->every, o->nreg));
    return proof_same(s->v, task, "bytes of a root", o->bytes * o->nreg, part->bytes);
}

static int
check_complete(const struct values *s)
{
    const struct plan *p = s->v->plan;
    for (int32_t i = 0; i < p->program->nnode; i++) {
        const struct prog_node *n = &p->program->node[i];
        int32_t want = n->op->flags & (OP_MOVE | OP_VIEW) && !n->accumulate ? 0 : n->layout[0]->place->nrank;
        if (s->done[i] != want)
            return fail(E_PLAN, "plan: node %d, %s, is computed on %d ranks of %d", (int)i, n->op->name,
                        (int)s->done[i], (int)want);
    }
    for (int32_t r = 0; r < p->nroot_part; r++)
        if (s->root_task[r] < 0) return fail(E_PLAN, "plan: nobody writes root part %d", (int)r);
    if (s->box + 1 != p->nbox) return fail(E_PLAN, "plan: %d moves, its tasks have %d", (int)p->nbox, (int)s->box + 1);
    return 0;
}

static int (*const check_kind[NTASK_KIND])(struct values *, int32_t) = {[TASK_COMPUTE] = check_compute,
                                                                        [TASK_BOX] = check_box,
                                                                        [TASK_ACCUMULATE] = check_accumulate,
                                                                        [TASK_COPY] = check_copy};

int
prove_values(struct proof *v)
{
    const struct plan *p = v->plan;
    struct values s = {.v = v, .box = -1, .sum = -1};
    s.out = ARENA_ARRAY(&v->tmp, struct content, v->first_out[p->ntask] + 1);
    s.done = ARENA_ARRAY(&v->tmp, int32_t, p->program->nnode + 1);
    s.root_task = ARENA_ARRAY(&v->tmp, int32_t, p->nroot_part + 1);
    for (int32_t r = 0; r < p->nroot_part; r++) s.root_task[r] = -1;
    for (int32_t i = 0; i < p->ntask; i++) {
        TRY(check_kind[p->task[i].kind](&s, i));
        for (int32_t k = 0; k < p->task[i].nresult; k++) TRY(check_root(&s, i, k));
    }
    return check_complete(&s);
}
