/* verify_collective.c - proves that library collectives compute the program's moves, and that no deadlock between
 * devices is possible.
 *
 * The tasks of a library collective are adjacent in the list, one per position. The proof derives the locations of
 * blocks, and the packing and unpacking copies, again from the layouts (boxing/collective.h). The proof trusts the
 * library to compute each collective. On each device an edge orders every collective after the previous collective
 * in the list, so the device's stream runs collectives in list order. verify_run.c lets the partners of a collective
 * act together; if two devices had opposite orders, its simulation would not finish. The partitions of other hosts
 * prove their own positions. verify_channel.c proves the common order, and comm_ranks.h compares the ranks that take
 * part. */
#include "actors/plan/verify/value/verify_collective.h"
#include "actors/plan/outline/comm_ranks.h"
#include "actors/plan/verify/value/verify_move.h"
#include "actors/plan/verify/value/verify_part.h"

#include "runtime/device/device.h"
#include "boxing/plan.h"

static int
begin_move(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct plan_move *of = p->task[task].move.of;
    struct collective c;
    TRY(value_begin_move(s, task));
    bool library = device_kind(of->to->place->kind)->flags & COLLECTS;
    if (!library || !collective_of(&of->type, of->from, of->to, &c) || c.verb != of->by->verb ||
        c.reduce != of->by->reduce || c.dtype != of->by->dtype || c.gives != of->by->gives || c.axes != of->by->axes ||
        c.size != of->by->size || c.packs != of->by->packs || c.unpacks != of->by->unpacks ||
        c.nsent != of->by->nsent || c.ncame != of->by->ncame)
        return proof_fail(s->v, task, "its move is not the library collective that the layouts require");
    for (int32_t i = 0; i < s->cross->to->n; i++)
        if (task + i >= p->ntask || task_hop(&p->task[task + i]) != of ||
            !(p->task[task + i].kind->flags & KIND_COLLECTS))
            return proof_fail(s->v, task, "the task for position %d of its collective is missing",
                              (int)s->cross->to->pos[i]);
    return 0;
}

static int
check_collective_member(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct plan_move *of = t->move.of;
    const struct move_comm_rank *own = t->move.member;
    const struct place *p = of->to->place;
    int32_t first, comm_rank = collective_comm_rank(of->by, p, t->pos, &first);
    TRY(proof_same(s->v, task, "rank in the collective", own->comm_rank, comm_rank));
    TRY(proof_same(s->v, task, "number of elements of a block", own->numel,
                   collective_numel(of->by, &of->type, of->from, of->to, t->pos)));
    TRY(proof_same(s->v, task, "number of ranks of the collective", own->in->n, of->by->size));
    for (int32_t i = 0; i < own->in->n; i++)
        TRY(proof_same(s->v, task, "device of a rank", own->in->device[i],
                       p->rank[collective_pos(of->by, p, first, i)]));
    int32_t at = -1;
    for (int32_t i = 0; i < own->in->n && at < 0; i++) at = comm_ranks_partner(s->v->plan, task, i);
    if (s->v->plan->task[at].move.member->in != own->in)
        return proof_fail(s->v, task, "its communicator differs from that of its partners");
    return 0;
}

/* Proves the copy between dense block i and its window in the shard `part`. The blocks are stored one after the
 * other. came true: a received block, which is copied to the shard; false: a block to send, which is copied from the
 * shard. */
static int
check_packed_copy(struct values *s, int32_t task, bool came, const struct view *part, int32_t i,
                  const struct comm_rank_copy *copy)
{
    const struct task *t = &s->v->plan->task[task];
    const struct plan_move *of = t->move.of;
    const struct device_kind *kind = device_kind(of->to->place->kind);
    struct box box, block;
    int64_t skip;
    layout_box(came ? of->to : of->from, &of->type, t->pos, &box);
    (came ? collective_came : collective_sent)(of->by, &of->type, of->from, of->to, t->pos, i, &block);
    struct view window = value_window(part, box.lo, &block, &skip);
    struct type type = type_of((enum dtype)of->by->dtype, window.ndim, window.dim);
    struct view own = view_dense(&type, NULL);
    if (!view_same(came ? copy->from : copy->to, &own) || !view_same(came ? copy->to : copy->from, &window))
        return proof_fail(s->v, task, "the copy of block %d has the wrong window", (int)i);
    TRY(proof_same(s->v, task, "offset of a window", came ? copy->to_skip : copy->from_skip,
                   skip * (int64_t)dtype_bytes(window.dtype)));
    TRY(proof_same(s->v, task, "offset of a block", came ? copy->from_skip : copy->to_skip,
                   t->move.member->numel * i * (int64_t)dtype_bytes(own.dtype)));
    if (!copy->launch && kind->settle)
        return proof_fail(s->v, task, "host code packs or unpacks the blocks of a collective that runs on the device");
    return 0;
}

/* Proves that packed or unpacked blocks are in a separate result, in device memory and without readers. */
static int
check_collective_room(struct values *s, int32_t task, int32_t k, int32_t nblock)
{
    const struct task *t = &s->v->plan->task[task];
    const struct out_port *o = &t->out[k];
    int64_t width = (int64_t)dtype_bytes((enum dtype)t->move.of->by->dtype);
    TRY(proof_same(s->v, task, "location of the packed blocks", o->where.kind, IN_ARENA));
    TRY(proof_same(s->v, task, "size of the packed blocks", o->bytes, t->move.member->numel * nblock * width));
    return proof_same(s->v, task, "number of readers of the packed blocks", o->nfan, 0);
}

static int
check_copies(struct values *s, int32_t task, const struct view *part)
{
    const struct task *t = &s->v->plan->task[task];
    const struct plan_move *of = t->move.of;
    const struct move_comm_rank *own = t->move.member;
    struct view whole = value_part(of->to, &of->type, t->pos);
    bool packs = of->by->packs || !view_is_dense(part);
    TRY(proof_same(s->v, task, "number of packed blocks", own->npack, packs ? of->by->nsent : 0));
    TRY(proof_same(s->v, task, "number of unpacked blocks", own->nunpack, of->by->unpacks ? of->by->ncame : 0));
    for (int32_t i = 0; i < own->npack; i++) TRY(check_packed_copy(s, task, false, part, i, &own->pack[i]));
    for (int32_t i = 0; i < own->nunpack; i++) TRY(check_packed_copy(s, task, true, &whole, i, &own->unpack[i]));
    if (own->npack) TRY(check_collective_room(s, task, 1, own->npack));
    return own->nunpack ? check_collective_room(s, task, comm_rank_nresult(own) - 1, own->nunpack) : 0;
}

/* Proves that an edge leads from the device's previous collective to this task. The first collective of a device
 * needs no edge. */
static int
check_rank_order(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    if (!s->collected) {
        s->collected = ARENA_ARRAY(&s->v->tmp, int32_t, p->ndevice + 1);
        for (int32_t d = 0; d < p->ndevice; d++) s->collected[d] = -1;
    }
    int32_t last = s->collected[t->device];
    bool behind = last < 0;
    for (int32_t k = 0; k < t->nin; k++) behind = behind || t->in[k].task == last;
    if (!behind)
        return proof_fail(s->v, task, "does not wait for task %d, the previous collective on its device", (int)last);
    s->collected[t->device] = task;
    return 0;
}

int
value_collect(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_move *of = t->move.of;
    struct view view;
    if (task == 0 || task_hop(&p->task[task - 1]) != of) TRY(begin_move(s, task));
    if (s->box_task >= s->cross->to->n) return proof_fail(s->v, task, "its collective has too many tasks");
    TRY(proof_same(s->v, task, "mesh position", t->pos, s->cross->to->pos[s->box_task++]));
    TRY(value_at(s, task, of->to));
    TRY(value_moves(s, task));
    TRY(proof_same(s->v, task, "number of acts of a collective", t->nact, 1));
    TRY(check_collective_member(s, task));
    TRY(check_rank_order(s, task));
    TRY(proof_same(s->v, task, "number of arguments", t->narg, 1));
    TRY(proof_same(s->v, task, "number of steps", t->move.nstep, 0));
    TRY(value_read_at(s, task, 0, s->box_ref, of->from, t->pos, &s->box_version, &view));
    TRY(check_copies(s, task, &view));
    struct type local = layout_shard(of->to, &of->type, t->pos);
    TRY(proof_same(s->v, task, "size of a result", t->out[0].bytes, type_bytes(&local)));
    const struct box_plan *b = s->cross->own;
    TRY(proof_same(s->v, task, "size of the received data", t->move.received,
                   b->received[box_rank_at(b, of->to->place->rank[t->pos])]));
    *value_result(s, task, 0) = (struct content){.ref = s->box_ref, .layout = of->to, .pos = t->pos, .box = of};
    return 0;
}
