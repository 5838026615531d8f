/* cluster_view.c - compiles plan partitions of other hosts on demand, and keeps the workers' reports of runs. */
#include "actors/plan/compile.h"
#include "actors/plan/verify/verify_program.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/run/host_report.h"
#include "actors/session/run/remote.h"
#include "actors/session/run/runner.h"

#include "actors/act/run/actor.h"
#include "actors/cluster/controller/memories.h"
#include "actors/cluster/controller/roster.h"
#include "actors/plan/sim/merge_partitions.h"

#include <stdlib.h>
#include <string.h>

int
cluster_view_hosts(const struct runner *r)
{
    return MAX(1, (int)r->plan->nmemory);
}

int
cluster_view_count(const struct runner *r)
{
    int n = 1;
    for (int i = 0; r->remote && i < r->plan->nmemory; i++) n += r->plan->memories[i] != r->plan->memory;
    return MIN(n, CLUSTER_VIEW_PARTS);
}

/* Returns the i-th shown host: the session's own host first, then the others. */
static int
memory_at(const struct plan *p, int i)
{
    for (int m = 0; i > 0 && m < p->nmemory; m++)
        if (p->memories[m] != p->memory && --i == 0) return p->memories[m];
    return p->memory;
}

static int
compile(struct rille_session *s, const struct runner *r, int memory, struct host_report *h)
{
    const struct str *bytes = remote_program(r);
    struct program *g;
    if (h->plan) return 0;
    TRY(program_read(bytes->text, bytes->len, s->atlas, &g));
    g->map = cluster_map(s->cluster, memory);
    for (int32_t i = 0; i < g->nnode; i++) g->node[i].line = r->run.line[i];
    TRY(plan_compile(g, s->atlas, &h->plan));
    h->actors = actors_new(h->plan);
    return 0;
}

/* Copies a worker's report into the actors of its plan partition, so that they can be printed. Ignores tasks and
 * devices that do not exist. */
static void
mark(struct host_report *h)
{
    const struct plan *p = h->plan;
    int64_t n = 0;
    if (h->marked) return;
    h->marked = true;
    actors_clear(h->actors);
    for (int32_t i = 0; h->good && i < p->ntask; i++) actors_mark(h->actors, i, p->task[i].nact);
    for (int64_t i = 0; i < h->nacted; i += 2)
        if (h->acted[i] >= 0 && h->acted[i] < p->ntask) actors_mark(h->actors, h->acted[i], h->acted[i + 1]);
    for (int32_t d = 0; d < p->ndevice; d++)
        for (int64_t i = 0; i < h->nbusy; i += 2)
            if (h->busy[i] == device_number(p->device[d].kind, p->device[d].rank))
                h->actors->busy_ns[d] = (int64_t)h->busy[i + 1];
    for (int64_t i = 0; i < h->nact; i++)
        if (h->act[i].task >= 0 && h->act[i].task < p->ntask) h->act[n++] = h->act[i];
    h->nact = n;
}

int
cluster_view_part(struct rille_session *s, struct runner *r, int i, struct cluster_view *out)
{
    int memory = memory_at(r->plan, i);
    *out = (struct cluster_view){.plan = r->plan, .actors = r->actors};
    if (cluster_view_count(r) > 1) cluster_host(s->cluster, memory, out->host);
    if (i == 0) return 0;
    struct host_report *h = remote_report(r, memory);
    TRY(compile(s, r, memory, h));
    mark(h);
    out->plan = h->plan;
    out->actors = h->actors;
    out->act = h->act;
    out->nact = h->nact;
    return 0;
}

int
cluster_view_settle(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown,
                    struct cluster_view *out)
{
    const struct plan *part[CLUSTER_VIEW_PARTS];
    const struct act_time *act[CLUSTER_VIEW_PARTS];
    int64_t nact[CLUSTER_VIEW_PARTS], later[CLUSTER_VIEW_PARTS];
    int n = cluster_view_count(r);
    bool settled = true;
    for (int i = 0; i < n; i++) {
        TRY(cluster_view_part(s, r, i, &out[i]));
        part[i] = out[i].plan;
        act[i] = i ? out[i].act : own;
        nact[i] = i ? out[i].nact : nown;
        settled = settled && (!i || remote_report(r, memory_at(r->plan, i))->settled);
    }
    if (settled || nown == 0) return 0;
    plan_clocks(part, n, act, nact, later);
    for (int i = 1; i < n; i++) {
        struct host_report *h = remote_report(r, memory_at(r->plan, i));
        for (int64_t k = 0; k < h->nact; k++) h->act[k].begin += later[i], h->act[k].end += later[i];
        h->settled = true;
    }
    return 0;
}

int
cluster_view_whole(struct rille_session *s, struct runner *r, const struct act_time *own, int64_t nown, bool as_one,
                   struct arena *a, struct whole *out)
{
    int n = cluster_view_count(r);
    *out = (struct whole){.plan = r->plan, .npart = n, .act = own, .nact = nown};
    out->part = ARENA_ARRAY(a, const struct plan *, n);
    out->first = ARENA_ARRAY(a, int32_t, n);
    out->part[0] = r->plan;
    if (n == 1) return 0;
    struct cluster_view *sight = ARENA_ARRAY(a, struct cluster_view, n);
    int64_t nact = nown;
    TRY(cluster_view_settle(s, r, own, nown, sight));
    for (int i = 0; i < n; i++) {
        out->part[i] = sight[i].plan;
        nact += nown ? sight[i].nact : 0;
    }
    out->plan = plan_merge_partitions(out->part, n, as_one, a, out->first);
    struct act_time *act = ARENA_ARRAY(a, struct act_time, nact + 1);
    if (nown) memcpy(act, own, sizeof *act * (size_t)nown);
    for (int i = 1; i < n && out->nact < nact; i++)
        for (int64_t k = 0; k < sight[i].nact; k++) {
            act[out->nact] = sight[i].act[k];
            act[out->nact++].task += out->first[i];
        }
    out->act = act;
    return 0;
}
