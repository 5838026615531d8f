/* accumulate.c - a task that adds a piece to its sum: the sum of a batch, in piece order, on its own rank. */
#include "actors/plan/verify_value.h"

static int
begin(struct act *a)
{
    struct view dst = view_dense(&a->task->type, a->out[0]), src = *a->task->source;
    src.data = a->in[0];
    box_combine(RED_SUM, a->piece == 0, &dst, &src);
    return 0;
}

const struct task_kind kind_accumulate = {
    .name = "accumulate",
    .flags = KIND_WRITES | KIND_ONCE_A_BATCH,
    .begin = begin,
    .check = value_accumulate,
    .result = kind_result_type,
    .print = kind_print_name,
};
