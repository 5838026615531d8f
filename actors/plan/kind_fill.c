/* kind_fill.c - a task that fills its slices of a part that several ranks of one space share (share.c).
 *
 * All who fill a part write into one register, that of the first of them. */
#include "actors/plan/kind_move.h"
#include "actors/plan/verify_value.h"

static void
print(const struct plan *p, int32_t task, struct str *s)
{
    str_addf(s, "box %s", p->task[task].name);
}

const struct task_kind kind_fill = {
    .name = "fill",
    .flags = KIND_MOVE | KIND_WRITES | KIND_ALIAS,
    .begin = move_begin,
    .check = value_fill,
    .result = kind_result_type,
    .print = print,
};
