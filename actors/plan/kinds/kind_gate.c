/* kind_gate.c - a task without results, run once per batch: tasks after the gate wait for all tasks before it. */
#include "actors/plan/verify/value/verify_value.h"

static int
begin_gate(struct act *a)
{
    UNUSED(a);
    return 0;
}

static int
check_gate_task(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    TRY(proof_same(s->v, task, "narg", t->narg, 0));
    return proof_same(s->v, task, "nact", t->nact, 1);
}

const struct task_kind kind_gate = {
    .name = "gate",
    .flags = KIND_ORDER | KIND_FAR,
    .begin = begin_gate,
    .check = check_gate_task,
    .result = kind_result_type,
    .print = kind_print_far,
};
