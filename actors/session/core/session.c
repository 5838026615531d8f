/* session.c - errors, interrupts, modes and counters of a session. */
#include "actors/session/core/session.h"

#include "actors/cluster/controller/watch.h"
#include "actors/session/core/face.h"

#include "kernels/op/base/table.h"
#include "runtime/device/cuda_graph.h"
#include "runtime/base/stop.h"
#include "runtime/data/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *
rille_version(void)
{
    return RILLE_VERSION;
}

int
rille_version_number(void)
{
    return RILLE_VERSION_NUMBER;
}

/* ---- errors and interrupts ---- */

const char *
rille_error(void)
{
    return err_text();
}

int
rille_error_code(void)
{
    return err_last();
}

const char *
rille_error_line(void)
{
    return err_line();
}

int32_t
rille_error_module(void)
{
    return err_module();
}

const char *
rille_error_kind(void)
{
    return err_name(err_last());
}

void
rille_at(struct rille_session *s, const char *file, int line, const char *inside, int32_t module)
{
    if (face_session(s, __func__)) return;
    if (!file)
        s->context.at.file = NULL;
    else if (!s->context.at.file || strcmp(s->context.at.file, file))
        s->context.at.file = graph_file(s->graph, file);
    s->context.at.line = line;
    s->context.at.module = module;
    s->context.at.inside = inside ? graph_file(s->graph, inside) : NULL;
}

void
rille_interrupt(struct rille_session *s)
{
    if (face_own(s, __func__)) return;
    atomic_store(&s->interrupted, 1);
    engine_interrupt(s->engine);
    if (s->cluster) cluster_interrupt(s->cluster);
}

void
rille_stop_when(bool (*wanted)(void *arg), void *arg)
{
    stop_caller_ask(wanted, arg);
}

bool
rille_waiting_thread(struct rille_session *s, int thread, char *text, size_t size)
{
    if (face_own(s, __func__) || face_given(text, "the text", __func__) || size == 0 || thread < 0) return false;
    *text = '\0';
    return !s->cluster && engine_waiting_thread(s->engine, thread, text, size);
}

void
rille_status(struct rille_session *s, char *text, size_t size)
{
    struct str out = {0};
    if (face_own(s, __func__) || face_given(text, "the text", __func__) || size == 0) return;
    if (s->cluster) cluster_status(s->cluster, &out);
    snprintf(text, size, "%s", str_text(&out));
    str_free(&out);
}

void
rille_seed(struct rille_session *s, uint64_t seed)
{
    if (face_session(s, __func__)) return;
    s->random.seed = seed;
    s->random.ordinal = 0;
}

void
rille_random_state(struct rille_session *s, uint64_t *seed, uint64_t *count)
{
    if (face_session(s, __func__) || face_given(seed, "seed", __func__) || face_given(count, "count", __func__)) return;
    *seed = s->random.seed;
    *count = s->random.ordinal;
}

void
rille_random_restore(struct rille_session *s, uint64_t seed, uint64_t count)
{
    if (face_session(s, __func__)) return;
    s->random.seed = seed;
    s->random.ordinal = count;
}

void
rille_generation(struct rille_session *s)
{
    if (face_session(s, __func__)) return;
    s->generation++;
}

bool
rille_grad_mode(struct rille_session *s, bool on)
{
    if (face_session(s, __func__)) return false;
    bool was = s->context.grad;
    s->context.grad = on;
    return was;
}

bool
rille_recompute(struct rille_session *s, bool on)
{
    if (face_session(s, __func__)) return false;
    bool was = s->calls.region != 0;
    if (on != was) s->calls.region = on ? ++s->calls.nregion : 0;
    return was;
}

bool
rille_recomputes(const struct rille_session *s)
{
    return !face_session(s, __func__) && s->calls.region != 0;
}

/* ---- counters ---- */

/* Adds the bytes in the devices' memory pools, and the counts of the pools, to the counters. */
static void
count_pools(const struct rille_session *s, struct rille_counters *sum)
{
    for (int kind = 0; kind < NDEVICE_KIND; kind++)
        for (int32_t i = 0; i < s->devices.npool[kind]; i++) {
            if (!s->devices.pool[kind][i]) continue;
            struct pool_count p = pool_count(s->devices.pool[kind][i]);
            sum->live_bytes += (int64_t)p.live_bytes;
            sum->arena_bytes += (int64_t)p.arena_bytes;
            sum->allocations += p.nalloc;
        }
}

void
rille_count(struct rille_session *s, struct rille_counters *out)
{
    if (face_session(s, __func__) || face_given(out, "out", __func__)) return;
    struct engine_count e = engine_count(s->engine);
    e.runs += s->remote.runs;
    e.acts += s->remote.acts;
    struct graph_count g = graph_count(s->graph);
    struct cuda_graph_count c = cuda_graphs();
    *out = (struct rille_counters){.nodes = s->count.nodes,
                                   .compiles = s->count.compiles,
                                   .cache_hits = s->count.hits,
                                   .runs = e.runs,
                                   .acts = e.acts,
                                   .messages = e.messages,
                                   .thread_messages = e.thread_messages,
                                   .run_allocations = e.allocations,
                                   .live_values = g.vals,
                                   .live_nodes = g.nodes,
                                   .plan_bytes = (int64_t)s->cache.bytes,
                                   .generation = (int64_t)s->generation,
                                   .cuda_graphs = c.graphs,
                                   .cuda_replays = c.replays,
                                   .plans = s->cache.plans.n};
    count_pools(s, out);
}

int64_t
rille_external_bytes(struct rille_session *s)
{
    if (face_session(s, __func__)) return 0;
    struct rille_counters c;
    c.live_bytes = c.arena_bytes = c.allocations = 0;
    count_pools(s, &c);
    return c.live_bytes;
}

/* ---- functions for tests ---- */

void
rille_fail_act(struct rille_session *s, int64_t k)
{
    if (face_session(s, __func__)) return;
    engine_fail_act(s->engine, k);
}

void
rille_slow_op(struct rille_session *s, const char *op, double seconds)
{
    if (face_session(s, __func__)) return;
    engine_slow(s->engine, op ? op_find(op) : NULL, (int64_t)(seconds * 1e9));
}
