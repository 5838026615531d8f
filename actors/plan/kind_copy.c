/* kind_copy.c - a task that makes a dense copy of a window: of a view that no strides show, or into what outlives the
 * run.
 */
#include "actors/plan/verify_value.h"
#include "runtime/stream.h"

static int
carry_out(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    struct view dst = view_dense(t->type, stream_reach(s, w->out[0])), src = *t->source;
    src.data = stream_reach(s, w->in[0]);
    view_copy(&dst, &src);
    return 0;
}

static int
begin(struct act *a)
{
    return stream_enqueue(
        a->stream, &(struct stream_work){
                       .run = carry_out, .of = a->task, .in = a->in, .out = a->out, .piece = (uint64_t)a->piece});
}

const struct task_kind kind_copy = {
    .name = "copy",
    .flags = KIND_WRITES,
    .begin = begin,
    .check = value_copy,
    .result = kind_result_type,
    .print = kind_print_name,
};
