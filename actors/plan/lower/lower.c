/* lower.c - lowers program nodes to tasks: one per rank. Inserts moves where a value is needed in another layout.
 *
 * A value is moved to a layout once, however many readers need it there. Views are not tasks: a shard carries
 * strides, and readers apply them. */
#include "actors/plan/lower/lower.h"
#include "actors/plan/lower/update_order.h"
#include "actors/plan/lower/move.h"
#include "actors/plan/lower/intern.h"
#include "actors/plan/lower/draft.h"
#include "actors/plan/outline/estimate.h"
#include "actors/plan/outline/fusion.h"
#include "actors/plan/outline/hops.h"

#include "actors/plan/model/rates.h"

#include "kernels/cuda/launch.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "sbp/rule.h"
#include "kernels/exec/method_group.h"
#include "runtime/tensor/atlas.h"

#include <string.h>

/* A fused chain under construction. The finished plan keeps its description. */
struct chain {
    struct fuse_step step[FUSE_STEPS];
    struct plan_chain plan;
};

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
    int32_t member[FUSE_STEPS];
    struct ref in[FUSE_INPUTS], live_out[FUSE_OUTS];
    const struct layout *want[FUSE_INPUTS];
    *c = (struct plan_chain){.member = member, .in = in, .want = want, .live_out = live_out};
    c->nstep = fusion_members(&l->outline->fusion, node, c->member);
    c->nin = fusion_inputs(&l->outline->fusion, c->member, c->nstep, c->in, c->want);
    for (int i = 0; i < c->nstep; i++) {
        const struct prog_node *m = &l->program->node[c->member[i]];
        struct fuse_step *s = &chain->step[i];
        *s = (struct fuse_step){.call = program_call(l->program, m, &l->tmp), .out = -1};
        for (int k = 0; k < m->nin; k++) {
            int inside = m->in[k].kind == REF_NODE ? chain_step(c, m->in[k].index, i) : -1;
            s->arg[k] = inside >= 0 ? (struct fuse_arg){true, inside} : (struct fuse_arg){false, -1};
            if (inside < 0 && m->in[k].kind != REF_NONE)
                s->arg[k].index =
                    fusion_input(c->nin, c->in, c->want, m->in[k], m->in[k].kind == REF_NUMBER ? NULL : m->want[k]);
        }
        for (int k = 0; k < m->nout; k++) {
            if (!fusion_shown(&l->outline->fusion, c->member[i], k)) continue;
            if (k == 0) s->out = c->nout;
            if (k == 1) s->others = c->nout;
            c->live_out[c->nout++] = (struct ref){REF_NODE, (uint8_t)k, c->member[i]};
        }
    }
    c->member = arena_dup(a, member, sizeof *member * (size_t)c->nstep);
    c->in = arena_dup(a, in, sizeof *in * (size_t)c->nin);
    c->want = arena_dup(a, want, sizeof *want * (size_t)c->nin);
    c->live_out = arena_dup(a, live_out, sizeof *live_out * (size_t)c->nout);
}

static const char *
chain_name(struct lower *l, const struct chain *chain)
{
    struct str s = {0};
    bool group = group_is(chain->plan.nstep, chain->step);
    if (group) str_addf(&s, "%s x %d", chain->step[0].call->op->name, (int)chain->plan.nstep);
    for (int i = 0; i < chain->plan.nstep && !group; i++)
        str_addf(&s, "%s%s", i ? "+" : "", chain->step[i].call->op->name);
    const char *name = arena_strdup(&l->plan->arena, str_text(&s));
    str_free(&s);
    return name;
}

/* Returns the number of threads of the chain's kernel, from the work of a leading product and the bytes of the
 * largest shards. Uses the shards of the first rank, which are the largest, even if that rank is in another
 * process. */
static int
chain_team(const struct lower *l, const struct chain *chain)
{
    const struct plan_chain *c = &chain->plan;
    double bytes = 0, flops = 0, unused;
    for (int i = 0; i < c->nstep; i++)
        if (chain->step[i].call->op->flags & OP_LEADS) call_work(chain->step[i].call, &flops, &unused);
    for (int i = 0; i < c->nin; i++) {
        struct type t = ref_type(l->program, c->in[i]);
        if (c->want[i]) t = layout_shard(c->want[i], &t, 0);
        bytes += (double)type_bytes(&t);
    }
    for (int k = 0; k < c->nout; k++) {
        struct ref r = c->live_out[k];
        const struct prog_node *n = &l->program->node[r.index];
        struct type t = layout_shard(n->layout[r.out], &n->type[r.out], 0);
        bytes += (double)type_bytes(&t);
    }
    return lower_team(l, flops / l->program->node[c->member[0]].layout[0]->place->nrank, bytes);
}

static int
chain_task(struct lower *l, struct plan_chain *c, const char *name, struct pval *const *in, struct kernels *kernels,
           int32_t own, int pos)
{
    int32_t node = c->member[c->nstep - 1], id;
    const struct prog_node *last = &l->program->node[node];
    const struct layout *out = last->layout[0];
    struct draft *d = draft_new(l, &kind_compute, node, out->place->kind, out->place->rank[pos], pos, last->piece, &id);
    d->task.looks = l->checks[node];
    d->task.name = name;
    d->task.chain = c;
    draft_args(l, id, c->nin);
    for (int i = 0; i < c->nin; i++) {
        if (c->in[i].kind == REF_NUMBER) {
            struct type t = ref_type(l->program, c->in[i]);
            kernels->at[i] = number_view(&t, NULL);
            l->draft[id].task.arg[i] = (struct arg){.kind = ARG_NUMBER, .index = c->in[i].index};
        } else {
            kernels->view[i] = in[i]->part[own].view;
            kernels->at[i] = kernels->placed ? part_placed(in[i], own) : *in[i]->part[own].view;
            TRY(draft_reads(l, id, &in[i]->part[own], i, false));
        }
    }
    for (int k = 0; k < c->nout; k++) {
        struct pval *v = lower_value(l, c->live_out[k]);
        struct part *part = &v->part[own];
        kernels->view[c->nin + k] = part->view;
        kernels->at[c->nin + k] = kernels->placed ? part_placed(v, own) : *part->view;
        draft_out(l, &l->draft[id], view_bytes(part->view), 1);
        part_is_result(part, id, k);
    }
    struct task *t = &l->draft[id].task;
    t->nresult = c->nout;
    return kernels_get(kernels, t->device, &t->exec);
}

/* Lowers a fused chain with its leading operator, or a group of updates or casts (fusion.c), to one task per rank. */
static int
lower_chain(struct lower *l, int32_t node)
{
    struct chain chain;
    struct pval *in[FUSE_INPUTS] = {0};
    const struct local_positions *mine = local_positions_of(&l->mines, l->program->node[node].layout[0]->place);
    chain_of(l, node, &chain);
    struct plan_chain *c = arena_dup(&l->plan->arena, &chain.plan, sizeof chain.plan);
    const char *name = chain_name(l, &chain);
    for (int i = 0; i < c->nin; i++)
        if (c->in[i].kind != REF_NUMBER) TRY(lower_moved(l, lower_value(l, c->in[i]), c->want[i], i, true, &in[i]));
    for (int k = 0; k < c->nout; k++) {
        struct ref r = c->live_out[k];
        const struct prog_node *n = &l->program->node[r.index];
        l->node_val[r.index * OP_OUT + r.out] = pval_new(l, &n->type[r.out], n->layout[r.out], n->piece, r);
    }
    struct kernels kernels;
    kernels_begin(&kernels, l, l->program->node[node].layout[0]->place->kind, c->nin, c->nout);
    kernels.like.threads = chain_team(l, &chain);
    kernels_of(&kernels, c->nstep, chain.step);
    for (int32_t own = 0; own < mine->n; own++) TRY(chain_task(l, c, name, in, &kernels, own, mine->pos[own]));
    return 0;
}

/* Chooses the order of dimensions in which a result is stored in its register.
 *
 * Example: attention moves the head dimension in front of the positions, and back afterwards. The reshape after
 * the second transpose merges the heads with a neighbouring dimension, and would need a copy. A kernel that can
 * write in any order (OP_ANY_ORDER) avoids the copy: it stores its result in the order in which the view that
 * reads the result is dense. The other readers of the result must accept any order. */

/* Returns the node of a view operator that reads the result in the same layout; -1: there is none, or another
 * reader depends on the order of dimensions. */
static int32_t
viewer_of(const struct lower *l, int32_t node, int32_t out)
{
    const struct program *p = l->program;
    const struct prog_node *n = &p->node[node];
    int32_t reader = l->reader[node * OP_OUT + out];
    if (!(n->op->flags & OP_ANY_ORDER) || n->accumulate || l->shares[node] || reader < 0) return -1;
    const struct prog_node *r = &p->node[reader];
    bool views = r->op->flags & OP_VIEW && !r->accumulate && r->nin == 1;
    return views && r->want[0] == n->layout[out] ? reader : -1;
}

/* Sets the strides of `dense` so that its elements lie in memory in the order of `shown`, a view of the same elements
 * with permuted dimensions. Returns false if `shown` does not have the same dimensions in another order. */
static bool
turn_strides(struct view *dense, const struct view *shown)
{
    int64_t step = 1, stride[MAX_DIM];
    bool taken[MAX_DIM] = {false};
    if (view_numel(shown) != view_numel(dense) || shown->ndim != dense->ndim) return false;
    for (int j = shown->ndim - 1; j >= 0; j--) {
        int d = 0;
        while (d < dense->ndim && (taken[d] || dense->dim[d] != shown->dim[j] ||
                                   (dense->dim[d] > 1 && dense->stride[d] != shown->stride[j])))
            d++;
        if (d == dense->ndim) return false;
        taken[d] = true;
        stride[d] = step;
        step *= dense->dim[d];
    }
    for (int d = 0; d < dense->ndim; d++) dense->stride[d] = stride[d];
    return true;
}

/* Returns the view of shard `own` of a result as the shard is stored in its register. v: the result, with dense
 * views. */
static const struct view *
dim_order_result(struct lower *l, int32_t node, int32_t out, int32_t own, const struct pval *v)
{
    const struct view *dense = v->part[own].view;
    int32_t reader = viewer_of(l, node, out);
    if (reader < 0 || view_numel(dense) == 0) return dense;
    const struct prog_node *r = &l->program->node[reader];
    struct call *c = program_call(l->program, r, &l->tmp);
    struct view lies = *dense, operand = part_placed(v, own);
    struct view shown = part_local(r->layout[0], &r->type[0], v->mine->pos[own]);
    int64_t skip = 0;
    if (r->op->host.view(c, &operand, &shown, &skip) || skip != 0 || !turn_strides(&lies, &shown)) return dense;
    if (device_kind(v->layout->place->kind)->flags & COMPILES && lies.stride[lies.ndim - 1] != 1) return dense;
    return intern_view(l, &lies);
}

struct pval *
lower_value(struct lower *l, struct ref r)
{
    return r.kind == REF_LEAF ? l->leaf_val[r.index] : l->node_val[r.index * OP_OUT + r.out];
}

/* Returns true for a move whose result is a root: the move writes its shards directly into the root's buffers. */
static bool
outlives(const struct lower *l, int32_t node)
{
    return l->program->node[node].op->flags & OP_MOVE && l->outline->fusion.roots[node];
}

/* Converts the operands of a node to the layouts in which the node reads them. in[]: NULL for numbers and absent
 * operands. */
static int
lower_operands(struct lower *l, int32_t node, struct pval **in)
{
    const struct prog_node *n = &l->program->node[node];
    for (int i = 0; i < n->nin; i++) {
        const struct layout *want = hops_want(n, i);
        in[i] = NULL;
        if (want) TRY(lower_moved(l, lower_value(l, n->in[i]), want, i, !outlives(l, node), &in[i]));
    }
    return 0;
}

struct view
number_view(const struct type *t, void *data)
{
    return (struct view){.data = data, .dtype = t->dtype};
}

/* Returns the number of threads of a kernel. Work that takes one core less than TEAM_NS gets one thread. TEAM_NS
 * must exceed the cost of starting and joining a team (bench/bus): for a team of two, 1 us if it spins, 3 us if
 * it sleeps, 24 us if a halted core must be woken. */
int
lower_team(const struct lower *l, double flops, double bytes)
{
    enum { TEAM_NS = 25000 };
    return MAX(flops / FLOPS_PER_NS, bytes / BYTES_PER_NS) > TEAM_NS ? MAX(1, l->program->threads / l->outline->nshare)
                                                                     : 1;
}

static int
team_of(const struct lower *l, const struct call *c, int nrank)
{
    double flops, bytes;
    call_work(c, &flops, &bytes);
    return lower_team(l, flops / nrank, bytes / nrank);
}

/* A node that is being lowered, with its converted operands. */
struct computing {
    /* node: the node being lowered; to: the node whose results the task fills, which is `node` or the sum to which
     * it adds */
    int32_t node, to;
    struct pval **in;
    struct call *call;
    struct fuse_step whole;
    struct kernels kernels;
};

/* Returns true if the value differs per micro-batch. A value that is recomputed for each micro-batch, but is always
 * equal, does not count. */
static bool
varies(const struct lower *l, const struct pval *v)
{
    const struct program *p = l->program;
    if (v->ref.kind == REF_LEAF) return p->leaf[v->ref.index].piece;
    return p->node[v->ref.index].piece && !p->node[v->ref.index].accumulate;
}

static void
begin_kernels(struct lower *l, struct computing *c)
{
    const struct prog_node *n = &l->program->node[c->node];
    struct kcall *k = &c->kernels.like;
    kernels_begin(&c->kernels, l, n->layout[0]->place->kind, n->nin, n->nout);
    k->call = c->call;
    k->threads = team_of(l, c->call, n->layout[0]->place->nrank);
    k->adds = c->to != c->node;
    k->unread = !l->read[c->to];
    k->find_nan = l->program->find_nan;
    k->pieces = (struct pieces){.n = l->program->pieces, .cut = l->program->cut};
    for (int i = 0; i < n->nin && i < 32; i++) k->pieces.of |= (uint32_t)(c->in[i] && varies(l, c->in[i])) << i;
    c->whole = (struct fuse_step){.call = c->call};
    kernels_of(&c->kernels, 1, &c->whole);
}

/* Returns the part of a value that this rank's task reads or writes: its shard or, if replicas divide the work, a
 * slice of the shard. Also sets view i of the kernel to that part. */
static struct part
part_here(struct lower *l, struct computing *c, int32_t i, const struct pval *v, int32_t own)
{
    struct kernels *k = &c->kernels;
    struct part part = v->part[own];
    struct view placed = part_placed(v, own);
    int64_t skip;
    if (l->shares[c->node] && shape_equal(&v->type, &l->program->node[c->node].type[0])) {
        struct view slice = shared_update_slice(part.view, v->layout, &v->type, v->mine->pos[own], &skip);
        placed = shared_update_slice(&placed, v->layout, &v->type, v->mine->pos[own], &skip);
        part.view = intern_view(l, &slice);
        part.skip += skip;
    }
    k->view[i] = part.view;
    k->at[i] = k->placed ? placed : *part.view;
    return part;
}

static int
compute_task(struct lower *l, struct computing *c, int32_t own, int pos)
{
    const struct prog_node *n = &l->program->node[c->node];
    const struct layout *out = n->layout[0];
    struct kernels *k = &c->kernels;
    int32_t id;
    bool adds = c->to != c->node;
    struct draft *d = draft_new(l, adds ? &kind_sum : &kind_compute, c->node, out->place->kind, out->place->rank[pos],
                                pos, n->piece, &id);
    d->task.looks = l->checks[c->node];
    draft_args(l, id, n->nin);
    for (int i = 0; i < n->nin; i++) {
        if (c->in[i]) {
            struct part part = part_here(l, c, i, c->in[i], own);
            TRY(draft_reads(l, id, &part, i, false));
        } else if (n->in[i].kind == REF_NUMBER) {
            k->at[i] = number_view(&c->call->in[i], NULL);
            l->draft[id].task.arg[i] = (struct arg){.kind = ARG_NUMBER, .index = n->in[i].index};
        }
    }
    for (int o = 0; o < n->nout; o++) {
        struct pval *v = l->node_val[c->to * OP_OUT + o];
        if (!adds) v->part[own].view = dim_order_result(l, c->node, o, own, v);
        struct part part = part_here(l, c, n->nin + o, v, own);
        draft_out(l, &l->draft[id], view_bytes(part.view), adds ? l->program->pieces : 1);
        part_is_result(&part, id, o);
        v->part[own] = part;
    }
    struct task *t = &l->draft[id].task;
    t->nresult = n->nout;
    return kernels_get(k, t->device, &t->exec);
}

/* Makes the compiled kernels of a copy or accumulate task: one copies the argument to the result, the other adds the
 * argument to a sum over micro-batches. Does nothing if the device compiles no kernels. */
static int
single_launches(struct lower *l, int device, struct task *t)
{
    struct view pair[] = {view_dense(t->type, NULL), *t->source};
    struct cuda_launch *copies = NULL, *adds = NULL;
    if (!(device_kind(device)->flags & COMPILES)) return 0;
    TRY(cuda_launch_combine(&l->plan->arena, RED_SUM, 1, &pair[1], &pair[0], false, &copies));
    if (t->kind->flags & KIND_ONCE_A_BATCH && !(t->kind->flags & KIND_APPENDS))
        TRY(cuda_launch_combine(&l->plan->arena, RED_SUM, 2, pair, &pair[0], false, &adds));
    t->copies = copies;
    t->adds = adds;
    return 0;
}

/* Makes a task with one argument: the task adds the argument to a sum, appends the argument to those of earlier
 * micro-batches, or makes a dense copy of a window. type: type of the task's result; if the task appends, type of one
 * micro-batch's rows of the result. */
static int
single_task(struct lower *l, const struct task_kind *kind, struct pval *v, const struct type *type, int32_t own,
            bool piece, int32_t *id)
{
    const struct place *p = v->layout->place;
    int pos = v->mine->pos[own];
    struct draft *d = draft_new(l, kind, v->node, p->kind, p->rank[pos], pos, piece, id);
    struct type local = layout_shard(v->layout, type, pos);
    d->task.type = arena_dup(&l->plan->arena, &local, sizeof local);
    d->task.name = kind->name;
    d->task.source = v->part[own].view;
    d->task.threads = lower_team(l, 0, 2 * (double)type_bytes(&local));
    draft_out(l, d, type_bytes(&local) * (kind->flags & KIND_APPENDS ? l->program->pieces : 1),
              kind->flags & KIND_ONCE_A_BATCH ? l->program->pieces : 1);
    d->task.nresult = 1;
    TRY(single_launches(l, p->kind, &d->task));
    draft_args(l, *id, 1);
    return draft_reads(l, *id, &v->part[own], 0, false);
}

/* Returns the index, among the local positions of `in`, of the shard that is on the same device as shard `own` of
 * v. The index differs from `own` if the node is a shift, which renames shards. */
static int32_t
shard_below(const struct pval *in, const struct pval *v, int32_t own)
{
    int32_t rank = v->layout->place->rank[v->mine->pos[own]];
    return local_set_find(in->mine, place_find(in->layout->place, rank));
}

/* Makes *out a shard of a view operator's result, as a view of the operand's shard. If strides cannot express the
 * view (a reshape of a transposed shard), makes a dense copy in the result's layout. */
static int
view_part(struct lower *l, int32_t node, const struct call *c, struct pval *in, int32_t own, struct part *out)
{
    const struct prog_node *n = &l->program->node[node];
    int32_t below = shard_below(in, l->node_val[node * OP_OUT], own);
    const struct part *from = &in->part[below];
    struct view v = part_placed(l->node_val[node * OP_OUT], own), operand = part_placed(in, below);
    int64_t skip = 0;
    if (n->op->host.view(c, &operand, &v, &skip)) {
        int32_t id;
        TRY(single_task(l, &kind_copy, in, &in->type, below, in->piece, &id));
        l->draft[id].task.node = node;
        l->draft[id].task.phase = l->outline->stages.phase[node];
        part_is_result(out, id, 0);
        return 0;
    }
    const struct view *dense = out->view;
    *out = *from;
    out->skip = from->skip + skip;
    /* an empty shard takes its shape from the result's layout */
    out->view = view_numel(&v) == 0 ? dense : intern_view(l, &v);
    return 0;
}

static int
lower_node(struct lower *l, int32_t node)
{
    const struct prog_node *n = &l->program->node[node];
    struct pval **in = ARENA_ARRAY(&l->tmp, struct pval *, n->nin);
    if (l->outline->fusion.group[node] != node) return 0; /* a later node lowers the complete group */
    if (l->outline->fusion.group_size[node] > 1) return lower_chain(l, node);
    /* a product has already added its results to this sum */
    if (n->accumulate && l->node_val[node * OP_OUT]) return 0;
    TRY(lower_operands(l, node, in));
    if (n->op->flags & OP_MOVE && !n->accumulate) {
        l->node_val[node * OP_OUT] = in[0];
        return 0;
    }
    int32_t sum = l->outline->fusion.sum[node], to = sum < 0 ? node : sum;
    for (int k = 0; k < n->nout; k++)
        l->node_val[to * OP_OUT + k] = pval_new(l, &n->type[k], n->layout[k], n->piece && !n->accumulate && sum < 0,
                                                (struct ref){REF_NODE, (uint8_t)k, to});
    const struct local_positions *mine = local_positions_of(&l->mines, n->layout[0]->place);
    if (mine->n == 0) return 0;
    struct computing c = {.node = node, .to = to, .in = in, .call = program_call(l->program, n, &l->tmp)};
    if (!n->accumulate && !(n->op->flags & OP_VIEW)) begin_kernels(l, &c);
    for (int32_t own = 0; own < mine->n; own++) {
        struct part *out = &l->node_val[to * OP_OUT]->part[own];
        int32_t id;
        if (n->accumulate) {
            TRY(single_task(l, n->append ? &kind_append : &kind_accumulate, in[0],
                            n->append ? &in[0]->type : &n->type[0], own, true, &id));
            part_is_result(out, id, 0);
        } else if (n->op->flags & OP_VIEW) {
            TRY(view_part(l, node, c.call, in[0], own, out));
        } else {
            TRY(compute_task(l, &c, own, mine->pos[own]));
        }
    }
    return 0;
}

/* Makes the early moves of a node's results, right after the node (hops_early). */
static int
lower_results(struct lower *l, int32_t node)
{
    const struct outline *o = l->outline;
    int32_t member[FUSE_STEPS];
    int n = o->fusion.group[node] == node ? fusion_members(&o->fusion, node, member) : 0;
    for (int m = 0; m < n; m++)
        for (int k = 0; k < l->program->node[member[m]].nout; k++) {
            struct ref r = {REF_NODE, (uint8_t)k, member[m]};
            const struct layout *to = hops_early(o, r);
            struct pval *there;
            if (to) TRY(lower_moved(l, lower_value(l, r), to, hops_result(m, k), true, &there));
        }
    return 0;
}

static void
lower_leaves(struct lower *l)
{
    struct plan *p = l->plan;
    for (int32_t i = 0; i < l->program->nleaf; i++) {
        const struct prog_leaf *f = &l->program->leaf[i];
        struct pval *v = pval_new(l, &f->type, f->layout, f->piece, (struct ref){.kind = REF_LEAF, .index = i});
        for (int32_t k = 0; k < v->mine->n; k++) {
            struct part *part = &v->part[k];
            part->kind = ARG_LEAF;
            part->index = p->leaf_first[i] + k;
            struct type local = layout_shard(f->layout, &f->type, v->mine->pos[k]);
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
    for (int32_t i = 0; i < p->nnode; i++) {
        l->at = i;
        int status = update_order_gate(l, i);
        if (!status) status = lower_node(l, i);
        if (!status) status = lower_results(l, i);
        if (!status) continue;
        const struct line *at = &p->node[i].line;
        if (at->file) err_note("%s:%d", at->file, at->line);
        return status;
    }
    return 0;
}

/* ---- roots ---- */

/* Returns true if a task can write the shard directly into the root's buffer: the shard fills a register, and no
 * other root uses this register. */
static bool
takes_root(const struct lower *l, const struct part *part, bool piece)
{
    if (part->kind != ARG_REG || part->skip != 0 || !view_is_dense(part->view)) return false;
    const struct draft *d = &l->draft[part->index];
    const struct out_port *o = &d->out[part->out];
    int64_t bytes = view_bytes(part->view);
    return o->where.kind == IN_ARENA && !o->shared && o->bytes == bytes && piece == !draft_once(d);
}

int
lower_roots(struct lower *l)
{
    struct plan *p = l->plan;
    for (int32_t k = 0; k < l->program->nroot; k++) {
        const struct prog_root *root = &l->program->root[k];
        struct pval *v = lower_value(l, root->ref);
        for (int32_t own = 0; own < v->mine->n; own++) {
            struct part part = v->part[own];
            if (!takes_root(l, &part, root->join)) {
                int32_t id;
                p->overwrites[k] = false;
                l->at = v->node;
                TRY(single_task(l, &kind_copy, v, &v->type, own, root->join, &id));
                part_is_result(&part, id, 0);
            }
            struct out_port *o = &l->draft[part.index].out[part.out];
            int64_t offset = p->shared[k] ? shared_update_offset(v->layout, &v->type, v->mine->pos[own]) : 0;
            o->where =
                (struct where){.kind = IN_ROOT, .index = p->root_first[k] + own, .offset = offset, .stride = o->bytes};
            if (root->join) o->nreg = l->program->pieces;
        }
    }
    return 0;
}
