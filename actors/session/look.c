/* look.c - the actors of a plan, one by one, for people. */
#include "actors/session/compiled.h"
#include "actors/session/face.h"

#include <string.h>

static int64_t
register_bytes(const struct task *t)
{
    int64_t bytes = 0;
    for (int32_t k = 0; k < t->nout; k++)
        if (t->out[k].where.kind == IN_ARENA) bytes += t->out[k].bytes * t->out[k].nreg;
    return bytes;
}

/* The state, a zero byte, the line; in a cluster actors are elsewhere, and what is known is whether they acted. */
static void
print_texts(const struct rille_session *s, const struct runner *r, int32_t task, struct str *out)
{
    const struct task *t = &r->plan->task[task];
    struct line line = t->blame_node >= 0 ? r->run.line[t->blame_node] : (struct line){0};
    str_clear(out);
    if (s->cluster)
        str_add(out, "on a worker");
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
                                .state = s->looked.text,
                                .line = s->looked.text + strlen(s->looked.text) + 1};
    return true;
}
