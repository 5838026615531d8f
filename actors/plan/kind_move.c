/* kind_move.c - the work of a move's tasks: every slice is copied, or combined in the order of its sources. */
#include "actors/plan/kind_move.h"
#include "runtime/arena.h"
#include "runtime/stream.h"

#include <stdlib.h>

enum { SOURCES = 32 }; /* of nearly all moves: the views of more are allocated */

static bool
on_other_device(const struct plan *p, const struct task *t, const struct arg *arg)
{
    const struct plan_device *d = &p->device[t->device];
    if (arg->kind == ARG_REG) return p->task[t->in[arg->index].task].device != t->device;
    const struct plan_part *part = &p->leaf_part[arg->index];
    const struct place *place = p->program->leaf[part->index].layout->place;
    return place->rank[part->pos] != d->rank || place->kind != d->kind;
}

/* One step of a move. */
static void
take_step(const struct box_move *m, const struct stream_work *w, const struct stream *s)
{
    struct view dst = *m->view, few[SOURCES];
    dst.data = (char *)stream_reach(s, w->out[0]) + m->skip;
    if (m->verb == BOX_FILL) {
        box_fill(m->reduce, &dst);
        return;
    }
    struct view *src = m->nfrom <= SOURCES ? few : must_alloc(sizeof *src * (size_t)m->nfrom);
    for (int i = 0; i < m->nfrom; i++) {
        const struct box_from *f = &m->from[i];
        src[i] = *f->view;
        src[i].data = (char *)stream_reach(s, w->in[f->arg]) + f->skip;
    }
    box_reduce(m->reduce, &dst, m->nfrom, src);
    if (src != few) free(src);
}

static int
carry_out(const struct stream_work *w, const struct stream *s)
{
    const struct task *t = w->of;
    for (int i = 0; i < t->move.nstep; i++) take_step(&t->move.step[i], w, s);
    return 0;
}

static void
count_received(struct act *a, const struct box_move *m)
{
    for (int i = 0; i < m->nfrom; i++)
        if (on_other_device(a->plan, a->task, &a->task->arg[m->from[i].arg]))
            a->received += view_bytes(m->from[i].view);
}

int
move_begin(struct act *a)
{
    for (int i = 0; i < a->task->move.nstep; i++) count_received(a, &a->task->move.step[i]);
    return stream_enqueue(a->stream,
                          &(struct stream_work){.run = carry_out, .of = a->task, .in = a->in, .out = a->out});
}
