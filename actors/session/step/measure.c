/* measure.c - measures the memory that devices hold during a step, and keeps the act times of its last timed run. */
#include "actors/session/step/measure.h"
#include "actors/plan/memory/peak.h"
#include "actors/session/step/compiled.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

int
measure_device(const struct plan *p, const struct place *place, int pos)
{
    int d = 0;
    while (p->device[d].kind != place->kind || p->device[d].rank != place->rank[pos]) d++;
    return d;
}

void
measure_values(const struct plan *p, const bool *over, struct rille_device_stats *device)
{
    for (int32_t i = 0; i < p->nleaf_part; i++) {
        const struct plan_part *part = &p->leaf_part[i];
        const struct layout *l = p->program->leaf[part->index].layout;
        device[measure_device(p, l->place, part->pos)].peak_memory += part->bytes;
    }
    for (int32_t i = 0; i < p->nroot_part; i++) {
        const struct plan_part *part = &p->root_part[i];
        const struct prog_root *r = &p->program->root[part->index];
        const struct layout *l = ref_layout(p->program, r->ref);
        int64_t *held = &device[measure_device(p, l->place, part->pos)].peak_memory;
        bool later = p->shared[part->index] && layout_origin(l, part->pos) != part->pos;
        if (!over[part->index] && !later) *held += part->bytes;
        /* replicas share the leaf's buffer; only the first device with this shard counts the buffer */
        if (over[part->index] && later) *held -= part->bytes;
    }
}

int64_t
measure_held(const struct plan *p, int32_t *fullest)
{
    struct rille_device_stats *device = must_alloc(sizeof *device * (size_t)(p->ndevice + 1));
    int32_t most = 0;
    for (int d = 0; d < p->ndevice; d++) device[d].peak_memory = p->device[d].arena_bytes;
    measure_values(p, p->overwrites, device);
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
    int status =
        fail(E_MEMORY,
             "graph: %s:%d needs %lld bytes, %lld of them for tensors that the step computes, but memory_limit = %lld; "
             "raise it, or use micro_batches, recompute = true or offload",
             device_kind_text(p->device[d].kind), (int)p->device[d].rank, (long long)held,
             (long long)p->device[d].arena_bytes, (long long)limit);
    return plan_peak_blame(p, d, status);
}

static void
keep_acts(struct step_times *t, const struct plan *p, const struct act_time *acts, int64_t n)
{
    GROW(t->act, t->nact + n, t->act_capacity);
    GROW(t->act_thread, t->nact + n, t->act_thread_capacity);
    if (n) memcpy(t->act + t->nact, acts, sizeof *acts * (size_t)n);
    for (int64_t i = t->nact; i < t->nact + n; i++) t->act_thread[i] = p->task[t->act[i].task].thread;
    t->nact += n;
}

void
measure_keep(struct rille_graph *g)
{
    struct step_times *t = &g->times;
    const struct session_remote *remote = &g->s->remote;
    const struct plan *p = g->runner->plan;
    const struct act_time *acts;
    t->stats.step_time = (double)(g->s->cluster ? remote->elapsed_ns : g->runner->run.elapsed_ns) * 1e-9;
    if (!g->runner->run.timed) return;
    t->timed_call = t->ncall;
    t->nact = 0;
    if (g->s->cluster) {
        keep_acts(t, p, remote->act, remote->nact);
        t->begin_ns = remote->begin_ns;
        return;
    }
    for (int k = 0; k < p->nthread; k++) {
        int64_t n = engine_acts(g->s->engine, k, &acts);
        keep_acts(t, p, acts, n);
    }
    t->begin_ns = g->runner->run.begin_ns;
}
