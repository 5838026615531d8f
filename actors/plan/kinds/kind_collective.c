/* kind_collective.c - a task that is one rank of a library collective.
 *
 * The result is complete only after all ranks have started the collective. Blocks that the library cannot use in
 * place are packed before and unpacked after the collective, as work of the same stream. */
#include "actors/plan/kinds/kind_move.h"
#include "actors/plan/verify/value/verify_collective.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/device/stream.h"

/* Runs the collective, unless this rank's group has nothing to move (numel 0). The stream may call this function
 * again for the same act; packing is then repeated and yields the same bytes. */
static int
take_part(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    const struct collective *c = t->move.of->by;
    const struct move_comm_rank *own = t->move.member;
    struct collective_call call = {c->verb, c->reduce, c->dtype, own->numel};
    void *in = own->npack ? w->out[1] : w->in[0], *out = own->nunpack ? w->out[comm_rank_nresult(own) - 1] : w->out[0];
    if (own->numel == 0) return 0;
    TRY(move_rearrange(own->npack, own->pack, w->in[0], in, s));
    int status = s->kind->collect(own->in, own->comm_rank, &call, s, stream_reach(s, in), stream_reach(s, out));
    return status ? status : move_rearrange(own->nunpack, own->unpack, out, w->out[0], s);
}

static int
begin_collective(struct act *a)
{
    a->received += a->task->move.received;
    return kind_enqueue(a, take_part, true);
}

static struct type
collective_result(const struct plan *p, int32_t task, int32_t out)
{
    const struct task *t = &p->task[task];
    if (out > 0) return move_row(t, (enum dtype)t->move.of->by->dtype, out);
    return layout_shard(t->move.of->to, &t->move.of->type, t->pos);
}

static void
print_collective_task(const struct plan *p, int32_t task, struct str *s)
{
    str_addf(s, "collect %s", p->task[task].name);
}

const struct task_kind kind_collect = {
    .name = "collect",
    .flags = KIND_MOVE | KIND_WRITES | KIND_COLLECTS,
    .begin = begin_collective,
    .check = value_collect,
    .result = collective_result,
    .print = print_collective_task,
};
