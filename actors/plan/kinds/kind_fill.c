/* kind_fill.c - a task that fills its slices of a shard shared by several ranks of one memory space
 * (shared_shard.c).
 *
 * All FILL tasks of a shard write into one register, which belongs to the first FILL. */
#include "actors/plan/kinds/kind_move.h"
#include "actors/plan/verify/value/verify_shared_shard.h"

static void
print_fill_task(const struct plan *p, int32_t task, struct str *s)
{
    str_addf(s, "box %s", p->task[task].name);
}

const struct task_kind kind_fill = {
    .name = "fill",
    .flags = KIND_MOVE | KIND_WRITES | KIND_ALIAS,
    .begin = move_begin,
    .check = value_fill,
    .result = kind_result_type,
    .print = print_fill_task,
};
