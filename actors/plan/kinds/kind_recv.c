/* kind_recv.c - a task that receives a dense window from a task on another host. */
#include "actors/plan/kinds/kind_move.h"
#include "actors/plan/model/transport.h"
#include "actors/plan/verify/value/verify_send.h"

static int
begin_recv(struct act *a)
{
    const struct transport *t = a->transport;
    const struct channel *c = &a->plan->channel[a->task->channel];
    a->received += c->bytes;
    return t->take(t->of, a->task->channel, c, a->out[0]);
}

const struct task_kind kind_recv = {
    .name = "recv",
    .flags = KIND_MOVE | KIND_WRITES | KIND_FAR,
    .begin = begin_recv,
    .check = value_recv,
    .result = move_far_row,
    .print = kind_print_far,
};
