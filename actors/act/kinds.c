/* kinds.c - what the kinds of actors do when they act: a table, one row a kind.
 *
 * A compute actor calls its kernel; a box or fill actor carries out its part of
 * a move, reading other devices' registers in place and counting what it reads;
 * a join actor does nothing but count; an accumulate actor adds a piece to its
 * sum; a copy actor makes a dense copy of a window. All pointers come from the
 * plan's offsets and the run's bases; nothing here allocates. */
#include "actors/act/actor.h"

#include "runtime/error.h"

enum { ARG_ROOM = 64, SOURCES = 32 };

/* What has no elements has no memory; a kernel is given an address all the same. */
static _Alignas(64) char nothing[64];

/* Where a register lies: in the arena of its producer's device, or in the buffer of a value that outlives the run. */
static char *
reg_address(const struct run *run, int task, int out, int reg)
{
    const struct task *t = &run->plan->task[task];
    const struct out_port *o = &t->out[out];
    if (o->bytes == 0) return nothing;
    if (o->home) return reg_address(run, o->home - 1, 0, reg);
    if (o->root >= 0) return (char *)run->root[o->root] + reg * o->bytes;
    return (char *)run->arena[t->device] + o->offset + reg * ((o->bytes + 63) & ~(int64_t)63);
}

static void *
arg_address(const struct worker *w, int task, const struct arg *arg, int piece)
{
    const struct task *t = &w->plan->task[task];
    switch (arg->kind) {
    case ARG_REG: {
        const struct in_port *p = &t->in[arg->index];
        int reg = w->actors->actor[task].in[arg->index].give;
        return reg_address(w->run, p->task, p->out, reg) + arg->skip;
    }
    case ARG_LEAF: {
        char *base = w->run->leaf[arg->index];
        return base ? base + arg->skip + piece * arg->piece_stride : nothing;
    }
    case ARG_NUMBER: return &w->run->number[arg->index];
    default: return NULL;
    }
}

static void *
result_address(const struct worker *w, int task, int out)
{
    return reg_address(w->run, task, out, w->actors->actor[task].out[out].show);
}

static int
compute(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    void *in[ARG_ROOM], *out[OP_OUT];
    assert(t->narg <= ARG_ROOM);
    for (int i = 0; i < t->narg; i++) in[i] = arg_address(w, task, &t->arg[i], piece);
    for (int k = 0; k < t->nresult; k++) out[k] = result_address(w, task, k);
    char *scratch = (char *)w->run->arena[t->device] + w->plan->device[t->device].scratch;
    return exec_run(t->exec, in, out, scratch, (uint64_t)piece);
}

static bool
on_other_device(const struct plan *p, const struct task *t, const struct arg *arg)
{
    const struct plan_device *d = &p->device[t->device];
    if (arg->kind == ARG_REG) return p->task[t->in[arg->index].task].device != t->device;
    const struct plan_part *part = &p->leaf_part[arg->index];
    const struct place *place = p->program->leaf[part->index].layout->place;
    return place->rank[part->pos] != d->rank || place->kind != d->kind;
}

static int64_t
view_bytes(const struct view *v)
{
    return view_numel(v) * (int64_t)dtype_bytes(v->dtype);
}

/* One step of a move, at most SOURCES sources a pass: a later pass goes on from what the one before it left. */
static void
box_step(const struct worker *w, int task, const struct box_move *m, char *out, int piece)
{
    struct view dst = m->view, src[SOURCES + 1];
    dst.data = out + m->skip;
    if (m->verb == BOX_FILL) {
        box_fill(m->reduce, &dst);
        return;
    }
    int n = 0;
    for (int i = 0; i < m->nfrom; i++) {
        const struct box_from *f = &m->from[i];
        const struct task *t = &w->plan->task[task];
        char *base = arg_address(w, task, &t->arg[f->arg], piece);
        if (on_other_device(w->plan, t, &t->arg[f->arg])) w->actors->actor[task].received += view_bytes(&f->view);
        src[n] = f->view;
        src[n++].data = base + f->skip;
        if (n <= SOURCES && i < m->nfrom - 1) continue;
        box_reduce(m->reduce, &dst, n, src);
        src[0] = dst;
        n = 1;
    }
}

static int
box(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    char *out = result_address(w, task, 0);
    for (int i = 0; i < t->nmove; i++) box_step(w, task, &t->move[i], out, piece);
    return 0;
}

static int
accumulate(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    struct view dst = view_dense(&t->type, result_address(w, task, 0));
    struct view src = t->source;
    src.data = arg_address(w, task, &t->arg[0], piece);
    box_combine(RED_SUM, piece == 0, &dst, &src);
    return 0;
}

static int
copy(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    struct view dst = view_dense(&t->type, result_address(w, task, 0));
    struct view src = t->source;
    src.data = arg_address(w, task, &t->arg[0], piece);
    view_copy(&dst, &src);
    return 0;
}

/* All slices are there: they came with the registers that this act takes. Those of other devices are received. */
static int
join(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    UNUSED(piece);
    for (int i = 0; i < t->nin; i++) {
        const struct task *fill = &w->plan->task[t->in[i].task];
        if (fill->device == t->device) continue;
        for (int m = 0; m < fill->nmove; m++) w->actors->actor[task].received += view_bytes(&fill->move[m].view);
    }
    return 0;
}

static int (*const act[NTASK_KIND])(struct worker *w, int task, int piece) = {
    [TASK_COMPUTE] = compute, [TASK_BOX] = box,  [TASK_ACCUMULATE] = accumulate,
    [TASK_COPY] = copy,       [TASK_FILL] = box, [TASK_JOIN] = join,
};

int
task_run(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    const struct op *op = t->kind == TASK_COMPUTE ? w->plan->program->node[t->node].op : NULL;
    TRY(engine_trouble(w->engine, op));
    return act[t->kind](w, task, piece);
}
