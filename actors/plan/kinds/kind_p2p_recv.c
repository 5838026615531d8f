/* kind_p2p_recv.c - a task that receives a dense block from a device on another host, by a device library (NCCL). */
#include "actors/plan/kinds/kind_move.h"
#include "actors/plan/verify/value/verify_send.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"

static int
take_over_recv(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    const struct move_comm_rank *own = t->move.member;
    struct collective_call call = {COLLECT_PASS, RED_NONE, own->dtype, own->numel};
    if (own->numel == 0) return 0;
    return s->kind->collect(own->in, own->comm_rank, &call, s, NULL, stream_reach(s, w->out[0]));
}

static int
begin_p2p_recv(struct act *a)
{
    a->received += a->plan->channel[a->task->channel].bytes;
    return kind_enqueue(a, take_over_recv, true);
}

const struct task_kind kind_p2p_recv = {
    .name = "recv by nccl",
    .flags = KIND_MOVE | KIND_WRITES | KIND_FAR | KIND_P2P,
    .begin = begin_p2p_recv,
    .check = value_p2p_recv,
    .result = move_far_row,
    .print = kind_print_far,
};
