/* kind_copy.c - a task that copies a window of its argument densely: for a view that strides cannot express, or into
 * a buffer that outlives the run. */
#include "actors/plan/verify/verify_value.h"

static int
begin_copy(struct act *a)
{
    return kind_enqueue(a, kind_copy_source, a->task->copies);
}

const struct task_kind kind_copy = {
    .name = "copy",
    .flags = KIND_WRITES,
    .begin = begin_copy,
    .check = value_copy,
    .result = kind_result_type,
    .print = kind_print_name,
};
