/* kind_copy.c - a task that makes a dense copy of a window of its argument. Used for views that strides cannot
 * express, and for results that are copied to a buffer that outlives the run. */
#include "actors/plan/verify/value/verify_value.h"

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
