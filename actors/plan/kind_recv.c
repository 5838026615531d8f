/* kind_recv.c - a task that holds what a task of another memory sent: that window, dense. */
#include "actors/plan/transport.h"
#include "actors/plan/verify_value.h"

static int
begin(struct act *a)
{
    const struct transport *t = a->transport;
    const struct channel *c = &a->plan->channel[a->task->channel];
    a->received += c->bytes;
    return t->take(t->of, a->task->channel, c, a->out[0]);
}

static struct type
result(const struct plan *p, int32_t task, int32_t out)
{
    const struct task *t = &p->task[task];
    const struct plan_move *of = t->move.of;
    const struct channel *c = task_channel(p, t);
    bool staged = c && c->name.from_side == SIDE_STAGE;
    enum dtype dtype = layout_dtype(staged ? of->to : of->from, (enum dtype)of->type.dtype);
    int64_t numel = t->out[out].bytes / (int64_t)dtype_bytes(dtype);
    return type_of(dtype, 1, &numel);
}

const struct task_kind kind_recv = {
    .name = "recv",
    .flags = KIND_MOVE | KIND_WRITES | KIND_FAR,
    .begin = begin,
    .check = value_recv,
    .result = result,
    .print = kind_print_far,
};
