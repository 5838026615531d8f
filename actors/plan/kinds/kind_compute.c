/* kind_compute.c - tasks that call a kernel: for a program node or a chain on one rank, or for a node that adds its
 * results to a sum over micro-batches. */
#include "actors/plan/verify/value/verify_value.h"

static int
begin_compute(struct act *a)
{
    struct finding *find = a->task->looks ? &a->find : NULL;
    return exec_enqueue(a->task->exec, a->in, a->out, a->scratch, a->stream, (uint64_t)a->piece, find);
}

static int
compute_done(struct act *a)
{
    return exec_say(a->task->exec, &a->find, (uint64_t)a->piece);
}

static struct type
compute_result(const struct plan *p, int32_t task, int32_t out)
{
    const struct task *t = &p->task[task];
    struct ref of = t->chain ? t->chain->live_out[out] : (struct ref){REF_NODE, (uint8_t)out, t->node};
    const struct prog_node *n = &p->program->node[of.index];
    return layout_shard(n->layout[of.out], &n->type[of.out], t->pos);
}

const struct task_kind kind_compute = {
    .name = "compute",
    .flags = KIND_EXEC | KIND_NODE | KIND_WRITES,
    .begin = begin_compute,
    .done = compute_done,
    .check = value_compute,
    .result = compute_result,
    .print = kind_print_name,
};

static void
print_sum(const struct plan *p, int32_t task, struct str *s)
{
    str_addf(s, "%s+accumulate", p->task[task].name);
}

/* A task that adds the node's results to a sum over the batch, in the task's register. */
const struct task_kind kind_sum = {
    .name = "sum",
    .flags = KIND_EXEC | KIND_NODE | KIND_WRITES | KIND_ONCE_A_BATCH,
    .begin = begin_compute,
    .done = compute_done,
    .check = value_sum,
    .result = compute_result,
    .print = print_sum,
};
