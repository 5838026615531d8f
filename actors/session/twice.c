/* twice.c - the first of two traces, kept until the second is there. */
#include "actors/session/twice.h"

#include "actors/plan/account.h"
#include "actors/plan/play.h"

#include <stdlib.h>

struct twice {
    struct rille_graph *kept; /* NULL: it did not fit */
    double time;              /* of a step, nanoseconds as reckoned; 0: it is no pipeline */
    int64_t base;
};

/* On the virtual clock of the plan's own tasks: that of its stages knows nothing of what is computed together. */
static double
played(const struct plan *p)
{
    struct arena a = {0};
    struct act_time *act;
    int64_t n, *cost = ARENA_ARRAY(&a, int64_t, p->ntask + 1);
    plan_reckon(p, cost);
    double time = !plan_play(p, cost, NULL, PLAY_DEVICES, &a, &act, &n) && n ? (double)act[n - 1].end : 0;
    arena_fini(&a);
    return time;
}

static double
time_of(const struct rille_graph *g, const struct rille_graph_options *o)
{
    const struct plan *p = g->runner->plan;
    struct dial_costs costs;
    struct dial d;
    if (o->costs && dial_costs_of(o->costs, &costs)) return 0;
    if (!dial_read(p->program, o->costs ? &costs : NULL, &d)) return 0;
    return o->costs ? d.time : played(p);
}

/* Where all fits, and no schedule waits for memory, nothing is faster. */
static bool
begin(struct rille_session *s, const struct rille_graph_options *o, int64_t base, int *status, struct rille_graph **g)
{
    double time = *status ? 0 : time_of(*g, o);
    if (*status ? *status != E_MEMORY : time == 0) return false;
    s->twice = must_alloc(sizeof *s->twice);
    *s->twice = (struct twice){.kept = *status ? NULL : *g, .time = time, .base = base};
    err_clear();
    *status = 0;
    *g = NULL;
    return true;
}

bool
twice_again(struct rille_session *s, const struct rille_graph_options *o, int64_t base, int *status,
            struct rille_graph **g)
{
    if (!o->recompute_auto || !o->again) return false;
    struct twice *t = s->twice;
    if (!t) return begin(s, o, base, status, g);
    if (t->kept && (*status || t->time <= time_of(*g, o))) {
        if (!*status) rille_graph_free(g);
        err_clear();
        *status = 0;
        *g = t->kept;
        t->kept = NULL;
    }
    twice_end(s);
    return false;
}

int64_t
twice_base(const struct rille_session *s)
{
    return s->twice ? s->twice->base : 0;
}

void
twice_end(struct rille_session *s)
{
    if (!s->twice) return;
    if (s->twice->kept) rille_graph_free(&s->twice->kept);
    free(s->twice);
    s->twice = NULL;
}
