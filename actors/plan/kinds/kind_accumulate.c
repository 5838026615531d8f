/* kind_accumulate.c - a task that adds the value of each micro-batch to the sum over the batch, on one rank. The
 * order is that of the micro-batches. */
#include "actors/plan/verify/value/verify_value.h"
#include "kernels/cuda/launch.h"
#include "runtime/device/stream.h"
#include "boxing/reduce.h"

static int
accumulate_now(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    struct view dst, src;
    if (w->piece == 0) return kind_copy_source(w, s);
    kind_views(w, s, &dst, &src);
    void *in[] = {dst.data, src.data};
    if (t->adds) return cuda_launch_run(t->adds, s->device, in, &dst.data, NULL, 0, NULL);
    box_combine(RED_SUM, false, &dst, &src);
    return 0;
}

static int
begin_accumulate(struct act *a)
{
    return kind_enqueue(a, accumulate_now, a->piece == 0 ? a->task->copies : a->task->adds);
}

const struct task_kind kind_accumulate = {
    .name = "accumulate",
    .flags = KIND_WRITES | KIND_ONCE_A_BATCH,
    .begin = begin_accumulate,
    .check = value_accumulate,
    .result = kind_result_type,
    .print = kind_print_name,
};
