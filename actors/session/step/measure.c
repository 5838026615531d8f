/* measure.c - memory that devices hold during a step, and the act times of its last timed run. */
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
        if (over[part->index] && later) *held -= part->bytes; /* of the leaf, in the first one's buffer */
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
    int64_t elapsed_ns = g->s->cluster ? g->s->remote.elapsed_ns : g->runner->run.elapsed_ns;
    g->stats.step_time = (double)elapsed_ns * 1e-9;
    if (!g->runner->run.timed) return;
    g->timed_call = g->ncall;
    g->nact = 0;
    if (g->s->cluster) {
        keep_acts(g, g->s->remote.act, g->s->remote.nact);
        g->begin_ns = g->s->remote.begin_ns;
        return;
    }
    for (int t = 0; t < p->nthread; t++) {
        int64_t n = engine_acts(g->s->engine, t, &acts);
        keep_acts(g, acts, n);
    }
    g->begin_ns = g->runner->run.begin_ns;
}
