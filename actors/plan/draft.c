/* draft.c - tasks in the making: what they read, what they give, in which order.
 *
 * A draft knows its arguments and edges; compile.c makes flat, read-only tasks
 * of all of them at the end. */
#include "actors/plan/lower.h"

#include "runtime/error.h"

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

struct draft *
draft_new(struct lower *l, const struct task_kind *kind, int32_t node, int device_kind, int rank, int32_t pos,
          bool piece, int32_t *id)
{
    if (l->ndraft == l->room) {
        int32_t room = l->room ? 2 * l->room : 256;
        struct draft *more = ARENA_ARRAY(&l->tmp, struct draft, room);
        if (l->ndraft) memcpy(more, l->draft, sizeof *more * (size_t)l->ndraft);
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
    t->kind = kind;
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

void
draft_out(struct draft *d, int64_t bytes, int32_t every)
{
    struct where where = {IN_ARENA, d->task.device, 0, where_stride(bytes)};
    d->out[d->nout++] = (struct out_port){.nreg = 1, .every = every, .bytes = bytes, .where = where};
}

/* Does the result of this task come once a batch? */
bool
draft_once(const struct draft *d)
{
    return !d->piece || d->task.kind->flags & KIND_ONCE_A_BATCH;
}

/* The port by which task `to` reads result `out` of task `from`; made when it is not there yet. */
int
draft_follows(struct lower *l, int32_t to, int32_t from, int32_t out, int32_t *port)
{
    struct draft *d = &l->draft[to];
    *port = 0;
    for (struct edge *e = d->in; e; e = e->next, ++*port)
        if (e->task == from && e->out == out) return 0;
    const struct draft *f = &l->draft[from];
    bool once = draft_once(f);
    if (!once && !d->piece)
        return fail(E_PLAN, "%s: a value that differs from piece to piece enters what is computed once a batch",
                    d->task.name);
    struct edge *e = ARENA_NEW(&l->tmp, struct edge);
    *e = (struct edge){.task = from, .out = out, .hold = once && d->piece ? l->program->pieces : 1, .need = 1};
    *d->in_end = e;
    d->in_end = &e->next;
    d->nin++;
    return 0;
}

/* The next argument of the task reads this part. */
int
draft_reads(struct lower *l, int32_t task, const struct part *part, int argument)
{
    struct arg *arg = &l->draft[task].task.arg[argument];
    *arg = (struct arg){.kind = part->kind,
                        .index = part->index,
                        .skip = part->skip * (int64_t)dtype_bytes(part->view.dtype),
                        .piece_stride = part->piece_stride};
    if (part->kind == ARG_REG) TRY(draft_follows(l, task, part->index, part->out, &arg->index));
    return 0;
}

void
draft_args(struct lower *l, int32_t task, int n)
{
    struct task *t = &l->draft[task].task;
    t->narg = n;
    t->arg = ARENA_ARRAY(&l->plan->arena, struct arg, n);
}

/* The local view at a mesh position, dense, knowing its place in the whole. */
struct view
part_local(const struct layout *layout, const struct type *type, int pos)
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

struct pval *
pval_new(struct lower *l, const struct type *type, const struct layout *layout, bool piece, int32_t node)
{
    struct pval *v = ARENA_NEW(&l->tmp, struct pval);
    v->type = *type;
    v->layout = layout;
    v->piece = piece;
    v->node = node;
    v->part = ARENA_ARRAY(&l->tmp, struct part, layout->place->nrank);
    for (int pos = 0; pos < layout->place->nrank; pos++) v->part[pos].view = part_local(layout, type, pos);
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

/* The window of a part (its box in the whole starts at lo) that holds slice. */
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
        from->out[from->nout++] = (struct out_port){.control = true, .nreg = 1, .every = 1};
    }
    struct edge *e = ARENA_NEW(&l->tmp, struct edge);
    *e = (struct edge){.task = a, .out = from->control, .hold = 1, .need = 1};
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
