/* stats.c - collects statistics of a compiled step by device: busy time, traffic and memory. */
#include "actors/act/run/actor.h"
#include "actors/plan/memory/peak.h"
#include "actors/plan/outline/estimate.h"
#include "actors/plan/sim/account.h"
#include "actors/session/core/face.h"
#include "actors/session/run/cluster_view.h"
#include "actors/session/run/open_run.h"
#include "actors/session/step/compiled.h"
#include "actors/session/step/measure.h"

/* Returns the number of bytes that a task reads from other devices in a run. Without workers, the actors count these
 * bytes themselves. */
static int64_t
task_received(const struct plan *p, int32_t i)
{
    const struct task *t = &p->task[i];
    return t->kind->flags & KIND_MOVE ? t->move.received * t->nact : 0;
}

/* Returns the text that lists the largest tensors. The text is made once, because a plan does not change. */
static const char *
live_ranges_text(struct rille_graph *g, const struct plan *p, int32_t device, const char *known)
{
    struct str s = {0};
    if (known) return known;
    plan_peak_print(p, device, 5, &s);
    const char *text = arena_strdup(&g->arena, str_text(&s));
    str_free(&s);
    return text;
}

static void
count_flops(const struct plan *p, struct rille_device_stats *device)
{
    struct arena tmp = {0};
    double *flops = ARENA_ARRAY(&tmp, double, p->ndevice + 1);
    plan_flops(p, flops);
    for (int d = 0; d < p->ndevice; d++) device[d].flops = flops[d];
    arena_fini(&tmp);
}

static void
device_stats(struct rille_graph *g, const struct cluster_view *x, struct rille_device_stats *device)
{
    const struct plan *p = x->plan;
    for (int d = 0; d < p->ndevice; d++)
        device[d] = (struct rille_device_stats){.tenants = live_ranges_text(g, p, d, device[d].tenants),
                                                .kind = device_kind_text(p->device[d].kind),
                                                .device = p->device[d].rank,
                                                .busy = (double)x->actors->busy_ns[d] * 1e-9,
                                                .peak_memory = p->device[d].arena_bytes};
    count_flops(p, device);
    measure_values(p, g->runner->donate, device);
    for (int32_t i = 0; i < p->ntask; i++)
        device[task_holder(&p->task[i])].bytes_in += g->s->cluster ? task_received(p, i) : x->actors->actor[i].received;
}

/* Returns the device that holds an operand of a task. */
static int32_t
holder_task(const struct plan *p, const struct task *t, const struct arg *a)
{
    if (a->kind == ARG_REG) return task_holder(&p->task[t->in[a->index].task]);
    const struct plan_part *part = &p->leaf_part[a->index];
    return measure_device(p, p->program->leaf[part->index].layout->place, part->pos);
}

/* Counts, for each device, the bytes of this device that other devices read. */
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

/* Allocates statistics for the devices of all hosts. Counts how many devices can act at the same time. */
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
    if (!g->times.stats.device) g->times.stats.device = ARENA_ARRAY(&g->arena, struct rille_device_stats, n + 1);
    g->times.stats.ndevice = n;
    return 0;
}

int
rille_graph_stats(const struct rille_graph *cg, struct rille_stats *out)
{
    TRY(face_graph(cg, __func__));
    TRY(face_given(out, "out", __func__));
    struct rille_graph *g = (struct rille_graph *)cg;
    struct rille_stats *st = &g->times.stats;
    TRY(session_settle(g->s));
    if (!g->s->cluster) st->step_time = (double)g->runner->run.elapsed_ns * 1e-9;
    struct cluster_view x;
    int npart = cluster_view_count(g->runner), natonce;
    double busy = 0, flops = 0;
    TRY(find_devices(g, npart, &natonce));
    st->nhost = cluster_view_hosts(g->runner);
    for (int i = 0, d = 0; i < npart; d += x.plan->ndevice, i++) {
        TRY(cluster_view_part(g->s, g->runner, i, &x));
        device_stats(g, &x, st->device + d);
        bytes_out(x.plan, st->device + d);
    }
    for (int d = 0; d < st->ndevice; d++) {
        busy += st->device[d].busy;
        flops += st->device[d].flops;
        st->device[d].idle = MAX(0.0, st->step_time - st->device[d].busy);
    }
    st->flops = flops;
    st->peak = g->s->devices.rates.measured ? g->s->devices.rates.flops_per_ns * 1e9 * natonce : 0;
    st->ideal = busy / natonce;
    st->bubble = st->step_time > 0 ? MAX(0.0, 1 - st->ideal / st->step_time) : 0;
    *out = *st;
    return 0;
}
