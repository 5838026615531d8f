/* look.c - the actors of a plan, one by one, for people. */
#include "actors/session/compiled.h"
#include "actors/session/face.h"
#include "actors/plan/deadlock.h"

#include <string.h>

static int64_t
register_bytes(const struct task *t)
{
    int64_t bytes = 0;
    for (int32_t k = 0; k < t->nout; k++)
        if (t->out[k].where.kind == IN_ARENA) bytes += t->out[k].bytes * t->out[k].nreg;
    return bytes;
}

/* Of an actor on a worker it is known how often it acted: after a run that failed, and so what it had not got. */
static void
print_far(const struct runner *r, int32_t task, struct str *out)
{
    const struct task *t = &r->plan->task[task];
    int64_t begun = look_begun(r->actors, task);
    const char *gap = "waits for ";
    if (begun >= t->nact) {
        str_add(out, "done");
        return;
    }
    for (int32_t k = 0; k < t->nin; k++) {
        int64_t of = r->plan->task[t->in[k].task].nact;
        if (look_begun(r->actors, t->in[k].task) * t->nact > begun * of) continue;
        str_add(out, gap);
        task_print(r->plan, t->in[k].task, out);
        gap = ", ";
    }
    if (gap[0] == 'w') str_add(out, "stopped");
}

/* The state, a zero byte, the line. */
static void
print_texts(const struct rille_session *s, const struct runner *r, int32_t task, struct str *out)
{
    const struct task *t = &r->plan->task[task];
    struct line line = t->blame_node >= 0 ? r->run.line[t->blame_node] : (struct line){0};
    str_clear(out);
    if (s->cluster)
        print_far(r, task, out);
    else
        actors_print(r->actors, task, out);
    str_addn(out, "", 1);
    if (line.file) str_addf(out, "%s:%d", line.file, (int)line.line);
}

bool
rille_actor(struct rille_session *s, struct rille_graph *g, int i, struct rille_actor *out)
{
    static const char *const phase[] = {"forward", "backward", "weight", "batch"};
    if (face_session(s, __func__) || face_given(out, "out", __func__) || (g && face_graph(g, __func__))) return false;
    if (g && g->s != s) return fail(E_ARG, "%s: the graph belongs to another session", __func__), false;
    const struct runner *r = g ? g->runner : s->last;
    if (!r || i < 0 || i >= r->plan->ntask) return false;
    const struct task *t = &r->plan->task[i];
    const struct plan_device *d = &r->plan->device[t->device];
    print_texts(s, r, i, &s->looked);
    *out = (struct rille_actor){.name = t->name ? t->name : t->kind->name,
                                .kind = t->kind->name,
                                .device_kind = device_kind_text(d->kind),
                                .device = d->rank,
                                .thread = t->thread,
                                .stage = t->stage,
                                .phase = phase[t->phase],
                                .begun = look_begun(r->actors, i),
                                .acts = t->nact,
                                .pieces = r->plan->pieces,
                                .bytes = register_bytes(t),
                                .nhost = r->plan->nmemory,
                                .state = s->looked.text,
                                .line = s->looked.text + strlen(s->looked.text) + 1};
    return true;
}
