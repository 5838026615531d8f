/* kind_join.c - a task that completes a shared shard: it waits until all FILL tasks have written their slices.
 *
 * The task moves no bytes. Slices filled by other devices count as received, because readers read them in place. */
#include "actors/plan/verify/value/verify_shared_shard.h"

static int
begin_join(struct act *a)
{
    const struct task *t = a->task;
    for (int i = 0; i < t->nin; i++) {
        const struct task *fill = &a->plan->task[t->in[i].task];
        if (fill->device == t->device || a->plan->task[t->in[i].task].out[t->in[i].out].control) continue;
        for (int m = 0; m < fill->move.nstep; m++) a->received += view_bytes(fill->move.step[m].view);
    }
    return 0;
}

const struct task_kind kind_join = {
    .name = "join",
    .flags = KIND_MOVE | KIND_ALIAS,
    .begin = begin_join,
    .check = value_join,
    .result = kind_result_type,
    .print = kind_print_name,
};
