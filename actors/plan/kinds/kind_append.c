/* kind_append.c - a task that copies the shard of each micro-batch behind the shards of earlier micro-batches, in one
 * register. The result has the shards of the whole batch; task.type is the type of one micro-batch's shard. */
#include "actors/plan/verify/value/verify_value.h"
#include "runtime/device/stream.h"

static int
append_now(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    void *out = (char *)w->out[0] + (int64_t)w->piece * type_bytes(t->type);
    struct stream_work at = *w;
    at.out = &out;
    return kind_copy_source(&at, s);
}

static int
begin_append(struct act *a)
{
    return kind_enqueue(a, append_now, a->task->copies);
}

static struct type
append_result(const struct plan *p, int32_t task, int32_t out)
{
    struct type t = kind_result_type(p, task, out);
    if (t.ndim > 0) t.dim[0] *= p->pieces;
    return t;
}

const struct task_kind kind_append = {
    .name = "append",
    .flags = KIND_WRITES | KIND_ONCE_A_BATCH | KIND_APPENDS,
    .begin = begin_append,
    .check = value_append,
    .result = append_result,
    .print = kind_print_name,
};
