/* kind_box.c - a task that fills one destination shard, or one stage buffer of a move, from shards at other mesh
 * positions.
 *
 * Reads other devices' registers in place, and counts the bytes read as received. */
#include "actors/plan/kinds/kind_move.h"
#include "actors/plan/verify/value/verify_move.h"

static struct type
box_result(const struct plan *p, int32_t task, int32_t out)
{
    const struct task *t = &p->task[task];
    const struct plan_move *b = t->move.of;
    if (t->move.stage) return move_row(t, (enum dtype)t->move.step[0].view->dtype, out);
    return layout_shard(b->to, &b->type, t->pos);
}

static void
print_box_task(const struct plan *p, int32_t task, struct str *s)
{
    const struct task *t = &p->task[task];
    str_addf(s, "box %s%s", t->name, t->move.stage ? " (stage)" : "");
}

const struct task_kind kind_box = {
    .name = "box",
    .flags = KIND_MOVE | KIND_WRITES,
    .begin = move_begin,
    .check = value_move,
    .result = box_result,
    .print = print_box_task,
};
