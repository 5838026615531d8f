/* inspect.c - prints an actor's state between runs: done, ready, or the tasks that block the actor. */
#include "actors/act/run/inspect.h"

#include "actors/act/run/actor.h"
#include "actors/plan/model/deadlock.h"

int32_t
inspect_begun(const void *actors, int32_t task)
{
    return ((const struct actors *)actors)->actor[task].begun;
}

bool
inspect_in(const void *actors, int32_t task, int32_t port)
{
    const struct actors *a = actors;
    return a->actor[task].in[port].tokens < a->plan->task[task].in[port].need;
}

bool
inspect_out(const void *actors, int32_t task, int32_t out)
{
    const struct out_state *o = &((const struct actors *)actors)->actor[task].out[out];
    return o->readers[o->write] > 0;
}

int32_t
inspect_reader(const void *actors, int32_t task, int32_t out)
{
    const struct actors *a = actors;
    const struct out_port *o = &a->plan->task[task].out[out];
    const int32_t *left = a->left[a->first_out[task] + out];
    if (!inspect_out(a, task, out)) return -1;
    for (int f = 0; f < o->nfan; f++)
        if (left[f * o->nreg + a->actor[task].out[out].write] > 0) return o->fan[f].reader[0].task;
    return -1;
}

void
actors_print(const struct actors *a, int32_t task, struct str *s)
{
    const struct task *t = &a->plan->task[task];
    const char *gap = "waits for ";
    if (a->actor[task].begun >= t->nact) {
        str_add(s, "done");
        return;
    }
    size_t before = s->len;
    for (int32_t k = 0; k < t->nin; k++) {
        if (!inspect_in(a, task, k)) continue;
        str_add(s, gap);
        task_print(a->plan, t->in[k].task, s);
        gap = ", ";
    }
    for (int32_t k = 0; k < t->nresult; k++) {
        if (!inspect_out(a, task, k)) continue;
        int32_t by = inspect_reader(a, task, k), nreg = t->out[k].nreg;
        str_add(s, gap);
        if (by >= 0) {
            task_print(a->plan, by, s);
            str_add(s, " to read ");
        }
        if (nreg == 1)
            str_add(s, "its register");
        else
            str_addf(s, "one of its %d registers", (int)nreg);
        gap = ", ";
    }
    if (s->len == before) str_add(s, "ready");
}
