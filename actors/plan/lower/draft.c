/* draft.c - tasks under construction (drafts): arguments, results and edges.
 *
 * At the end, compile.c converts all drafts to flat, read-only tasks. */
#include "actors/plan/lower/draft.h"
#include "actors/plan/lower/intern.h"

#include "runtime/base/error.h"

#include <string.h>

/* Returns the index of a device in the plan. Devices are sorted by kind, then rank. */
int32_t
draft_device(const struct lower *l, int kind, int rank)
{
    const struct plan *p = l->plan;
    int32_t lo = 0, hi = p->ndevice;
    while (hi - lo > 1) {
        int32_t mid = lo + (hi - lo) / 2;
        const struct plan_device *d = &p->device[mid];
        if (d->kind < kind || (d->kind == kind && d->rank <= rank))
            lo = mid;
        else
            hi = mid;
    }
    assert(p->device[lo].kind == kind && p->device[lo].rank == rank);
    return lo;
}

struct draft *
draft_new(struct lower *l, const struct task_kind *kind, int32_t node, int device_kind, int rank, int32_t pos,
          bool piece, int32_t *id)
{
    GROW(l->draft, l->ndraft + 1, l->capacity);
    *id = l->ndraft++;
    struct draft *d = &l->draft[*id];
    *d = (struct draft){0};
    d->control = -1;
    d->piece = piece;
    struct task *t = &d->task;
    t->kind = kind;
    t->node = node;
    t->device = draft_device(l, device_kind, rank);
    t->thread = l->plan->device[t->device].thread;
    t->pos = pos;
    t->channel = -1;
    t->nact = piece ? l->program->pieces : 1;
    t->priority = *id;
    t->blame_node = node >= 0 ? node : l->at;
    if (l->at >= 0) d->task.stage = l->outline->stages.stage[l->at];
    if (node >= 0) t->name = l->program->node[node].op->name;
    bool anew = kind->flags & KIND_MOVE && l->program->node[l->at].again;
    if (anew || node >= 0) t->phase = l->outline->stages.phase[anew ? l->at : node];
    return d;
}

int32_t
draft_port(struct lower *l, struct draft *d, const struct out_port *o)
{
    if (d->nout == d->out_capacity) {
        d->out_capacity = d->out_capacity ? 2 * d->out_capacity : 1;
        struct out_port *more = ARENA_ARRAY(&l->tmp, struct out_port, d->out_capacity);
        if (d->nout) memcpy(more, d->out, sizeof *more * (size_t)d->nout);
        d->out = more;
    }
    d->out[d->nout] = *o;
    return d->nout++;
}

void
draft_out(struct lower *l, struct draft *d, int64_t bytes, int32_t every)
{
    struct where where = {.kind = IN_ARENA, .index = d->task.device, .stride = where_stride(bytes)};
    draft_port(l, d, &(struct out_port){.nreg = 1, .every = every, .bytes = bytes, .where = where});
}

/* Returns true if the task's results are computed once per batch. */
bool
draft_once(const struct draft *d)
{
    return !d->piece || d->task.kind->flags & KIND_ONCE_A_BATCH;
}

void
draft_edge(struct lower *l, int32_t to, const struct edge *e)
{
    struct draft *d = &l->draft[to];
    struct edge *made = arena_dup(&l->tmp, e, sizeof *e);
    made->next = NULL;
    if (d->last_in)
        d->last_in->next = made;
    else
        d->in = made;
    d->last_in = made;
    d->nin++;
}

/* Fails if task `to` runs once per batch but reads a result of `from`, which runs per micro-batch. */
static int
check_rates(const struct lower *l, int32_t to, int32_t from)
{
    if (draft_once(&l->draft[from]) || l->draft[to].piece) return 0;
    return fail(E_PLAN, "%s: a value of one micro-batch is used in a computation that runs once per batch",
                l->draft[to].task.name);
}

/* Sets *port to the in-port by which the task reads a shard; adds an in-port if the task has none for this shard.
 * fresh true: the caller knows that the task has none, so no search is needed. */
static int
follow_edge(struct lower *l, int32_t to, const struct part *part, bool fresh, int32_t *port)
{
    struct draft *d = &l->draft[to];
    *port = 0;
    for (struct edge *e = fresh ? NULL : d->in; e; e = e->next, ++*port)
        if (e->task == part->index && e->out == part->out) return 0;
    TRY(check_rates(l, to, part->index));
    *port = d->nin;
    int32_t hold = draft_once(&l->draft[part->index]) && d->piece ? l->program->pieces : 1;
    draft_edge(l, to, &(struct edge){.task = part->index, .out = part->out, .hold = hold, .need = 1});
    return 0;
}

/* Makes an argument of the task read this shard. fresh true: no other argument of the task reads a result of the
 * same producer. */
int
draft_reads(struct lower *l, int32_t task, const struct part *part, int argument, bool fresh)
{
    struct arg *arg = &l->draft[task].task.arg[argument];
    *arg = (struct arg){.kind = part->kind,
                        .index = part->index,
                        .skip = part->skip * (int64_t)dtype_bytes(part->view->dtype),
                        .piece_stride = part->piece_stride};
    if (part->kind == ARG_REG) TRY(follow_edge(l, task, part, fresh, &arg->index));
    return 0;
}

void
draft_args(struct lower *l, int32_t task, int n)
{
    struct task *t = &l->draft[task].task;
    t->narg = n;
    t->arg = ARENA_ARRAY(&l->plan->arena, struct arg, n);
}

/* Returns the dense view of the shard at a mesh position. The view records the shard's position in the global
 * tensor. */
struct view
part_local(const struct layout *layout, const struct type *type, int pos)
{
    struct type local = layout_shard(layout, type, pos);
    struct view v = view_dense(&local, NULL);
    struct box b;
    layout_box(layout, type, pos, &b);
    for (int i = 0; i < type->ndim; i++) {
        v.offset[i] = b.lo[i];
        v.global[i] = type->dim[i];
    }
    return v;
}

struct view
part_placed(const struct pval *v, int32_t k)
{
    struct view view = *v->part[k].view;
    struct box b;
    layout_box(v->layout, &v->type, v->mine->pos[k], &b);
    for (int i = 0; i < v->type.ndim; i++) {
        view.offset[i] = b.lo[i];
        view.global[i] = v->type.dim[i];
    }
    return view;
}

struct pval *
pval_new(struct lower *l, const struct type *type, const struct layout *layout, bool piece, struct ref ref)
{
    struct pval *v = ARENA_NEW(&l->tmp, struct pval);
    v->type = *type;
    v->layout = layout;
    v->piece = piece;
    v->node = ref.kind == REF_NODE ? ref.index : -1;
    v->ref = ref;
    v->mine = local_positions_of(&l->mines, layout->place);
    v->part = ARENA_ARRAY(&l->tmp, struct part, v->mine->n);
    struct type last = {0};
    for (int32_t k = 0; k < v->mine->n; k++) {
        struct type local = layout_shard(layout, type, v->mine->pos[k]);
        if (k > 0 && type_equal(&local, &last)) {
            v->part[k].view = v->part[k - 1].view;
            continue;
        }
        struct view dense = view_dense(&local, NULL);
        v->part[k].view = intern_view(l, &dense);
        last = local;
    }
    return v;
}

void
part_is_result(struct part *p, int32_t task, int32_t out)
{
    p->kind = ARG_REG;
    p->index = task;
    p->out = out;
    p->skip = 0;
}

/* Returns the view of the window `slice` of a shard. lo: global position of the shard's first element. */
struct view
part_window(const struct view *part, const int64_t *lo, const struct box *slice, int64_t *skip)
{
    struct view v = *part;
    *skip = 0;
    for (int i = 0; i < v.ndim; i++) {
        *skip += (slice->lo[i] - lo[i]) * v.stride[i];
        v.dim[i] = slice->hi[i] - slice->lo[i];
    }
    return v;
}
