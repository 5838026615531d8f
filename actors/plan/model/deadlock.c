/* deadlock.c - prints the report of a deadlock: the tasks that wait for each other. */
#include "actors/plan/model/deadlock.h"

#include "runtime/device/device.h"

enum { NAMED = 3 };

void
task_print(const struct plan *p, int32_t task, struct str *s)
{
    const struct task *t = &p->task[task];
    t->kind->print(p, task, s);
    struct line line = task_line(p, t);
    if (line.file) str_addf(s, " (%s:%d)", line.file, (int)line.line);
    if (t->device < 0 || t->device >= p->ndevice) return;
    const struct plan_device *d = &p->device[t->device];
    str_addf(s, " on %s:%d", device_kind_text(d->kind), (int)d->rank);
}

static void
starving(const struct deadlock *s, int32_t task, struct str *text)
{
    const struct task *t = &s->plan->task[task];
    task_print(s->plan, task, text);
    str_addf(text, ", %d of %d acts done, waits for", (int)s->begun(s->state, task), (int)t->nact);
    const char *gap = " ";
    for (int32_t k = 0; k < t->nin; k++)
        if (s->in_waits(s->state, task, k)) {
            str_add(text, gap);
            task_print(s->plan, t->in[k].task, text);
            gap = ", ";
        }
    for (int32_t k = 0; k < t->nout; k++)
        if (s->out_waits(s->state, task, k)) {
            str_addf(text, "%sa free register of result %d (it has %d)", gap, (int)k, (int)t->out[k].nreg);
            gap = ", ";
        }
}

static bool
wants_register(const struct deadlock *s, int32_t task)
{
    for (int32_t k = 0; k < s->plan->task[task].nout; k++)
        if (s->out_waits(s->state, task, k)) return true;
    return false;
}

void
deadlock_print(const struct deadlock *s, struct str *text)
{
    int32_t n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < s->plan->ntask; i++) {
            if (s->begun(s->state, i) == s->plan->task[i].nact) continue;
            if (wants_register(s, i) == (pass == 1) || n++ >= NAMED) continue;
            str_add(text, n > 1 ? "; " : "");
            starving(s, i, text);
        }
    if (n > NAMED) str_addf(text, "; and %d more", (int)(n - NAMED));
}
