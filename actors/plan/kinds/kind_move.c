/* kind_move.c - runs the tasks of a move: copies each slice, or combines it from its sources in the order of the
 * sources. */
#include "actors/plan/kinds/kind_move.h"
#include "kernels/cuda/launch.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/device/stream.h"
#include "runtime/tensor/view.h"
#include "boxing/reduce.h"

/* Returns true if an argument is in the memory of another device than the result. */
static bool
on_other_device(const struct plan *p, const struct task *t, const struct arg *arg)
{
    const struct plan_device *d = &p->device[task_holder(t)];
    if (arg->kind == ARG_REG) return task_holder(&p->task[t->in[arg->index].task]) != task_holder(t);
    const struct plan_part *part = &p->leaf_part[arg->index];
    const struct place *place = p->program->leaf[part->index].layout->place;
    return place->rank[part->pos] != d->rank || place->kind != d->kind;
}

/* The running step of a move. */
struct step {
    const struct box_move *move;
    const struct stream_work *work;
    const struct stream *stream;
};

static void
move_operand_source(const void *of, int k, struct box_operand *out)
{
    const struct step *s = of;
    const struct box_from *f = &s->move->from[k];
    *out = (struct box_operand){f->view, (char *)stream_reach(s->stream, s->work->in[f->arg]) + f->skip};
}

static int
launch_step(const struct step *step, void *to, struct cuda_bundle *b)
{
    const struct box_move *m = step->move;
    void *in[CUDA_SOURCES];
    assert(m->nfrom <= CUDA_SOURCES);
    for (int k = 0; k < m->nfrom; k++) {
        struct box_operand o;
        move_operand_source(step, k, &o);
        in[k] = o.data;
    }
    return cuda_bundle_add(b, m->launch, in, &to);
}

/* Copies a slice between memory spaces with a copy operation of the device, if the device has one. *begun: true if
 * the device copies the slice. */
static int
carry_step(const struct step *step, const struct view *dst, bool *begun)
{
    const struct stream *s = step->stream;
    struct box_operand from;
    struct view_rows rows;
    if (!s || !s->kind->carry) return 0;
    move_operand_source(step, 0, &from);
    return view_as_rows(dst, from.view, &rows) ? s->kind->carry(s->device, dst->data, from.data, &rows, begun) : 0;
}

static int
take_step(const struct box_move *m, const struct stream_work *w, const struct stream *s, struct cuda_bundle *b)
{
    struct view dst = *m->view;
    struct step step = {m, w, s};
    bool begun = false;
    dst.data = (char *)stream_reach(s, w->out[0]) + m->skip;
    if (m->launch) return launch_step(&step, dst.data, b);
    if (m->nfrom == 1) TRY(carry_step(&step, &dst, &begun));
    if (begun) return 0;
    if (m->verb == BOX_FILL)
        box_fill(m->reduce, &dst);
    else
        box_reduce_each(m->reduce, &dst, m->nfrom, move_operand_source, &step);
    return 0;
}

/* Runs all steps of a task's move. Each step writes a different slice and reads only complete data, so steps with
 * the same kernel are launched together. */
static int
move_now(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    struct cuda_bundle b;
    cuda_bundle_begin(&b, s ? s->device : 0);
    for (int i = 0; i < t->move.nstep; i++) TRY(take_step(&t->move.step[i], w, s, &b));
    return cuda_bundle_end(&b);
}

static void
count_move_received(struct act *a, const struct box_move *m)
{
    for (int i = 0; i < m->nfrom; i++)
        if (on_other_device(a->plan, a->task, &a->task->arg[m->from[i].arg]))
            a->received += view_bytes(m->from[i].view);
}

int
move_begin(struct act *a)
{
    bool launches = true;
    for (int i = 0; i < a->task->move.nstep; i++) {
        count_move_received(a, &a->task->move.step[i]);
        launches = launches && a->task->move.step[i].launch;
    }
    return kind_enqueue(a, move_now, launches);
}

int
move_rearrange(int32_t n, const struct comm_rank_copy *copy, void *from, void *to, const struct stream *s)
{
    struct cuda_bundle b;
    cuda_bundle_begin(&b, s->device);
    for (int32_t i = 0; i < n; i++) {
        const struct comm_rank_copy *c = &copy[i];
        struct view src = *c->from, dst = *c->to;
        src.data = (char *)stream_reach(s, from) + c->from_skip;
        dst.data = (char *)stream_reach(s, to) + c->to_skip;
        if (c->launch)
            TRY(cuda_bundle_add(&b, c->launch, &src.data, &dst.data));
        else
            box_reduce(RED_SUM, &dst, 1, &src);
    }
    return cuda_bundle_end(&b);
}

struct type
move_row(const struct task *t, enum dtype dtype, int32_t out)
{
    int64_t numel = t->out[out].bytes / (int64_t)dtype_bytes(dtype);
    return type_of(dtype, 1, &numel);
}

struct type
move_far_row(const struct plan *p, int32_t task, int32_t out)
{
    const struct channel *c = task_channel(p, &p->task[task]);
    return move_row(&p->task[task], c ? (enum dtype)c->dtype : DT_U8, out);
}
