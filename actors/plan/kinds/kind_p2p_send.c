/* kind_p2p_send.c - a task that sends a window of its argument to a device on another host, by a device library
 * (NCCL).
 *
 * Slices are first packed into one dense vector, as work of the same stream. Once the send is enqueued, the
 * receiving end of the channel is notified, and enqueues the receive (actors/act/run/p2p.c). */
#include "actors/plan/kinds/kind_move.h"
#include "actors/plan/verify/value/verify_send.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/device/stream.h"

static int
hand_over_send(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    const struct move_comm_rank *own = t->move.member;
    struct collective_call call = {COLLECT_PASS, RED_NONE, own->dtype, own->numel};
    void *row = own->npack ? w->out[0] : w->in[0];
    if (own->numel == 0) return 0;
    TRY(move_rearrange(own->npack, own->pack, w->in[0], row, s));
    return s->kind->collect(own->in, own->comm_rank, &call, s, stream_reach(s, row), NULL);
}

static int
begin_p2p_send(struct act *a)
{
    return kind_enqueue(a, hand_over_send, true);
}

const struct task_kind kind_p2p_send = {
    .name = "send by nccl",
    .flags = KIND_MOVE | KIND_SENDS | KIND_WRITES | KIND_FAR | KIND_P2P,
    .begin = begin_p2p_send,
    .check = value_p2p_send,
    .result = move_far_row,
    .print = kind_print_far,
};
