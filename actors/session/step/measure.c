/* measure.c - statistics of a compiled step: busy time, traffic and memory by device; keeps act times. */
#include "actors/plan/memory/peak.h"
#include "actors/plan/sim/account.h"
#include "actors/act/run/actor.h"
#include "actors/session/step/compiled.h"
#include "actors/session/core/face.h"
#include "actors/session/core/cluster_view.h"
#include "runtime/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
device_at(const struct plan *p, const struct place *place, int pos)
{
    int d = 0;
    while (p->device[d].kind != place->kind || p->device[d].rank != place->rank[pos]) d++;
    return d;
}

/* Adds the memory beside registers: leaves, and roots that overwrite no leaf. over: by root, whether the root
 * overwrites its leaf. */
static void
count_values(const struct plan *p, const bool *over, struct rille_device_stats *device)
{
    for (int32_t i = 0; i < p->nleaf_part; i++) {
        const struct plan_part *part = &p->leaf_part[i];
        const struct layout *l = p->program->leaf[part->index].layout;
        device[device_at(p, l->place, part->pos)].peak_memory += part->bytes;
    }
    for (int32_t i = 0; i < p->nroot_part; i++) {
        const struct plan_part *part = &p->root_part[i];
        const struct prog_root *r = &p->program->root[part->index];
        const struct layout *l = ref_layout(p->program, r->ref);
        int64_t *held = &device[device_at(p, l->place, part->pos)].peak_memory;
        bool later = p->shared[part->index] && layout_origin(l, part->pos) != part->pos;
        if (!over[part->index] && !later) *held += part->bytes;
        if (over[part->index] && later) *held -= part->bytes; /* of the leaf, in the first one's buffer */
    }
}

/* Returns the bytes of other devices that a task reads in a run. Without a cluster, the acts count these bytes
 * themselves. */
static int64_t
task_received(const struct plan *p, int32_t i)
{
    const struct task *t = &p->task[i];
    return t->kind->flags & KIND_MOVE ? t->move.received * t->nact : 0;
}

/* Returns the text of the largest tenants; made once, because a plan does not change. */
static const char *
tenants_text(struct rille_graph *g, const struct plan *p, int32_t device, const char *known)
{
    struct str s = {0};
    if (known) return known;
    plan_peak_print(p, device, 5, &s);
    const char *text = arena_strdup(&g->arena, str_text(&s));
    str_free(&s);
    return text;
}

static void
device_stats(struct rille_graph *g, const struct cluster_view *x, struct rille_device_stats *device)
{
    const struct plan *p = x->plan;
    for (int d = 0; d < p->ndevice; d++)
        device[d] = (struct rille_device_stats){.tenants = tenants_text(g, p, d, device[d].tenants),
                                                .kind = device_kind_text(p->device[d].kind),
                                                .device = p->device[d].rank,
                                                .busy = (double)x->actors->busy_ns[d] * 1e-9,
                                                .peak_memory = p->device[d].arena_bytes};
    count_values(p, g->runner->donate, device);
    for (int32_t i = 0; i < p->ntask; i++)
        device[task_holder(&p->task[i])].bytes_in += g->s->cluster ? task_received(p, i) : x->actors->actor[i].received;
}

int64_t
measure_held(const struct plan *p, int32_t *fullest)
{
    struct rille_device_stats *device = must_alloc(sizeof *device * (size_t)(p->ndevice + 1));
    int32_t most = 0;
    for (int d = 0; d < p->ndevice; d++) device[d].peak_memory = p->device[d].arena_bytes;
    count_values(p, p->overwrites, device);
    for (int32_t d = 1; d < p->ndevice; d++)
        if (device[d].peak_memory > device[most].peak_memory) most = d;
    int64_t held = device[most].peak_memory;
    free(device);
    if (fullest) *fullest = most;
    return held;
}

int
measure_fits(const struct plan *p, int64_t limit)
{
    int32_t d;
    int64_t held = measure_held(p, &d);
    if (held <= limit) return 0;
    struct str s = {0};
    plan_peak_print(p, d, 3, &s);
    int status = fail(E_MEMORY,
                      "graph: %s:%d would hold %lld bytes, %lld of them registers, and the limit is %lld; most of the "
                      "registers: %s",
                      device_kind_text(p->device[d].kind), (int)p->device[d].rank, (long long)held,
                      (long long)p->device[d].arena_bytes, (long long)limit, str_text(&s));
    str_free(&s);
    return status;
}

/* Returns the device that holds an operand of a task. */
static int32_t
holder_task(const struct plan *p, const struct task *t, const struct arg *a)
{
    if (a->kind == ARG_REG) return task_holder(&p->task[t->in[a->index].task]);
    const struct plan_part *part = &p->leaf_part[a->index];
    return device_at(p, p->program->leaf[part->index].layout->place, part->pos);
}

/* Counts the bytes of each device that other devices read. */
static void
bytes_out(const struct plan *p, struct rille_device_stats *device)
{
    for (int32_t i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        for (int m = 0; task_hop(t) && m < t->move.nstep; m++)
            for (int f = 0; f < t->move.step[m].nfrom; f++) {
                const struct box_from *from = &t->move.step[m].from[f];
                int32_t d = holder_task(p, t, &t->arg[from->arg]);
                if (d != task_holder(t)) device[d].bytes_out += view_bytes(from->view) * t->nact;
            }
    }
}

static void
keep_acts(struct rille_graph *g, const struct act_time *acts, int64_t n)
{
    const struct plan *p = g->runner->plan;
    GROW(g->act, g->nact + n, g->act_capacity);
    GROW(g->act_thread, g->nact + n, g->act_thread_capacity);
    if (n) memcpy(g->act + g->nact, acts, sizeof *acts * (size_t)n);
    for (int64_t i = g->nact; i < g->nact + n; i++) g->act_thread[i] = p->task[g->act[i].task].thread;
    g->nact += n;
}

void
measure_keep(struct rille_graph *g)
{
    const struct plan *p = g->runner->plan;
    const struct act_time *acts;
    int64_t elapsed_ns = g->s->cluster ? g->s->run_elapsed_ns : g->runner->run.elapsed_ns;
    g->stats.step_time = (double)elapsed_ns * 1e-9;
    if (!g->runner->run.timed) return;
    g->timed_call = g->ncall;
    g->nact = 0;
    if (g->s->cluster) {
        keep_acts(g, g->s->act, g->s->nact);
        g->begin_ns = g->s->run_begin_ns;
        return;
    }
    for (int t = 0; t < p->nthread; t++) {
        int64_t n = engine_acts(g->s->engine, t, &acts);
        keep_acts(g, acts, n);
    }
    g->begin_ns = g->runner->run.begin_ns;
}

/* Allocates statistics for the devices of all partitions, and counts how many devices can act at once. */
static int
find_devices(struct rille_graph *g, int npart, int *natonce)
{
    struct cluster_view x;
    int n = 0;
    *natonce = 0;
    for (int i = 0; i < npart; i++) {
        TRY(cluster_view_part(g->s, g->runner, i, &x));
        n += x.plan->ndevice;
        *natonce += plan_at_once(x.plan);
    }
    if (!g->stats.device) g->stats.device = ARENA_ARRAY(&g->arena, struct rille_device_stats, n + 1);
    g->stats.ndevice = n;
    return 0;
}

int
rille_graph_stats(const struct rille_graph *cg, struct rille_stats *out)
{
    TRY(face_graph(cg, __func__));
    TRY(face_given(out, "out", __func__));
    struct rille_graph *g = (struct rille_graph *)cg;
    struct rille_stats *st = &g->stats;
    TRY(session_settle(g->s));
    if (!g->s->cluster) st->step_time = (double)g->runner->run.elapsed_ns * 1e-9;
    struct cluster_view x;
    int npart = cluster_view_count(g->runner), natonce;
    double busy = 0;
    TRY(find_devices(g, npart, &natonce));
    st->nhost = cluster_view_hosts(g->runner);
    for (int i = 0, d = 0; i < npart; d += x.plan->ndevice, i++) {
        TRY(cluster_view_part(g->s, g->runner, i, &x));
        device_stats(g, &x, st->device + d);
        bytes_out(x.plan, st->device + d);
    }
    for (int d = 0; d < st->ndevice; d++) {
        busy += st->device[d].busy;
        st->device[d].idle = MAX(0.0, st->step_time - st->device[d].busy);
    }
    st->ideal = busy / natonce;
    st->bubble = st->step_time > 0 ? MAX(0.0, 1 - st->ideal / st->step_time) : 0;
    *out = *st;
    return 0;
}

/* ---- costs given by the user ---- */

int
chart_costs_check(const struct rille_chart_costs *k)
{
    const double of[] = {k->forward, k->backward, k->weight, k->move, k->update};
    for (size_t i = 0; i < countof(of); i++)
        if (!(of[i] >= 0 && of[i] < 1e6)) return fail(E_ARG, "chart: a cost is 0 to a million seconds, not %g", of[i]);
    if (!(k->jitter >= 0 && k->jitter <= 1))
        return fail(E_ARG, "chart: jitter is a share from 0 to 1, not %g", k->jitter);
    return 0;
}

int
schedule_search_costs_of(const struct rille_chart_costs *k, struct schedule_search_costs *out)
{
    TRY(chart_costs_check(k));
    if (k->forward < 1e-9) return fail(E_ARG, "graph: a schedule for costs wants the seconds of forward");
    *out = (struct schedule_search_costs){1e9 * k->forward, 1e9 * k->backward, 1e9 * k->weight, 1e9 * k->move, false};
    return 0;
}
