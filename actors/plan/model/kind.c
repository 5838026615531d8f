/* kind.c - functions shared by several task kinds. */
#include "actors/plan/model/plan.h"

#include "kernels/cuda/launch.h"
#include "runtime/device/stream.h"

int
kind_enqueue(const struct act *a, int (*run)(const struct stream_work *w, const struct stream *s), bool launches)
{
    struct stream_work w = {.run = run, .of = a->task, .in = a->in, .out = a->out, .piece = (uint64_t)a->piece};
    w.launches = launches;
    return stream_enqueue(a->stream, &w);
}

void
kind_views(const struct stream_work *w, const struct stream *s, struct view *dst, struct view *src)
{
    const struct task *t = w->of;
    *dst = view_dense(t->type, stream_reach(s, w->out[0]));
    *src = *t->source;
    src->data = stream_reach(s, w->in[0]);
}

int
kind_copy_source(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    struct view dst, src;
    kind_views(w, s, &dst, &src);
    if (t->copies) return cuda_launch_run(t->copies, s->device, &src.data, &dst.data, NULL, 0, NULL);
    kernel_copy(&dst, &src, t->threads);
    return 0;
}

void
kind_print_name(const struct plan *p, int32_t task, struct str *s)
{
    str_add(s, p->task[task].name);
}

void
kind_print_far(const struct plan *p, int32_t task, struct str *s)
{
    const struct channel *c = task_channel(p, &p->task[task]);
    str_add(s, p->task[task].name);
    if (c) str_addf(s, " %s host %d", c->sends ? "to" : "from", (int)c->peer);
}

struct type
kind_result_type(const struct plan *p, int32_t task, int32_t out)
{
    UNUSED(out);
    const struct type *t = p->task[task].type;
    return t ? *t : (struct type){0};
}
