/* send.c - makes the tasks of a hop, including sends and receives between hosts and transfers between memory
 * spaces.
 *
 * The tasks of a hop have the same order in every plan partition:
 *
 *   1. send shards
 *   2. receive data for stage buffers
 *   3. fill stage buffers
 *   4. send stage buffers
 *   5. receive all other data
 *   6. fill destination shards
 *
 * Steps 2 to 4 are repeated once per level of stage buffers. If a task reads from another memory space of its
 * host, a transfer takes the place of the receive. Because of the order of these steps, the lists of all
 * partitions can be merged with each SEND before its RECV (verify_channel.c relies on that).
 *
 * If a library links the devices, both ends of a channel are device work (lower_p2p_send). Otherwise host code sends
 * and receives. If host code cannot read a device's memory, a transfer copies the bytes to a cpu device's memory right
 * before the SEND, or from there right after the RECV. Transfers are stream work, ordered by edges. */
#include "actors/plan/lower/send.h"
#include "actors/plan/lower/move.h"
#include "actors/plan/lower/intern.h"
#include "actors/plan/lower/draft.h"

#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "kernels/cuda/launch.h"
#include "boxing/plan.h"

#include <stdlib.h>
#include <string.h>

/* Makes the ends of channels whose bytes a library sends from device memory to device memory.
 *
 * The SEND is a task of the device that has the bytes, the RECV a task of a device that reads them. The bytes do
 * not pass through host memory. The two tasks share a point-to-point link between their devices
 * (runtime/device/communicator.h). The library sends one dense vector of elements. So if there are several windows,
 * or one with gaps, the SEND packs them into a register of its own. All partitions make the same decision about
 * whether a move's channels use the library (redistribute_is_p2p). */

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

/* Makes the sending task of a channel whose bytes a library sends. */
static int
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

/* Makes the receiving task of a channel whose bytes a library sends. */
static int
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

/* ---- channels ---- */

void
channel_add(struct lower *l, int32_t task, const struct channel *c)
{
    GROW(l->channel, l->nchannel + 1, l->channel_capacity);
    struct channel *made = &l->channel[l->nchannel++];
    const struct draft *d = &l->draft[task];
    *made = *c;
    made->task = task;
    made->nact = d->task.nact;
    made->nreg = MIN(2, made->nact);
    made->name.step = l->at;
}

static int
compare_channel_names(const void *a, const void *b)
{
    return channel_compare(&((const struct channel *)a)->name, &((const struct channel *)b)->name);
}

void
channel_list(struct lower *l)
{
    struct plan *p = l->plan;
    if (l->nchannel) qsort(l->channel, (size_t)l->nchannel, sizeof *l->channel, compare_channel_names);
    p->nchannel = l->nchannel;
    p->channel = arena_dup(&p->arena, l->channel, sizeof *l->channel * (size_t)l->nchannel);
    for (int32_t c = 0; c < p->nchannel; c++) p->task[p->channel[c].task].channel = c;
}

/* ---- the ends of a move's channels ---- */

bool
lower_is_late(const struct lower *l, const struct pval *v)
{
    return l->program->pieces > 1 && v->node >= 0 && l->outline->stages.late[v->node];
}

struct channel
mover_channel(const struct mover *m, const struct redistribute_channel *c, bool sends)
{
    struct channel out = {.sends = sends, .peer = c->peer, .late = lower_is_late(m->l, m->from)};
    out.turn = redistribute_turn(m->cross, c, sends);
    out.name = (struct channel_name){.operand = m->move->operand,
                                     .hop = m->move->hop,
                                     .from_side = c->from_side,
                                     .to_side = c->to_side,
                                     .from = c->from,
                                     .to = c->to};
    out.dtype = (uint8_t)redistribute_dtype(m->cross, c);
    out.bytes = c->numel * (int64_t)dtype_bytes(out.dtype);
    out.what = redistribute_what(m->cross, m->from->ref, c);
    return out;
}

struct view
mover_sent(struct mover *m, const struct redistribute_channel *c, int32_t which, struct part *part, int64_t *skip)
{
    int32_t stage = c->from_side == SIDE_STAGE ? box_stage_at(m->b, c->from) : BOX_PART;
    return mover_window(m, stage, redistribute_from(m->cross, c), c->slice[which].slice, part, skip);
}

const struct place *
mover_reader(const struct mover *m, const struct redistribute_channel *c)
{
    return (c->to_side == SIDE_STAGE ? m->b->from : m->b->to)->place;
}

/* ---- transfers between memory spaces ---- */

/* A device, as its kind and rank. */
struct end {
    int kind;
    int32_t rank;
};

/* Returns the view of a channel's data as one dense vector. */
static struct view
channel_row_view(const struct mover *m, const struct redistribute_channel *c)
{
    struct type t = type_of(redistribute_dtype(m->cross, c), 1, &c->numel);
    return view_dense(&t, NULL);
}

/* Makes a task that copies a channel's data from one device's memory to another's. The caller adds the steps, which
 * say what is copied. */
static int
carry_task(struct mover *m, const struct redistribute_channel *c, struct end from, struct end to, int32_t nstep,
           int32_t *id)
{
    struct lower *l = m->l;
    int kind = device_carrier(from.kind, to.kind);
    if (kind < 0)
        return fail(E_PLACE, "a value cannot be copied directly from %s to %s devices; move it to cpu devices first",
                    device_kind_text(from.kind), device_kind_text(to.kind));
    int32_t rank = kind == to.kind ? to.rank : from.rank;
    struct draft *d = draft_new(l, &kind_transfer, m->from->node, kind, rank, c->to, m->piece, id);
    d->task.move = (struct task_move){.of = m->move, .nstep = nstep};
    d->task.move.step = ARENA_ARRAY(&l->plan->arena, struct box_move, nstep);
    d->task.name = kind_transfer.name;
    d->task.nresult = 1;
    draft_out(l, d, c->numel * (int64_t)dtype_bytes(redistribute_dtype(m->cross, c)), 1);
    d->out[0].where.index = draft_device(l, to.kind, to.rank);
    draft_args(l, *id, 1);
    return 0;
}

/* Returns a step that copies one window. */
static struct box_move
copy_step(struct mover *m, const struct view *src, int64_t skip, const struct view *dst, int64_t at)
{
    int64_t width = (int64_t)dtype_bytes(src->dtype);
    struct box_from from = {.skip = skip * width, .view = intern_view(m->l, src)};
    return (struct box_move){.verb = BOX_COPY,
                             .nfrom = 1,
                             .from = arena_dup(&m->l->plan->arena, &from, sizeof from),
                             .skip = at * width,
                             .view = intern_view(m->l, dst)};
}

/* Makes a transfer that packs the slices of a channel into one dense vector. The slices' sources are in this
 * partition. */
static int
carry_slices(struct mover *m, const struct redistribute_channel *c, struct end from, struct end to, int32_t *id)
{
    struct part part;
    TRY(carry_task(m, c, from, to, c->nslice, id));
    struct box_move *step = m->l->draft[*id].task.move.step;
    for (int32_t i = 0; i < c->nslice; i++) {
        int64_t skip, at;
        struct view src = mover_sent(m, c, i, &part, &skip), dst = mover_received(m, c, i, &at);
        step[i] = copy_step(m, &src, skip, &dst, at);
    }
    return draft_reads(m->l, *id, &part, 0, false);
}

/* Makes a transfer that copies a dense vector, the result of task `of`, to another device's memory. */
static int
carry_row(struct mover *m, const struct redistribute_channel *c, int32_t of, struct end from, struct end to,
          int32_t *id)
{
    struct view row = channel_row_view(m, c);
    struct part part = {.kind = ARG_REG, .index = of, .view = &row};
    TRY(carry_task(m, c, from, to, 1, id));
    m->l->draft[*id].task.move.step[0] = copy_step(m, &row, 0, &row, 0);
    return draft_reads(m->l, *id, &part, 0, false);
}

static int
transfer_task(struct mover *m, int32_t channel)
{
    const struct redistribute_channel *c = &m->cross->in[channel];
    const struct place *from = m->b->from->place, *to = mover_reader(m, c);
    return carry_slices(m, c, (struct end){from->kind, from->rank[redistribute_from(m->cross, c)]},
                        (struct end){to->kind, to->rank[redistribute_to(m->cross, c)]}, &m->recv[channel]);
}

/* ---- sends and receives between hosts ---- */

/* Finds the device through whose memory host code sends or receives a device's bytes: the device itself, or a cpu
 * device if host code cannot read the device's memory. */
static int
host_end(const struct mover *m, struct end device, struct end *out)
{
    *out = device;
    if (device_kind(device.kind)->flags & HOST_READS) return 0;
    *out = (struct end){DEV_CPU, local_set_host(&m->l->mines, device.kind, device.rank)};
    if (out->rank >= 0) return 0;
    return fail(
        E_PLACE,
        "%s:%d: data for other hosts passes through a cpu device of the same worker, but the worker has no cpu device",
        device_kind_text(device.kind), (int)device.rank);
}

/* Makes a SEND task. If the data was staged in a cpu device's memory, the task sends it as one slice. If host code
 * can read the source directly, the task sends each slice from there. */
static int
send_task(struct mover *m, const struct redistribute_channel *c)
{
    struct lower *l = m->l;
    const struct place *place = m->b->from->place;
    struct end from = {place->kind, place->rank[redistribute_from(m->cross, c)]}, host;
    struct view row = channel_row_view(m, c);
    struct part part = {.kind = ARG_REG, .view = &row};
    TRY(host_end(m, from, &host));
    bool there = host.kind == from.kind;
    if (!there) TRY(carry_slices(m, c, from, host, &part.index));
    struct channel made = mover_channel(m, c, true);
    made.nslice = there ? c->nslice : 1;
    struct channel_slice *slice = ARENA_ARRAY(&l->plan->arena, struct channel_slice, made.nslice);
    int32_t id;
    struct draft *d = draft_new(l, &kind_send, m->from->node, host.kind, host.rank, c->to, m->piece, &id);
    d->task.move.of = m->move;
    d->task.name = kind_send.name;
    if (!there) slice[0] = (struct channel_slice){0, intern_view(l, &row)};
    for (int32_t i = 0; there && i < c->nslice; i++) {
        int64_t skip;
        struct view v = mover_sent(m, c, i, &part, &skip);
        slice[i] = (struct channel_slice){skip * (int64_t)dtype_bytes(v.dtype), intern_view(l, &v)};
    }
    made.slice = slice;
    draft_args(l, id, 1);
    channel_add(l, id, &made);
    return draft_reads(l, id, &part, 0, false);
}

static int
recv_task(struct mover *m, int32_t channel)
{
    struct lower *l = m->l;
    const struct redistribute_channel *c = &m->cross->in[channel];
    const struct place *place = mover_reader(m, c);
    struct end to = {place->kind, place->rank[redistribute_to(m->cross, c)]}, host;
    TRY(host_end(m, to, &host));
    struct channel made = mover_channel(m, c, false);
    int32_t id;
    struct draft *d = draft_new(l, &kind_recv, m->from->node, host.kind, host.rank, c->to, m->piece, &id);
    d->task.move.of = m->move;
    d->task.name = kind_recv.name;
    d->task.nresult = 1;
    draft_out(l, d, made.bytes, 1);
    channel_add(l, id, &made);
    m->recv[channel] = id;
    return host.kind == to.kind ? 0 : carry_row(m, c, id, host, to, &m->recv[channel]);
}

/* ---- the tasks of a hop ---- */

static int
send_all_channels(struct mover *m, int32_t first, int32_t end)
{
    bool direct = redistribute_is_p2p(m->cross);
    for (int32_t i = first; i < end; i++) TRY((direct ? lower_p2p_send : send_task)(m, &m->cross->out[i]));
    return 0;
}

static int
receive_all(struct mover *m, int32_t first, int32_t end)
{
    bool direct = redistribute_is_p2p(m->cross);
    for (int32_t i = first; i < end; i++) {
        bool here = m->cross->in[i].peer == m->l->plan->memory;
        TRY((here ? transfer_task : direct ? lower_p2p_recv : recv_task)(m, i));
    }
    return 0;
}

int
move_across(struct lower *l, const struct plan_move *move, const struct redistribution *x, struct pval *from,
            struct pval *to)
{
    struct mover m;
    mover_init(&m, l, move, x, from);
    TRY(send_all_channels(&m, 0, x->npart));
    struct redistribute_level done = {.nout = x->npart};
    for (int32_t k = 0; k < x->nlevel; done = x->level[k++]) {
        TRY(receive_all(&m, done.nin, x->level[k].nin));
        TRY(move_stages(&m, done.nstage, x->level[k].nstage));
        TRY(send_all_channels(&m, done.nout, x->level[k].nout));
    }
    TRY(receive_all(&m, done.nin, x->nin));
    return move_parts(&m, to);
}
