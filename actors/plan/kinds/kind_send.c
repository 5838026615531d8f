/* kind_send.c - a task that sends a window of its argument to a task on another host.
 *
 * The argument's register is returned when the transport no longer uses the bytes (actors/act/run/actor.c). */
#include "actors/plan/model/transport.h"
#include "actors/plan/verify/value/verify_send.h"

static int
begin_send(struct act *a)
{
    const struct transport *t = a->transport;
    return t->put(t->of, a->task->channel, &a->plan->channel[a->task->channel], a->in[0], &a->ticket);
}

const struct task_kind kind_send = {
    .name = "send",
    .flags = KIND_MOVE | KIND_SENDS | KIND_FAR,
    .begin = begin_send,
    .check = value_send,
    .result = kind_result_type,
    .print = kind_print_far,
};
