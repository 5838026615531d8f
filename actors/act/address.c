/* address.c - where the bytes of an act lie: a plan's offsets upon a run's bases. */
#include "actors/act/actor.h"

/* What has no elements has no memory; a kernel is given an address all the same. */
static _Alignas(64) char nothing[64];

char *
reg_address(const struct run *r, const struct where *w, int reg)
{
    if (w->kind == IN_TASK) w = &r->plan->task[w->index].out[0].where;
    if (w->stride == 0) return nothing;
    char *base = w->kind == IN_ROOT ? r->root[w->index] : r->arena[w->index];
    return base + w->offset + reg * w->stride;
}

static void *
arg_address(const struct worker *w, const struct act *a, const struct arg *arg)
{
    switch (arg->kind) {
    case ARG_REG: {
        const struct in_port *p = &a->task->in[arg->index];
        int reg = w->actors->actor[a->task - w->plan->task].in[arg->index].give;
        return reg_address(w->run, &w->plan->task[p->task].out[p->out].where, reg) + arg->skip;
    }
    case ARG_LEAF: {
        char *base = w->run->leaf[arg->index];
        return base ? base + arg->skip + a->piece * arg->piece_stride : nothing;
    }
    case ARG_NUMBER: return &w->run->number[arg->index];
    default: return NULL;
    }
}

void
act_address(struct worker *w, struct act *a)
{
    const struct task *t = a->task;
    const struct actor *actor = &w->actors->actor[t - w->plan->task];
    void **in = w->address, **out = in + t->narg;
    for (int i = 0; i < t->narg; i++) in[i] = arg_address(w, a, &t->arg[i]);
    for (int k = 0; k < t->nresult; k++) out[k] = reg_address(w->run, &t->out[k].where, actor->out[k].show);
    a->in = in;
    a->out = out;
    a->scratch = (char *)w->run->arena[t->device] + w->plan->device[t->device].scratch;
}
