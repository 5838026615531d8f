/* rows.c - makes the schedule rows of a step (the order of tasks on each lane), in all processes, from the act times
 * of call number WARM_CALLS.
 *
 * With several hosts, the session merges the plan partitions as if all devices were on one host, and makes the rows
 * of the merged plan. Workers get the rows of their partitions, so they follow the same order as a single process. */
#include "actors/session/step/rows.h"
#include "actors/plan/sim/account.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/run/remote.h"
#include "actors/session/step/compiled.h"

#include "runtime/base/error.h"

enum { MOST_ACTS = 1 << 20 }; /* maximum number of acts of the merged plan for which rows are made */

/* Returns true if lanes (streams or threads) should follow a fixed order of tasks: the step has micro-batches and
 * several lanes. */
static bool
wants_rows(const struct rille_graph *g)
{
    const struct plan *p = g->runner->plan;
    int hosts = cluster_view_hosts(g->runner);
    bool several = p->nthread > 1 || hosts > 1;
    for (int32_t d = 0; d < p->ndevice; d++) several = several || device_kind(p->device[d].kind)->stream_new;
    return p->pieces > 1 && several && hosts == cluster_view_count(g->runner) && g->times.nact < MOST_ACTS / hosts;
}

void
rows_give(struct rille_graph *g, const struct lane_rows *rows, const struct whole *w)
{
    if (!g->s->cluster) return;
    struct str *of = remote_rows(g->s, g->runner);
    for (int i = 0; i < w->npart && rows->nlane; i++)
        plan_sim_rows_write(rows, w->part[i], w->first[i], &of[w->part[i]->memory]);
}

static int
make_rows(struct rille_graph *g, struct arena *tmp)
{
    struct whole w;
    struct plan_sim_options how = {.share = PLAN_SIM_THREADS};
    TRY(cluster_view_whole(g->s, g->runner, g->times.act, g->times.nact, true, tmp, &w));
    int64_t *cost = ARENA_ARRAY(tmp, int64_t, w.plan->ntask + 1);
    if (!account_costs(w.plan, w.act, w.nact, cost)) return 0;
    how.jitter.share = account_jitter(w.act, w.nact, cost);
    TRY(plan_sim_rows(w.plan, cost, &how, &g->arena, &g->times.rows));
    rows_give(g, &g->times.rows, &w);
    return 0;
}

void
rows_make(struct rille_graph *g)
{
    struct arena tmp = {0};
    if (wants_rows(g) && make_rows(g, &tmp)) err_clear();
    arena_fini(&tmp);
}
