/* send.c - the tasks of a hop, those that send to other memories, receive, and transfer among them.
 *
 * The tasks of a hop stand in the same order in every part:
 *
 *   parts are sent -> what stages read is received -> stages are filled -> stages are sent -> the rest is received ->
 *   parts are filled
 *
 * the three in the middle once for each level of stages (what comes from another space of this memory is transferred
 * where it would be received), so that each SEND stands before its RECV wherever the two lists are put together
 * (verify_run.c needs that). */
#include "actors/plan/lower.h"

#include "runtime/device.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

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
by_name(const void *a, const void *b)
{
    return channel_compare(&((const struct channel *)a)->name, &((const struct channel *)b)->name);
}

void
channel_list(struct lower *l)
{
    struct plan *p = l->plan;
    if (l->nchannel) qsort(l->channel, (size_t)l->nchannel, sizeof *l->channel, by_name);
    p->nchannel = l->nchannel;
    p->channel = arena_dup(&p->arena, l->channel, sizeof *l->channel * (size_t)l->nchannel);
    for (int32_t c = 0; c < p->nchannel; c++) p->task[p->channel[c].task].channel = c;
}

/* ---- the ends of a move's channels ---- */

/* A value that is known only after the last piece. */
static bool
is_late(const struct lower *l, const struct pval *v)
{
    return l->program->pieces > 1 && v->node >= 0 && l->outline->late[v->node];
}

static struct channel
channel_of(const struct mover *m, const struct cross_channel *c, bool sends)
{
    struct channel out = {.sends = sends, .peer = c->peer, .late = is_late(m->l, m->from)};
    out.turn = cross_turn(m->cross, c, sends);
    out.name = (struct channel_name){.operand = m->move->operand,
                                     .hop = m->move->hop,
                                     .from_side = c->from_side,
                                     .to_side = c->to_side,
                                     .from = c->from,
                                     .to = c->to};
    out.dtype = (uint8_t)cross_dtype(m->cross, c);
    out.bytes = c->numel * (int64_t)dtype_bytes(out.dtype);
    out.what = cross_what(m->cross, m->from->ref, c);
    return out;
}

/* The window of one of its slices in what it comes from. */
static struct view
window_of(struct mover *m, const struct cross_channel *c, int32_t which, struct part *part, int64_t *skip)
{
    int32_t stage = c->from_side == SIDE_STAGE ? box_stage_at(m->b, c->from) : BOX_PART;
    return mover_window(m, stage, cross_from(m->cross, c), c->slice[which].slice, part, skip);
}

/* Where who reads it lies. */
static const struct place *
reader_place(const struct mover *m, const struct cross_channel *c)
{
    return (c->to_side == SIDE_STAGE ? m->b->from : m->b->to)->place;
}

static int
send_task(struct mover *m, const struct cross_channel *c)
{
    struct lower *l = m->l;
    const struct place *from = m->b->from->place;
    struct channel made = channel_of(m, c, true);
    struct channel_slice *slice = ARENA_ARRAY(&l->plan->arena, struct channel_slice, c->nslice);
    struct part part;
    int32_t id;
    int32_t rank = from->rank[cross_from(m->cross, c)];
    struct draft *d = draft_new(l, &kind_send, m->from->node, from->kind, rank, c->to, m->piece, &id);
    d->task.move.of = m->move;
    d->task.name = kind_send.name;
    for (int32_t i = 0; i < c->nslice; i++) {
        int64_t skip;
        struct view v = window_of(m, c, i, &part, &skip);
        slice[i] = (struct channel_slice){skip * (int64_t)dtype_bytes(v.dtype), intern_view(l, &v)};
    }
    made.nslice = c->nslice;
    made.slice = slice;
    draft_args(l, id, 1);
    channel_add(l, id, &made);
    return draft_reads(l, id, &part, 0, false);
}

static void
recv_task(struct mover *m, int32_t channel)
{
    struct lower *l = m->l;
    const struct cross_channel *c = &m->cross->in[channel];
    const struct place *to = reader_place(m, c);
    struct channel made = channel_of(m, c, false);
    int32_t rank = to->rank[cross_to(m->cross, c)];
    struct draft *d = draft_new(l, &kind_recv, m->from->node, to->kind, rank, c->to, m->piece, &m->recv[channel]);
    d->task.move.of = m->move;
    d->task.name = kind_recv.name;
    d->task.nresult = 1;
    draft_out(l, d, made.bytes, 1);
    channel_add(l, m->recv[channel], &made);
}

/* ---- from one space to another ---- */

static struct box_move
carry_slice(struct mover *m, const struct cross_channel *c, int32_t which, struct part *part)
{
    int64_t skip, at;
    struct view src = window_of(m, c, which, part, &skip), dst = mover_received(m, c, which, &at);
    int64_t width = (int64_t)dtype_bytes(src.dtype);
    struct box_from from = {.skip = skip * width, .view = intern_view(m->l, &src)};
    return (struct box_move){.verb = BOX_COPY,
                             .nfrom = 1,
                             .from = arena_dup(&m->l->plan->arena, &from, sizeof from),
                             .skip = at * width,
                             .view = intern_view(m->l, &dst)};
}

static int
transfer_task(struct mover *m, int32_t channel)
{
    struct lower *l = m->l;
    const struct cross_channel *c = &m->cross->in[channel];
    const struct place *from = m->b->from->place, *to = reader_place(m, c);
    int kind = device_carrier(from->kind, to->kind);
    if (kind < 0)
        return fail(E_PLACE, "a value does not go from %s to %s devices at once: work of neither reaches both memories",
                    device_kind_text(from->kind), device_kind_text(to->kind));
    int32_t holder = to->rank[cross_to(m->cross, c)];
    int32_t rank = kind == to->kind ? holder : from->rank[cross_from(m->cross, c)];
    struct draft *d = draft_new(l, &kind_transfer, m->from->node, kind, rank, c->to, m->piece, &m->recv[channel]);
    struct task_move *t = &d->task.move;
    struct part part;
    *t = (struct task_move){.of = m->move, .nstep = c->nslice};
    t->step = ARENA_ARRAY(&l->plan->arena, struct box_move, c->nslice);
    for (int32_t i = 0; i < c->nslice; i++) t->step[i] = carry_slice(m, c, i, &part);
    d->task.name = kind_transfer.name;
    d->task.nresult = 1;
    draft_out(l, d, c->numel * (int64_t)dtype_bytes(cross_dtype(m->cross, c)), 1);
    d->out[0].where.index = draft_device(l, to->kind, holder);
    draft_args(l, m->recv[channel], 1);
    return draft_reads(l, m->recv[channel], &part, 0, false);
}

/* ---- the tasks of a hop ---- */

static int
send_all(struct mover *m, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++) TRY(send_task(m, &m->cross->out[i]));
    return 0;
}

static int
receive_all(struct mover *m, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++)
        if (m->cross->in[i].peer == m->l->plan->memory)
            TRY(transfer_task(m, i));
        else
            recv_task(m, i);
    return 0;
}

int
move_across(struct lower *l, const struct plan_move *move, const struct cross *x, struct pval *from, struct pval *to)
{
    struct mover m;
    int a = from->layout->place->kind, b = to->layout->place->kind;
    bool host_reads = device_kind(a)->flags & device_kind(b)->flags & HOST_READS;
    if (!cross_is_all(x) && !host_reads && !l->program->dry_run)
        return fail(E_PLACE, "a value does not go from %s to %s devices of another memory: the host reads not both",
                    device_kind_text(a), device_kind_text(b));
    mover_init(&m, l, move, x, from);
    TRY(send_all(&m, 0, x->npart));
    struct cross_level done = {.nout = x->npart};
    for (int32_t k = 0; k < x->nlevel; done = x->level[k++]) {
        TRY(receive_all(&m, done.nin, x->level[k].nin));
        TRY(move_stages(&m, done.nstage, x->level[k].nstage));
        TRY(send_all(&m, done.nout, x->level[k].nout));
    }
    TRY(receive_all(&m, done.nin, x->nin));
    return move_parts(&m, to);
}
