/* copy.c - a task that makes a dense copy of a window: of a view that no strides show, or into what outlives the run.
 */
#include "actors/plan/verify_value.h"

static int
begin(struct act *a)
{
    struct view dst = view_dense(&a->task->type, a->out[0]), src = *a->task->source;
    src.data = a->in[0];
    view_copy(&dst, &src);
    return 0;
}

const struct task_kind kind_copy = {
    .name = "copy",
    .flags = KIND_WRITES,
    .begin = begin,
    .check = value_copy,
    .result = kind_result_type,
    .print = kind_print_name,
};
