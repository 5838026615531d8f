/* verify_part.c - finds where a shard of a value is stored: the register or leaf, the first byte, and the strides.
 *
 * A move does not change a value, so the search skips moves. The result of a view operator is stored where its
 * operand is stored; the operator's record computes the strides. Two layouts are equivalent for a shard if they
 * have the same elements of the value on the same device. */
#include "actors/plan/verify/value/verify_part.h"
#include "runtime/tensor/atlas.h"

/* ---- finding a shard ---- */

/* Returns the view of a dense shard, with the shard's position in the global tensor. */
struct view
value_part(const struct layout *l, const struct type *t, int pos)
{
    struct view v = {.dtype = (uint8_t)layout_dtype(l, (enum dtype)t->dtype), .ndim = t->ndim};
    struct box b;
    int64_t stride = 1;
    layout_box(l, t, pos, &b);
    for (int d = t->ndim - 1; d >= 0; d--) {
        v.dim[d] = b.hi[d] - b.lo[d];
        v.offset[d] = b.lo[d];
        v.global[d] = t->dim[d];
        v.stride[d] = stride;
        stride *= v.dim[d];
    }
    return v;
}

/* Returns the view of `slice` in a shard. lo: position of the shard's first element in the global tensor; *skip:
 * elements from the shard's start to the slice. */
struct view
value_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip)
{
    struct view v = *part;
    *skip = 0;
    for (int d = 0; d < v.ndim; d++) {
        *skip += (slice->lo[d] - lo[d]) * v.stride[d];
        v.dim[d] = slice->hi[d] - slice->lo[d];
    }
    return v;
}

static const struct prog_node *
node_of(const struct proof *v, struct ref r)
{
    return r.kind == REF_NODE ? &v->plan->program->node[r.index] : NULL;
}

/* Returns the value from which moves made r; r itself if no move made r. */
struct ref
value_unmoved(const struct proof *v, struct ref r)
{
    for (const struct prog_node *n = node_of(v, r); n && n->op->flags & OP_MOVE && !n->accumulate; n = node_of(v, r))
        r = n->in[0];
    return r;
}

/* Returns the mesh position in layout `in` whose shard is on the same device and has the same elements as the
 * shard at position pos in layout l; -1: none. */
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

/* Finds the result of a view operator inside the register or leaf that stores the operator's operand. The result is
 * a part of the operand. */
bool
value_find_view(const struct proof *v, const struct content *c, const struct prog_node *n, int pos, struct view *view,
                int64_t *skip)
{
    struct view in;
    /* A shift renames shards without moving them. Each rank reads the shard on its own device, which has another
     * position in the operand's placement. */
    int below = place_find(n->want[0]->place, n->layout[0]->place->rank[pos]);
    if (below < 0 || !value_find(v, c, n->in[0], n->want[0], below, &in, skip)) return false;
    struct type type = ref_type(v->plan->program, n->in[0]), result = n->type[0];
    struct call call = {
        .op = n->op, .nin = n->nin, .nout = 1, .in = &type, .out = &result, .attr = n->attr, .layout = n->want};
    int64_t more = 0;
    *view = value_part(n->layout[0], &result, pos);
    if (n->op->host.view(&call, &in, view, &more)) return false;
    *skip += more;
    return true;
}

/* Finds shard pos of value r in layout l in a register or leaf with content c. Returns the view of the shard, and in
 * *skip the number of elements before the shard. */
bool
value_find(const struct proof *v, const struct content *c, struct ref r, const struct layout *l, int pos,
           struct view *view, int64_t *skip)
{
    if (!c->layout) return false;
    r = value_unmoved(v, r);
    const struct type *t = ref_type_of(v->plan->program, r);
    *skip = 0;
    /* An empty value may be the result of a move without sources. Its content then stands for any empty value of the
     * same type. */
    bool nothing = c->ref.kind == REF_NONE;
    bool here = nothing ? type_equal(t, &c->box->type) : ref_equal(c->ref, r);
    bool placed = here && position_in(c->layout, l, pos, t) == c->pos;
    if (here && !placed && !nothing) return false;
    if (placed) {
        *view = value_part(c->layout, t, c->pos);
        for (int d = 0; c->turned && d < view->ndim; d++) view->stride[d] = c->turned->stride[d];
    } else {
        const struct prog_node *n = node_of(v, r);
        if (!n || !(n->op->flags & OP_VIEW) || n->accumulate) return false;
        int at = position_in(n->layout[0], l, pos, t);
        if (at < 0 || !value_find_view(v, c, n, at, view, skip)) return false;
    }
    /* An empty shard must have the shape that layout l gives it. */
    if (view_numel(view) == 0) *view = value_part(l, t, pos);
    return true;
}

/* Finds the content of the register or leaf that argument a of a task reads. */
int
value_content(const struct values *s, int32_t task, int32_t a, struct content *c)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct arg *arg = &t->arg[a];
    if (arg->kind == ARG_REG && arg->index >= 0 && arg->index < t->nin) {
        const struct in_port *in = &t->in[arg->index];
        int64_t o = s->v->first_out[in->task] + in->out;
        if (s->v->nreg[o] == 0)
            return proof_fail(s->v, task, "argument %d reads a control edge, which carries no data", (int)a);
        *c = s->out[o];
        return 0;
    }
    if (arg->kind != ARG_LEAF || arg->index < 0 || arg->index >= p->nleaf_part)
        return proof_fail(s->v, task, "argument %d has kind %d and index %d, which do not exist", (int)a, arg->kind,
                          (int)arg->index);
    const struct plan_part *part = &p->leaf_part[arg->index];
    const struct prog_leaf *leaf = &p->program->leaf[part->index];
    *c = (struct content){.ref = {.kind = REF_LEAF, .index = part->index}, .layout = leaf->layout, .pos = part->pos};
    if (leaf->piece && t->nact != p->pieces)
        return proof_fail(s->v, task, "argument %d differs between micro-batches, but the task runs once per batch",
                          (int)a);
    int64_t stride = 0;
    if (leaf->piece) {
        struct type local = layout_shard(leaf->layout, &leaf->type, part->pos);
        stride = type_bytes(&local);
    }
    return proof_same(s->v, task, "piece_stride", arg->piece_stride, stride);
}

static int
check_version(const struct values *s, int32_t task, int32_t a, const struct content *c, const void **version)
{
    if (!c->layout || !layout_has_partial(c->layout)) return 0;
    /* Address that identifies the kernel or move that made the addends. Outside of moves, all addends of a value
     * come from one kernel, so any pointer except NULL can stand for that kernel. */
    const void *maker = c->box ? (const void *)c->box : s;
    if (!*version) *version = maker;
    return *version == maker
               ? 0
               : proof_fail(s->v, task,
                            "argument %d must be an addend of the same partial sum as at the other mesh positions",
                            (int)a);
}

int
value_read(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
           const void **version, struct view *view, int64_t *skip)
{
    struct content c;
    if (a < 0 || a >= s->v->plan->task[task].narg)
        return proof_fail(s->v, task, "argument %d does not exist; the task has %d arguments", (int)a,
                          (int)s->v->plan->task[task].narg);
    TRY(value_content(s, task, a, &c));
    if (!value_find(s->v, &c, r, l, pos, view, skip))
        return proof_fail(s->v, task, "argument %d holds another value than the program requires", (int)a);
    return check_version(s, task, a, &c, version);
}

int
value_read_at(const struct values *s, int32_t task, int32_t a, struct ref r, const struct layout *l, int pos,
              const void **version, struct view *view)
{
    int64_t skip;
    TRY(value_read(s, task, a, r, l, pos, version, view, &skip));
    return proof_same(s->v, task, "offset of an argument", s->v->plan->task[task].arg[a].skip,
                      skip * (int64_t)dtype_bytes(view->dtype));
}

/* ---- proofs for all kinds of tasks ---- */

int
value_on(const struct values *s, int32_t task, int kind, int rank)
{
    const struct plan_device *d = &s->v->plan->device[s->v->plan->task[task].device];
    if (d->kind == kind && d->rank == rank) return 0;
    return proof_fail(s->v, task, "must run on the device of rank %d", rank);
}

int
value_at(const struct values *s, int32_t task, const struct layout *l)
{
    int32_t pos = s->v->plan->task[task].pos;
    if (pos < 0 || pos >= l->place->nrank)
        return proof_fail(s->v, task, "mesh position %d does not exist; the mesh has %d positions", (int)pos,
                          (int)l->place->nrank);
    return value_on(s, task, l->place->kind, l->place->rank[pos]);
}

int
value_rate(const struct values *s, int32_t task, bool piece, int32_t every)
{
    const struct task *t = &s->v->plan->task[task];
    TRY(proof_same(s->v, task, "number of acts", t->nact, piece ? s->v->plan->pieces : 1));
    for (int32_t k = 0; k < t->nresult; k++)
        TRY(proof_same(s->v, task, "number of acts per result", t->out[k].every, every));
    return 0;
}

bool
value_varies(const struct proof *v, struct ref r)
{
    return ref_varies(v->plan->program, value_unmoved(v, r));
}

bool *
value_again(const struct values *s, struct ref r)
{
    int32_t nresult = s->v->plan->program->nnode * OP_OUT;
    return &s->again[r.kind == REF_NODE ? r.index * OP_OUT + r.out : nresult + r.index];
}

struct content *
value_result(const struct values *s, int32_t task, int32_t k)
{
    return &s->out[s->v->first_out[task] + k];
}
