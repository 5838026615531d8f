/* kind_accumulate.c - a task that adds a piece to its sum: the sum of a batch, in piece order, on its own rank. */
#include "actors/plan/verify_value.h"
#include "runtime/stream.h"

static int
carry_out(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    struct view dst = view_dense(t->type, stream_reach(s, w->out[0])), src = *t->source;
    src.data = stream_reach(s, w->in[0]);
    box_combine(RED_SUM, w->piece == 0, &dst, &src);
    return 0;
}

static int
begin(struct act *a)
{
    return stream_enqueue(
        a->stream, &(struct stream_work){
                       .run = carry_out, .of = a->task, .in = a->in, .out = a->out, .piece = (uint64_t)a->piece});
}

const struct task_kind kind_accumulate = {
    .name = "accumulate",
    .flags = KIND_WRITES | KIND_ONCE_A_BATCH,
    .begin = begin,
    .check = value_accumulate,
    .result = kind_result_type,
    .print = kind_print_name,
};
