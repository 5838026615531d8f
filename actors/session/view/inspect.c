/* inspect.c - describes the states of a plan's actors. */
#include "actors/act/run/inspect.h"
#include "actors/plan/model/deadlock.h"
#include "actors/session/core/face.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/step/compiled.h"

#include <string.h>

static int64_t
shown_register_bytes(const struct task *t)
{
    int64_t bytes = 0;
    for (int32_t k = 0; k < t->nout; k++)
        if (t->out[k].where.kind == IN_ARENA) bytes += t->out[k].bytes * t->out[k].nreg;
    return bytes;
}

/* Prints the state of an actor on a worker. After a failed run, workers report the number of acts (task
 * executions) of each actor. These numbers show which inputs are missing. */
static void
print_far(const struct cluster_view *x, int32_t task, struct str *out)
{
    const struct task *t = &x->plan->task[task];
    int64_t begun = inspect_begun(x->actors, task);
    const char *gap = NULL;
    if (begun >= t->nact) {
        str_add(out, "done");
        return;
    }
    for (int32_t k = 0; k < t->nin; k++) {
        int64_t of = x->plan->task[t->in[k].task].nact;
        if (inspect_begun(x->actors, t->in[k].task) * t->nact > begun * of) continue;
        str_add(out, gap ? gap : "waits for ");
        task_print(x->plan, t->in[k].task, out);
        gap = ", ";
    }
    if (!gap) str_add(out, "stopped");
}

/* Writes the actor's state, a zero byte, and the source line. */
static void
print_texts(const struct rille_session *s, const struct runner *r, const struct cluster_view *x, int32_t task,
            struct str *out)
{
    const struct task *t = &x->plan->task[task];
    struct line line = t->blame_node >= 0 ? r->run.line[t->blame_node] : (struct line){0};
    str_clear(out);
    if (s->cluster)
        print_far(x, task, out);
    else
        actors_print(r->actors, task, out);
    str_addn(out, "", 1);
    if (line.file) str_addf(out, "%s:%d", line.file, (int)line.line);
}

/* Finds the i-th task, counted over all partitions. Returns the task's index within its partition; -1: there are
 * at most i tasks, or (after fail) an error. */
static int32_t
find_task(struct rille_session *s, struct runner *r, int i, struct cluster_view *x)
{
    for (int k = 0; k < cluster_view_count(r); i -= x->plan->ntask, k++) {
        if (cluster_view_part(s, r, k, x)) return -1;
        if (i < x->plan->ntask) return i;
    }
    return -1;
}

bool
rille_actor(struct rille_session *s, struct rille_graph *g, int i, struct rille_actor *out)
{
    static const char *const phase[] = {"forward", "backward", "weight", "batch"};
    struct cluster_view x;
    if (face_session(s, __func__) || face_given(out, "out", __func__) || (g && face_graph(g, __func__))) return false;
    if (g && g->s != s) return fail(E_ARG, "%s: the graph belongs to another session", __func__), false;
    struct runner *r = g ? g->runner : s->runs.last;
    if (!r || i < 0 || (i = find_task(s, r, i, &x)) < 0) return false;
    const struct task *t = &x.plan->task[i];
    const struct plan_device *d = &x.plan->device[t->device];
    print_texts(s, r, &x, i, &s->runs.inspected);
    *out = (struct rille_actor){.name = t->name ? t->name : t->kind->name,
                                .kind = t->kind->name,
                                .device_kind = device_kind_text(d->kind),
                                .device = d->rank,
                                .thread = t->thread,
                                .stage = t->stage,
                                .phase = phase[t->phase],
                                .begun = inspect_begun(x.actors, i),
                                .acts = t->nact,
                                .pieces = x.plan->pieces,
                                .bytes = shown_register_bytes(t),
                                .nhost = cluster_view_hosts(r),
                                .nshown = cluster_view_count(r),
                                .state = s->runs.inspected.text,
                                .line = s->runs.inspected.text + strlen(s->runs.inspected.text) + 1};
    return true;
}
