/* p2p.c - makes the ends of channels whose bytes a library sends from device memory to device memory.
 *
 * The SEND is a task of the device that has the bytes, the RECV a task of a device that reads them. The bytes do
 * not pass through host memory. The two tasks share a point-to-point link between their devices
 * (runtime/device/communicator.h). The library sends one dense vector of elements. So if there are several windows,
 * or one with gaps, the SEND packs them into a register of its own. All partitions make the same decision about
 * whether a move's channels use the library (redistribute_is_p2p). */
#include "actors/plan/lower/lower.h"

#include "kernels/cuda/launch.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"

/* Returns the rank of one end of the channel in the link's communicator, with the data that the library needs.
 * The sender is rank 0, the receiver rank 1. */
static struct move_comm_rank *
make_p2p_member(const struct mover *m, const struct redistribute_channel *c, bool sends)
{
    const struct place *from = m->b->from->place, *to = mover_reader(m, c);
    int32_t device[2] = {from->rank[redistribute_from(m->cross, c)], to->rank[redistribute_to(m->cross, c)]};
    struct move_comm_rank *s = ARENA_NEW(&m->l->plan->arena, struct move_comm_rank);
    *s = (struct move_comm_rank){.in = device_kind(from->kind)->communicator(true, 2, device),
                                 .comm_rank = sends ? 0 : 1,
                                 .dtype = (uint8_t)redistribute_dtype(m->cross, c),
                                 .numel = c->numel};
    return s;
}

/* Makes a task for the move, on the device of this rank. */
static struct draft *
add_endpoint(struct mover *m, const struct redistribute_channel *c, const struct task_kind *kind,
             const struct move_comm_rank *s, int32_t *id)
{
    struct draft *d =
        draft_new(m->l, kind, m->from->node, s->in->kind, s->in->device[s->comm_rank], c->to, m->piece, id);
    d->task.move = (struct task_move){.of = m->move, .member = s};
    d->task.name = kind->name;
    return d;
}

/* Makes *out, the copy of slice i from the shard to the slice's offset in the dense vector that is sent. If the
 * device kind compiles kernels, compiles a kernel for the copy. */
static int
pack_slice(struct mover *m, const struct redistribute_channel *c, int32_t i, struct part *part,
           struct comm_rank_copy *out)
{
    int64_t skip, at, width = (int64_t)dtype_bytes(redistribute_dtype(m->cross, c));
    struct view src = mover_sent(m, c, i, part, &skip), dst = mover_received(m, c, i, &at);
    const struct device_kind *kind = device_kind(m->b->from->place->kind);
    struct cuda_launch *made = NULL;
    if (kind->flags & COMPILES) TRY(cuda_launch_combine(&m->l->plan->arena, RED_SUM, 1, &src, &dst, true, &made));
    *out = (struct comm_rank_copy){intern_view(m->l, &src), intern_view(m->l, &dst), skip * width, at * width, made};
    return made || !kind->settle ? 0 : fail(E_PLAN, "no kernel packs the data of an NCCL send");
}

/* Makes the copies that pack the slices for the library. A single window without gaps is sent from its place, so
 * it needs no copy. */
static int
pack_rows(struct mover *m, const struct redistribute_channel *c, struct move_comm_rank *s, struct part *part)
{
    int64_t skip;
    struct view first = mover_sent(m, c, 0, part, &skip);
    if (c->nslice == 1 && view_is_dense(&first)) {
        part->skip += skip;
        part->view = intern_view(m->l, &first);
        return 0;
    }
    s->npack = c->nslice;
    s->pack = ARENA_ARRAY(&m->l->plan->arena, struct comm_rank_copy, s->npack);
    for (int32_t i = 0; i < s->npack; i++) TRY(pack_slice(m, c, i, part, &s->pack[i]));
    return 0;
}

int
lower_p2p_send(struct mover *m, const struct redistribute_channel *c)
{
    struct move_comm_rank *s = make_p2p_member(m, c, true);
    struct channel made = mover_channel(m, c, true);
    struct part part;
    int32_t id;
    TRY(pack_rows(m, c, s, &part));
    struct draft *d = add_endpoint(m, c, &kind_p2p_send, s, &id);
    d->task.nresult = s->npack > 0;
    if (s->npack) draft_out(m->l, d, made.bytes, 1);
    made.direct = true;
    draft_args(m->l, id, 1);
    channel_add(m->l, id, &made);
    return draft_reads(m->l, id, &part, 0, false);
}

int
lower_p2p_recv(struct mover *m, int32_t channel)
{
    const struct redistribute_channel *c = &m->cross->in[channel];
    struct channel made = mover_channel(m, c, false);
    struct draft *d = add_endpoint(m, c, &kind_p2p_recv, make_p2p_member(m, c, false), &m->recv[channel]);
    d->task.nresult = 1;
    draft_out(m->l, d, made.bytes, 1);
    made.direct = true;
    channel_add(m->l, m->recv[channel], &made);
    return 0;
}
