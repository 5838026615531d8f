/* collect.c - moves that a library makes: a task at each rank, all of which take part.
 *
 * Such tasks wait for each other where no edge says so. So those of one device
 * follow each other by edges, in the order of the list, and all devices have the
 * same order: that of the moves. What is done once a piece has no such order,
 * since stages take turns as data come: its moves read each other's parts. */
#include "actors/plan/lower.h"

#include "runtime/device.h"

static bool
lies_dense(const struct pval *v)
{
    for (int32_t k = 0; k < v->mine->n; k++)
        if (!view_is_dense(v->part[k].view)) return false;
    return true;
}

static bool
may_collect(const struct lower *l, const struct cross *x, const struct pval *from, const struct layout *to,
            struct collective *c)
{
    const struct prog_node *n = &l->program->node[l->at];
    bool library = device_kind(to->place->kind)->flags & COLLECTS && x->one_space;
    return library && !from->piece && !(n->again && n->piece) && collective_of(&from->type, from->layout, to, c) &&
           lies_dense(from);
}

/* The seat of a position. The kind gives all who ask for the same devices one communicator. */
static int
take_seat(struct lower *l, const struct plan_move *move, int32_t pos, const struct move_seat **out)
{
    const struct place *p = move->to->place;
    int32_t first, *device = ARENA_ARRAY(&l->tmp, int32_t, move->by->size);
    struct move_seat s = {.seat = collective_seat(move->by, p, pos, &first),
                          .numel = collective_numel(move->by, &move->type, move->from, move->to, pos)};
    for (int32_t i = 0; i < move->by->size; i++) device[i] = p->rank[collective_pos(move->by, p, first, i)];
    TRY(device_kind(p->kind)->communicator(move->by->size, device, &s.in));
    *out = arena_dup(&l->plan->arena, &s, sizeof s);
    return 0;
}

/* Behind the device's last one. */
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
             struct pval *to, int32_t k)
{
    const struct place *p = move->to->place;
    int32_t pos = to->mine->pos[k], rank = p->rank[pos], id;
    struct type local = layout_shard(move->to, &move->type, pos);
    struct draft *d = draft_new(l, &kind_collect, from->node, p->kind, rank, pos, false, &id);
    d->task.move = (struct task_move){.of = move, .received = b->received[box_rank_at(b, rank)]};
    TRY(take_seat(l, move, pos, &d->task.move.seat));
    d->task.name = move->name;
    d->task.nresult = 1;
    draft_out(l, d, type_bytes(&local), 1);
    draft_args(l, id, 1);
    TRY(draft_reads(l, id, &from->part[mine_find(from->mine, pos)], 0, false));
    follow_last(l, id);
    part_is_result(&to->part[k], id, 0);
    return 0;
}

int
collect_parts(struct lower *l, struct plan_move *move, const struct cross *x, struct pval *from, struct pval *to,
              bool *done)
{
    struct collective c;
    *done = may_collect(l, x, from, to->layout, &c);
    if (!*done) return 0;
    move->by = arena_dup(&l->plan->arena, &c, sizeof c);
    for (int32_t k = 0; k < to->mine->n; k++) TRY(collect_task(l, move, x->own, from, to, k));
    return 0;
}
