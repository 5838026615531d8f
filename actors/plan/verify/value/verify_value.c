/* verify_value.c - proves that every task reads and writes the bytes that the program means.
 *
 * Goes through the tasks in order and records the content of each result: shard `pos` of a program value in a
 * layout. The program determines which value a task must read. The proof shows that exactly this value is stored
 * at the task's offset and strides. So a plan that passes the proof computes its program. The proof trusts the
 * kernels and box_plan(), but not the compiler. */
#include "actors/plan/verify/value/verify_value.h"
#include "actors/plan/verify/value/verify_part.h"
#include "actors/plan/verify/value/verify_kernel.h"

#include "runtime/device/device.h"
#include "runtime/base/error.h"

/* ---- kinds ---- */

static int
next_of_source(const struct values *s, int32_t task, const struct local_positions *mine, int32_t k)
{
    return proof_same(s->v, task, "mesh position", s->v->plan->task[task].pos, k < mine->n ? mine->pos[k] : -1);
}

/* Proves that the task's mesh position is the next one of its node. A node's tasks are listed in the order of its
 * local positions, one task per position. Counts the position as done. */
static int
next_position(const struct values *s, int32_t task, int32_t node)
{
    return next_of_source(s, task, local_positions_of(&s->v->mines, s->v->plan->program->node[node].layout[0]->place),
                          s->done[node]++);
}

/* Returns true if the kernel depends on the position of its block in the global tensor. */
static bool
depends_on_place(const struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct program *g = s->v->plan->program;
    for (int32_t i = 0; t->chain && i < t->chain->nstep; i++)
        if (op_is_placed(g->node[t->chain->member[i]].op)) return true;
    return !t->chain && op_is_placed(g->node[t->node].op);
}

/* Returns true if the kernel was made for operand i with this view. The numbers of results follow those of operands.
 * placed: the kernel depends on its block's position in the global tensor, so that position must be equal, too. */
static bool
made_for(const struct task *t, int32_t i, bool placed, const struct view *v)
{
    const struct view *made = exec_view(t->exec, i);
    bool same = made && view_same(made, v);
    for (int d = 0; same && placed && d < v->ndim; d++)
        same = made->offset[d] == v->offset[d] && made->global[d] == v->global[d];
    return same;
}

/* Narrows the view of a shard to the slice that the task computes, if replicas divide the work of the task's node.
 * *skip: elements from the start of the shard to the slice. */
static void
take_slice(const struct values *s, int32_t task, const struct layout *l, const struct type *type, struct view *view,
           int64_t *skip)
{
    const struct task *t = &s->v->plan->task[task];
    int64_t more = 0;
    if (!s->v->shares[t->node] || !shape_equal(type, &s->v->plan->program->node[t->node].type[0])) return;
    *view = shared_update_slice(view, l, type, t->pos, &more);
    *skip += more;
}

/* Proves that the task's arguments are these operands in these layouts. If an operand is partial, its addends at
 * all positions must come from the same move or kernel. */
static int
check_arguments(struct values *s, int32_t task, int32_t nin, const struct ref *in, const struct layout *const *want)
{
    static const uint8_t kind[] = {[REF_NONE] = ARG_NONE, [REF_NUMBER] = ARG_NUMBER};
    const struct task *t = &s->v->plan->task[task];
    TRY(proof_same(s->v, task, "number of arguments", t->narg, nin));
    if (!s->version[t->node]) s->version[t->node] = ARENA_ARRAY(&s->v->tmp, const void *, nin + 1);
    for (int32_t i = 0; i < nin; i++) {
        struct view view;
        if (in[i].kind == REF_NODE || in[i].kind == REF_LEAF) {
            int64_t skip;
            TRY(value_read(s, task, i, in[i], want[i], t->pos, &s->version[t->node][i], &view, &skip));
            take_slice(s, task, want[i], ref_type_of(s->v->plan->program, in[i]), &view, &skip);
            TRY(proof_same(s->v, task, "offset of an argument", t->arg[i].skip,
                           skip * (int64_t)dtype_bytes(view.dtype)));
            if (!made_for(t, i, depends_on_place(s, task), &view))
                return proof_fail(s->v, task, "its kernel expects another view of argument %d", (int)i);
            continue;
        }
        TRY(proof_same(s->v, task, "kind of an argument", t->arg[i].kind, kind[in[i].kind]));
        if (in[i].kind == REF_NUMBER)
            TRY(proof_same(s->v, task, "index of a number argument", t->arg[i].index, in[i].index));
    }
    return 0;
}

/* Returns true if the view `made` has the sizes of v and no gaps. Its dimensions may be stored in any order. */
static bool
is_transposed_view(const struct view *made, const struct view *v)
{
    bool seen[MAX_DIM] = {false};
    int left = v->ndim;
    for (int d = 0; d < v->ndim; d++)
        if (made->dim[d] != v->dim[d]) return false;
    for (int64_t step = 1; left > 0; left--) {
        int d = 0;
        while (d < v->ndim && (seen[d] || (v->dim[d] != 1 && made->stride[d] != step))) d++;
        if (d == v->ndim) return false;
        seen[d] = true;
        step *= v->dim[d];
    }
    return true;
}

/* Proves that result `out` of the task is result k of the node. */
static int
check_result(struct values *s, int32_t task, int32_t out, int32_t node, int32_t k)
{
    const struct task *t = &s->v->plan->task[task];
    const struct prog_node *n = &s->v->plan->program->node[node];
    struct view view = value_part(n->layout[k], &n->type[k], t->pos);
    int64_t skip = 0;
    take_slice(s, task, n->layout[k], &n->type[k], &view, &skip);
    TRY(proof_same(s->v, task, "size of a result", t->out[out].bytes, view_bytes(&view)));
    if (s->v->shares[node] && t->out[out].bytes > 0 && t->out[out].where.kind != IN_ROOT)
        return proof_fail(s->v, task, "a slice of result %d must be stored in a buffer that outlives the run", (int)k);
    const struct view *made = exec_view(t->exec, t->narg + out), *turned = NULL;
    if (n->op->flags & OP_ANY_ORDER && made && made->ndim == view.ndim && !view_same(made, &view)) {
        if (!is_transposed_view(made, &view))
            return proof_fail(s->v, task, "result %d must be stored dense, in some order of its dimensions", (int)out);
        for (int d = 0; d < view.ndim; d++) view.stride[d] = made->stride[d];
        turned = made;
    }
    if (!made_for(t, t->narg + out, depends_on_place(s, task), &view))
        return proof_fail(s->v, task, "its kernel expects another view of result %d", (int)out);
    *value_result(s, task, out) =
        (struct content){.ref = {REF_NODE, (uint8_t)k, node}, .layout = n->layout[k], .pos = t->pos, .turned = turned};
    return 0;
}

static bool
is_chain_member(const struct plan_chain *c, int32_t n, int32_t node)
{
    for (int32_t i = 0; i < n; i++)
        if (c->member[i] == node) return true;
    return false;
}

struct fuse_arg
value_chain_source(const struct plan_chain *c, int32_t member, const struct prog_node *n, int32_t k)
{
    struct ref r = n->in[k];
    for (int32_t j = 0; r.kind == REF_NODE && j < member; j++)
        if (c->member[j] == r.index && r.out == 0) return (struct fuse_arg){true, j};
    for (int32_t a = 0; a < c->nin; a++) {
        bool same = ref_equal(c->in[a], r);
        if (same && (r.kind == REF_NUMBER || c->want[a] == n->want[k])) return (struct fuse_arg){false, a};
    }
    return (struct fuse_arg){false, -1};
}

/* Returns true if member i leads its chain, that is, the element-wise members are applied to its result. The leader
 * is not element-wise and reads no other member; all members before it are element-wise. */
static bool
leads_chain(const struct values *s, const struct plan_chain *c, int32_t i, const struct prog_node *n)
{
    for (int32_t j = 0; j < i; j++)
        if (!(s->v->plan->program->node[c->member[j]].op->flags & OP_ELTWISE)) return false;
    for (int32_t k = 0; k < n->nin; k++)
        if (n->in[k].kind == REF_NODE && is_chain_member(c, i, n->in[k].index)) return false;
    return n->op->flags & OP_LEADS && i < c->nstep - 1;
}

/* Returns true if member i ends a chain of two by writing its result over the leader's. The leader's result must be
 * operand 0 of the member, and no other operand. */
static bool
follows_in_chain(const struct values *s, const struct plan_chain *c, int32_t i, const struct prog_node *n)
{
    const struct prog_node *first = &s->v->plan->program->node[c->member[0]];
    bool ends = c->nstep == 2 && i == 1 && n->op->flags & OP_FOLLOWS && !n->piece;
    if (!ends || !(n->op->flags & OP_INPLACE) || !(first->op->flags & OP_LEADS)) return false;
    for (int32_t k = 0; k < n->nin; k++) {
        bool reads = n->in[k].kind == REF_NODE && n->in[k].index == c->member[0];
        if (reads != (k == 0)) return false;
    }
    return n->want[0] == first->layout[0];
}

/* Returns true if a member is element-wise with the chain's shape and layout, or leads the chain, or ends it by
 * overwriting the leader's result. */
static bool
belongs_to_chain(const struct values *s, const struct plan_chain *c, int32_t i, const struct prog_node *n,
                 const struct prog_node *last)
{
    bool one = n->nout == 1 && (n->op->flags & OP_ELTWISE || follows_in_chain(s, c, i, n));
    return (one || leads_chain(s, c, i, n)) && n->layout[0] == last->layout[0] &&
           shape_equal(&n->type[0], &last->type[0]);
}

/* Returns true if the nodes are a group: all nodes have one operator, all results are live-out, and no node reads
 * another node. Otherwise the nodes form a chain. */
static bool
is_group(const struct values *s, const struct plan_chain *c)
{
    const struct prog_node *node = s->v->plan->program->node;
    if (c->nout != c->nstep * node[c->member[0]].nout) return false;
    for (int32_t i = 0; i < c->nstep; i++) {
        const struct prog_node *n = &node[c->member[i]];
        if (n->op != node[c->member[0]].op) return false;
        for (int32_t k = 0; k < n->nin; k++)
            if (n->in[k].kind == REF_NODE && is_chain_member(c, i, n->in[k].index)) return false;
    }
    return true;
}

/* Returns true if a member of a group is an update or element-wise, and has the attributes, dtypes and devices of the
 * last member. verify_memory.c proves which values the members overwrite. */
static bool
is_grouped(const struct values *s, const struct prog_node *n, const struct prog_node *last)
{
    const struct program *g = s->v->plan->program;
    bool same =
        n->op->flags & (OP_UPDATE | OP_ELTWISE) && n->nin == last->nin && n->layout[0]->place == last->layout[0]->place;
    for (int k = 0, nattr = op_nattr(n->op); same && k < nattr; k++)
        same = proof_same_attr(&n->attr[k], &last->attr[k]);
    for (int32_t k = 0; same && k < n->nin; k++) {
        bool number = n->in[k].kind == REF_NUMBER || last->in[k].kind == REF_NUMBER;
        bool tensor = n->in[k].kind != REF_NONE && last->in[k].kind != REF_NONE && !number;
        same =
            tensor ? ref_type(g, n->in[k]).dtype == ref_type(g, last->in[k]).dtype : n->in[k].kind == last->in[k].kind;
    }
    return same;
}

static int
check_chain_member(struct values *s, int32_t task, int32_t i, bool grouped)
{
    const struct task *t = &s->v->plan->task[task];
    const struct program *g = s->v->plan->program;
    const struct plan_chain *c = t->chain;
    const struct prog_node *last = &g->node[t->node];
    int32_t m = c->member[i];
    const struct prog_node *n = &g->node[m];
    bool fits = grouped ? is_grouped(s, n, last) : belongs_to_chain(s, c, i, n, last);
    if (!fits || n->accumulate || n->piece != last->piece || s->v->shares[m])
        return proof_fail(s->v, task, "operator %s cannot be a member of its chain", n->op->name);
    if (m != t->node) TRY(next_position(s, task, m));
    for (int32_t k = 0; k < n->nin; k++) {
        struct ref r = n->in[k];
        if (r.kind != REF_NONE && value_chain_source(c, i, n, k).index < 0)
            return proof_fail(s->v, task, "operand %d of %s is missing among the inputs of the chain", (int)k,
                              n->op->name);
        if (r.kind == REF_NODE && is_chain_member(c, i, r.index) && n->want[k] != g->node[r.index].layout[r.out])
            return proof_fail(s->v, task, "operand %d of %s would have to be moved within its chain", (int)k,
                              n->op->name);
    }
    return 0;
}

/* Returns true if live-out result k is in its place in the list. Live-out results are listed in the order of
 * members. A member with a live-out result lists all of its results; only result 0 may be missing, unless the member
 * is an update. */
static bool
shows_next(const struct values *s, const struct plan_chain *c, int32_t k)
{
    struct ref r = c->live_out[k], last = k ? c->live_out[k - 1] : (struct ref){REF_NODE, 0, -1};
    if (r.kind != REF_NODE || !is_chain_member(c, c->nstep, r.index)) return false;
    bool ends = k + 1 == c->nout || c->live_out[k + 1].index != r.index;
    if (ends && r.out != s->v->plan->program->node[r.index].nout - 1) return false;
    bool begins = r.out == 0 || (r.out == 1 && !(s->v->plan->program->node[r.index].op->flags & OP_UPDATE));
    return r.index == last.index ? r.out == last.out + 1 : r.index > last.index && begins;
}

static int
check_chain(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct plan_chain *c = t->chain;
    TRY(proof_same(s->v, task, "number of arguments", t->narg, c->nin));
    bool ends = c->nstep >= 2 && proof_fits(c->nstep, sizeof *c->member, &s->v->plan->arena) &&
                c->member[c->nstep - 1] == t->node;
    if (!ends)
        return proof_fail(s->v, task, "its chain of %d members must end at node %d", (int)c->nstep, (int)t->node);
    for (int32_t i = 0; i < c->nstep; i++)
        if (c->member[i] < 0 || c->member[i] > t->node || (i && c->member[i] <= c->member[i - 1]))
            return proof_fail(s->v, task, "member %d of its chain cannot be node %d", (int)i, (int)c->member[i]);
    bool grouped = is_group(s, c);
    for (int32_t i = 0; i < c->nstep; i++) TRY(check_chain_member(s, task, i, grouped));
    TRY(check_arguments(s, task, c->nin, c->in, c->want));
    for (int32_t k = 0; k < c->nout; k++) {
        struct ref r = c->live_out[k];
        if (!shows_next(s, c, k))
            return proof_fail(s->v, task, "the live-out results cannot continue with result %d of node %d", r.out,
                              (int)r.index);
        TRY(check_result(s, task, k, r.index, r.out));
    }
    return 0;
}

int
value_compute(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct prog_node *n = &p->program->node[t->node];
    if (n->accumulate || n->op->flags & (OP_MOVE | OP_VIEW))
        return proof_fail(s->v, task, "node %d is a move, a view or a sum, so no kernel computes it", (int)t->node);
    TRY(proof_same(s->v, task, "flag \"validates its data\"", t->looks, s->v->checks[t->node]));
    TRY(next_position(s, task, t->node));
    TRY(value_at(s, task, n->layout[0]));
    TRY(value_rate(s, task, n->piece, 1));
    if (t->chain) {
        TRY(check_chain(s, task));
        return value_kernel(s, task);
    }
    TRY(check_arguments(s, task, n->nin, n->in, n->want));
    for (int32_t k = 0; k < n->nout; k++) TRY(check_result(s, task, k, t->node, k));
    return value_kernel(s, task);
}

/* Proves a task whose kernel adds to a sum. The sum must have the layout and dtype of the addends. */
int
value_sum(struct values *s, int32_t task)
{
    const struct program *g = s->v->plan->program;
    const struct task *t = &s->v->plan->task[task];
    const struct prog_node *n = &g->node[t->node];
    int32_t sum = proof_sum(s->v, t->node);
    if (sum < 0 || t->chain || n->accumulate || n->nout != 1 || n->op->flags & (OP_MOVE | OP_VIEW) ||
        n->type[0].dtype != DT_F32 || g->node[sum].type[0].dtype != DT_F32 || n->layout[0] != g->node[sum].layout[0])
        return proof_fail(s->v, task, "node %d cannot add to a sum over micro-batches", (int)t->node);
    TRY(proof_same(s->v, task, "flag \"validates its data\"", t->looks, s->v->checks[t->node]));
    TRY(next_position(s, task, t->node));
    TRY(next_position(s, task, sum));
    TRY(value_at(s, task, n->layout[0]));
    TRY(value_rate(s, task, true, s->v->plan->pieces));
    TRY(check_arguments(s, task, n->nin, n->in, n->want));
    TRY(check_result(s, task, 0, sum, 0));
    return value_kernel(s, task);
}

/* Proves a task that only adds, appends or copies: its single argument must be the shard of value r, in layout l, at
 * the task's position. whole: type of the complete tensor that an act writes. */
static int
check_single(struct values *s, int32_t task, struct ref r, const struct layout *l, const struct type *whole,
             struct ref result, const void **version)
{
    int64_t times = s->v->plan->task[task].kind->flags & KIND_APPENDS ? s->v->plan->pieces : 1;
    const struct task *t = &s->v->plan->task[task];
    struct type local;
    struct view view;
    TRY(value_at(s, task, l));
    TRY(proof_same(s->v, task, "number of arguments", t->narg, 1));
    TRY(value_read_at(s, task, 0, r, l, t->pos, version, &view));
    local = layout_shard(l, whole, t->pos);
    if (!t->type || !type_equal(t->type, &local))
        return proof_fail(s->v, task, "the type of its result must be that of its shard");
    if (!view_same(t->source, &view)) return proof_fail(s->v, task, "the view of its source must be that of its shard");
    TRY(proof_same(s->v, task, "size of a result", t->out[0].bytes, type_bytes(&local) * times));
    *value_result(s, task, 0) = (struct content){.ref = result, .layout = l, .pos = t->pos};
    return 0;
}

/* Proves a task that adds to a sum over micro-batches, or appends to the values of earlier micro-batches. s->sum is
 * the program node of the sum; nodes of sums are proved in program order. The task's own node computes the addend. */
static int
check_sum(struct values *s, int32_t task, bool append)
{
    const struct program *g = s->v->plan->program;
    s->sum = MAX(s->sum, 0);
    while (s->sum < g->nnode &&
           (!g->node[s->sum].accumulate ||
            s->done[s->sum] == local_positions_of(&s->v->mines, g->node[s->sum].layout[0]->place)->n))
        s->sum++;
    if (s->sum == g->nnode) return proof_fail(s->v, task, "the program has no such sum over micro-batches");
    const struct prog_node *n = &g->node[s->sum];
    struct type each = n->append ? ref_type(g, n->in[0]) : n->type[0];
    TRY(proof_same(s->v, task, "flag \"appends\"", append, n->append));
    TRY(next_position(s, task, s->sum));
    TRY(value_rate(s, task, true, s->v->plan->pieces));
    return check_single(s, task, n->in[0], n->layout[0], &each, (struct ref){.kind = REF_NODE, .index = s->sum},
                        &s->node_version[s->sum]);
}

int
value_accumulate(struct values *s, int32_t task)
{
    return check_sum(s, task, false);
}

int
value_append(struct values *s, int32_t task)
{
    return check_sum(s, task, true);
}

/* Returns true if the task's argument already is the value that the task must write to the root. */
static bool
copies_root(const struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct prog_root *root = &p->program->root[p->root_part[t->out[0].where.index].index];
    struct view view;
    struct content c;
    int64_t skip;
    return t->narg == 1 && !value_content(s, task, 0, &c) && t->pos >= 0 &&
           t->pos < ref_layout(p->program, root->ref)->place->nrank &&
           value_find(s->v, &c, root->ref, ref_layout(p->program, root->ref), t->pos, &view, &skip);
}

/* Proves a dense copy of a view that strides cannot express. The copy must have the view's elements in the view's
 * order. */
static int
check_view_copy(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct prog_node *n = t->node < 0 ? NULL : &s->v->plan->program->node[t->node];
    if (!n || !(n->op->flags & OP_VIEW)) return proof_fail(s->v, task, "must copy to a root, or for a view");
    TRY(value_rate(s, task, n->piece, 1));
    struct type whole = ref_type(s->v->plan->program, n->in[0]);
    TRY(check_single(s, task, n->in[0], n->want[0], &whole, (struct ref){.kind = REF_NODE, .index = t->node},
                     &s->node_version[t->node]));
    struct view view;
    struct content c;
    int64_t skip;
    TRY(value_content(s, task, 0, &c));
    if (value_find_view(s->v, &c, n, t->pos, &view, &skip))
        return proof_fail(s->v, task, "copies a view that strides can express");
    value_result(s, task, 0)->layout = n->layout[0];
    return 0;
}

int
value_copy(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    if (t->out[0].where.kind != IN_ROOT ||
        (t->node >= 0 && p->program->node[t->node].op->flags & OP_VIEW && !copies_root(s, task)))
        return check_view_copy(s, task);
    const struct plan_part *part = &p->root_part[t->out[0].where.index];
    const struct prog_root *root = &p->program->root[part->index];
    TRY(proof_same(s->v, task, "mesh position", t->pos, part->pos));
    TRY(value_rate(s, task, root->join, 1));
    struct type whole = ref_type(p->program, root->ref);
    return check_single(s, task, root->ref, ref_layout(p->program, root->ref), &whole, value_unmoved(s->v, root->ref),
                        &s->root_version[part->index]);
}

/* ---- results in root parts ---- */

/* Proves that a result in a root part is the root's value: the complete dense shard or, if replicas share the
 * buffer, this rank's slice of it. */
static int
check_root_value(struct values *s, int32_t task, int32_t k)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct out_port *o = &t->out[k];
    if (o->where.kind != IN_ROOT) return 0;
    int32_t at = o->where.index;
    const struct plan_part *part = &p->root_part[at];
    const struct prog_root *root = &p->program->root[part->index];
    if (s->root_task[at] >= 0) return proof_fail(s->v, task, "root shard %d has two writers", (int)at);
    s->root_task[at] = task;
    struct view view;
    int64_t skip;
    bool whole = value_find(s->v, value_result(s, task, k), root->ref, ref_layout(p->program, root->ref), part->pos,
                            &view, &skip);
    if (!whole || skip || !view_is_dense(&view))
        return proof_fail(s->v, task, "result %d must be shard %d of root %d", (int)k, (int)part->pos,
                          (int)part->index);
    TRY(proof_same(s->v, task, "number of registers of a root", o->nreg, root->join ? p->pieces : 1));
    TRY(proof_same(s->v, task, "number of results that a root has in a run", t->nact / o->every, o->nreg));
    if (!p->shared[part->index])
        return proof_same(s->v, task, "size of a root's shard", o->bytes * o->nreg, part->bytes);
    struct type type = ref_type(p->program, root->ref);
    view = shared_update_slice(&view, ref_layout(p->program, root->ref), &type, part->pos, &skip);
    return proof_same(s->v, task, "size of a slice of a root", o->bytes, view_bytes(&view));
}

/* Proves that a task reads only the memory space of its own device. Transfers are exempt. */
static int
check_spaces(const struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_device *own = &p->device[t->device], *holder = &p->device[task_holder(t)];
    int32_t space = device_space(own->kind, own->rank);
    s->space[task] = device_space(holder->kind, holder->rank);
    for (int32_t a = 0; a < t->narg && !(t->kind->flags & KIND_CARRIES); a++) {
        const struct arg *arg = &t->arg[a];
        int32_t there = space;
        if (arg->kind == ARG_REG) {
            there = s->space[t->in[arg->index].task];
        } else if (arg->kind == ARG_LEAF) {
            const struct plan_part *part = &p->leaf_part[arg->index];
            const struct place *place = p->program->leaf[part->index].layout->place;
            there = device_space(place->kind, place->rank[part->pos]);
        }
        if (there != space)
            return proof_fail(s->v, task, "reads argument %d in a memory space that its device cannot access", (int)a);
    }
    return 0;
}

static int
check_complete(const struct values *s)
{
    const struct plan *p = s->v->plan;
    for (int32_t i = 0; i < p->program->nnode; i++) {
        const struct prog_node *n = &p->program->node[i];
        int32_t want = n->op->flags & (OP_MOVE | OP_VIEW) && !n->accumulate
                           ? 0
                           : local_positions_of(&s->v->mines, n->layout[0]->place)->n;
        if (s->done[i] != want)
            return fail(E_PLAN, "plan: node %d, %s, must be computed on %d ranks of this partition, found %d", (int)i,
                        n->op->name, (int)want, (int)s->done[i]);
    }
    for (int32_t r = 0; r < p->nroot_part; r++)
        if (s->root_task[r] < 0) return fail(E_PLAN, "plan: no task writes root shard %d", (int)r);
    if (s->box + 1 != p->nmove)
        return fail(E_PLAN, "plan: found %d moves, but tasks for %d", (int)p->nmove, (int)s->box + 1);
    return 0;
}

static void
find_recomputed_values(struct values *s)
{
    const struct program *g = s->v->plan->program;
    s->again = ARENA_ARRAY(&s->v->tmp, bool, g->nnode *OP_OUT + g->nleaf + 1);
    for (int32_t i = 0; i < g->nnode; i++) {
        const struct prog_node *n = &g->node[i];
        if (n->again && n->piece && n->op->flags & OP_MOVE) *value_again(s, value_unmoved(s->v, n->in[0])) = true;
    }
}

int
prove_values(struct proof *v)
{
    const struct plan *p = v->plan;
    struct values s = {.v = v, .box = -1, .sum = -1};
    s.crosses = (struct redistributions){.arena = &v->tmp, .mines = &v->mines, .cost = &v->plan->program->cost};
    s.out = ARENA_ARRAY(&v->tmp, struct content, v->first_out[p->ntask] + 1);
    s.space = ARENA_ARRAY(&v->tmp, int32_t, p->ntask + 1);
    s.done = ARENA_ARRAY(&v->tmp, int32_t, p->program->nnode + 1);
    s.version = ARENA_ARRAY(&v->tmp, const void **, p->program->nnode + 1);
    s.node_version = ARENA_ARRAY(&v->tmp, const void *, p->program->nnode + 1);
    s.root_version = ARENA_ARRAY(&v->tmp, const void *, p->program->nroot + 1);
    s.root_task = ARENA_ARRAY(&v->tmp, int32_t, p->nroot_part + 1);
    for (int32_t r = 0; r < p->nroot_part; r++) s.root_task[r] = -1;
    find_recomputed_values(&s);
    for (int32_t i = 0; i < p->ntask; i++) {
        TRY(p->task[i].kind->check(&s, i));
        TRY(check_spaces(&s, i));
        for (int32_t k = 0; k < p->task[i].nresult; k++) TRY(check_root_value(&s, i, k));
    }
    return check_complete(&s);
}
