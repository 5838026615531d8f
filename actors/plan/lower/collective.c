/* collective.c - lowers a move to a library collective: one task per rank; all ranks take part.
 *
 * The tasks of a collective wait for one another without edges. So edges chain the collectives of a device in list
 * order, which is the order of the moves and the same on all devices. Moves that run once per micro-batch have no
 * fixed order, because stages take turns as data arrives. So moves per micro-batch use no library; their tasks read
 * the shards of other ranks.
 *
 * Ranks may be on several hosts; a plan partition has only tasks of its own ranks. All partitions make the same
 * decision about using a library, because it depends only on facts that all of them know. */
#include "actors/plan/lower/collective.h"
#include "actors/plan/lower/order.h"
#include "actors/plan/lower/send.h"
#include "actors/plan/lower/intern.h"
#include "actors/plan/lower/draft.h"

#include "actors/plan/outline/comm_ranks.h"
#include "kernels/cuda/launch.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "boxing/plan.h"

static bool
may_collect(const struct lower *l, const struct pval *from, const struct layout *to, struct collective *c)
{
    const struct prog_node *n = &l->program->node[l->at];
    bool once = !from->piece && !(n->again && n->piece);
    return comm_ranks_library(to->place->kind) && once && collective_of(&from->type, from->layout, to, c);
}

/* ---- ranks in communicators ---- */

/* The part of one rank in the collective under construction: its blocks, and the copies that pack or unpack them. */
struct member_maker {
    struct lower *l;
    const struct plan_move *move;
    int64_t numel;
    int32_t pos;
};

/* Makes the copy between block i and its window in the shard. came true: a received block, which is copied to the
 * shard; came false: a block to send, which is copied from the shard. lo: position of the shard's first element in
 * the global tensor. Blocks are stored one after the other in their buffer. If the device compiles kernels,
 * compiled kernels make the copies. */
static int
make_copy(struct member_maker *m, bool came, const struct view *part, const int64_t *lo, int32_t i,
          struct comm_rank_copy *out)
{
    const struct plan_move *move = m->move;
    const struct collective *c = move->by;
    const struct device_kind *kind = device_kind(move->to->place->kind);
    struct box block;
    int64_t skip;
    struct cuda_launch *made = NULL;
    (came ? collective_came : collective_sent)(c, &move->type, move->from, move->to, m->pos, i, &block);
    struct view window = part_window(part, lo, &block, &skip);
    struct type t = type_of((enum dtype)c->dtype, window.ndim, window.dim);
    struct view own = view_dense(&t, NULL);
    const struct view *from = came ? &own : &window, *to = came ? &window : &own;
    int64_t own_skip = m->numel * i * (int64_t)dtype_bytes(own.dtype);
    skip *= (int64_t)dtype_bytes(window.dtype);
    if (kind->flags & COMPILES) TRY(cuda_launch_combine(&m->l->plan->arena, RED_SUM, 1, from, to, true, &made));
    *out = (struct comm_rank_copy){intern_view(m->l, from), intern_view(m->l, to), came ? own_skip : skip,
                                   came ? skip : own_skip, made};
    return made || !kind->settle ? 0 : fail(E_PLAN, "no kernel packs the blocks of a collective");
}

static int
make_copies(struct member_maker *m, bool came, const struct view *part, const int64_t *lo, int32_t n,
            struct comm_rank_copy **out)
{
    *out = ARENA_ARRAY(&m->l->plan->arena, struct comm_rank_copy, n);
    for (int32_t i = 0; i < n; i++) TRY(make_copy(m, came, part, lo, i, &(*out)[i]));
    return 0;
}

/* Sets the communicator of a task. Tasks with equal lists of devices get the same communicator. */
static void
find_communicator(const struct member_maker *m, struct move_comm_rank *s)
{
    const struct plan_move *move = m->move;
    const struct place *p = move->to->place;
    int32_t first, *device = ARENA_ARRAY(&m->l->tmp, int32_t, move->by->size);
    s->comm_rank = collective_comm_rank(move->by, p, m->pos, &first);
    for (int32_t i = 0; i < move->by->size; i++) device[i] = p->rank[collective_pos(move->by, p, first, i)];
    s->in = device_kind(p->kind)->communicator(false, move->by->size, device);
}

static int
make_collective_member(struct member_maker *m, const struct pval *from, struct move_comm_rank *s)
{
    const struct plan_move *move = m->move;
    const struct collective *c = move->by;
    const struct view *has = from->part[local_set_find(from->mine, m->pos)].view;
    struct view part = part_local(move->to, &move->type, m->pos);
    struct box box;
    m->numel = s->numel = collective_numel(c, &move->type, move->from, move->to, m->pos);
    s->npack = c->packs || !view_is_dense(has) ? c->nsent : 0;
    s->nunpack = c->unpacks ? c->ncame : 0;
    layout_box(move->from, &move->type, m->pos, &box);
    TRY(make_copies(m, false, has, box.lo, s->npack, &s->pack));
    TRY(make_copies(m, true, &part, part.offset, s->nunpack, &s->unpack));
    find_communicator(m, s);
    return 0;
}

/* ---- tasks ---- */

/* Adds an edge from the device's previous collective task. */
static void
follow_last(struct lower *l, int32_t task)
{
    int32_t device = l->draft[task].task.device, n = l->plan->ndevice;
    if (!l->collected) {
        l->collected = ARENA_ARRAY(&l->tmp, int32_t, n);
        for (int32_t d = 0; d < n; d++) l->collected[d] = -1;
    }
    if (l->collected[device] >= 0) order_edge(l, l->collected[device], task);
    l->collected[device] = task;
}

static int
collect_task(struct lower *l, const struct plan_move *move, const struct box_plan *b, const struct pval *from,
             struct pval *to, int32_t k, const struct move_comm_rank *member)
{
    const struct collective *c = move->by;
    const struct place *p = move->to->place;
    int32_t pos = to->mine->pos[k], rank = p->rank[pos], id;
    int64_t block = member->numel * (int64_t)dtype_bytes((enum dtype)c->dtype);
    struct type local = layout_shard(move->to, &move->type, pos);
    struct draft *d = draft_new(l, &kind_collect, from->node, p->kind, rank, pos, false, &id);
    d->task.move = (struct task_move){.of = move, .received = b->received[box_rank_at(b, rank)], .member = member};
    d->task.name = move->name;
    d->task.nresult = comm_rank_nresult(member);
    draft_out(l, d, type_bytes(&local), 1);
    if (member->npack) draft_out(l, d, block * member->npack, 1);
    if (member->nunpack) draft_out(l, d, block * member->nunpack, 1);
    draft_args(l, id, 1);
    TRY(draft_reads(l, id, &from->part[local_set_find(from->mine, pos)], 0, false));
    follow_last(l, id);
    part_is_result(&to->part[k], id, 0);
    return 0;
}

int
collective_parts(struct lower *l, struct plan_move *move, const struct redistribution *x, struct pval *from,
                 struct pval *to, bool *done)
{
    struct collective c;
    *done = may_collect(l, from, to->layout, &c);
    if (!*done) return 0;
    move->by = arena_dup(&l->plan->arena, &c, sizeof c);
    move->late = !redistribute_is_all(x) && lower_is_late(l, from);
    move->nleg = 0;
    struct member_maker m = {.l = l, .move = move};
    struct move_comm_rank *member = ARENA_ARRAY(&l->plan->arena, struct move_comm_rank, to->mine->n);
    for (int32_t k = 0; k < to->mine->n; k++) {
        m.pos = to->mine->pos[k];
        TRY(make_collective_member(&m, from, &member[k]));
        TRY(collect_task(l, move, x->own, from, to, k, &member[k]));
    }
    return 0;
}
