/* session.c - devices of a session and their memory, placements and layouts, modes, counters. */
#include "actors/session/core/session.h"

#include "actors/cluster/controller/controller.h"
#include "actors/session/core/face.h"

#include "kernels/exec/kernel.h"
#include "kernels/op/lib/table.h"
#include "runtime/device/device_cuda.h"
#include "runtime/base/stop.h"
#include "runtime/base/str.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- devices ---- */

int
session_collectives(const char *how, const char *devices, struct cuda_choice *gpus)
{
    if (!how || !strcmp(how, "own")) return 0;
    if (strcmp(how, "nccl")) return fail(E_ARG, "collectives are \"own\" or \"nccl\", not \"%s\"", how);
    if (gpus->n == 0)
        return fail(E_PLACE, "collectives by nccl are for devices of kind cuda; \"%s\" has none",
                    devices ? devices : "cpu");
    gpus->nccl = true;
    return 0;
}

int
session_pool(struct rille_session *s, int kind, int rank, struct pool **out)
{
    int32_t was = s->npool[kind];
    GROW(s->pool[kind], rank + 1, s->npool[kind]);
    for (int32_t i = was; i < s->npool[kind]; i++) s->pool[kind][i] = NULL;
    if (!s->pool[kind][rank]) {
        s->pool[kind][rank] = pool_new(kind, rank, s->memory_limit);
        if (!s->pool[kind][rank]) return err_last();
        pool_order(s->pool[kind][rank], &s->work);
        struct pool_source source;
        if (s->cluster) {
            cluster_source(s->cluster, kind, rank, &source);
            pool_from(s->pool[kind][rank], &source);
        }
    }
    *out = s->pool[kind][rank];
    return 0;
}

static int
no_device(const struct rille_session *s, int kind, int32_t rank)
{
    const char *text = device_kind_text(kind);
    int n = (int)s->ndevice[kind];
    if (n == 0 && kind == DEV_CUDA)
        return fail(E_PLACE,
                    "placement: there is no device %d of kind cuda: this session has no GPU; start it with -d cuda:all",
                    (int)rank);
    if (n == 0)
        return fail(E_PLACE,
                    "placement: there is no device %d of kind %s: this session has none; start it with -d %s:N",
                    (int)rank, text, text);
    if (n == 1)
        return fail(E_PLACE, "placement: there is no device %d of kind %s: this session has the device %s:0 alone",
                    (int)rank, text, text);
    return fail(E_PLACE, "placement: there is no device %d of kind %s: this session has devices %s:0 to %s:%d",
                (int)rank, text, text, text, n - 1);
}

int
place_exists(struct rille_session *s, const struct place *p)
{
    for (int i = 0; i < p->nrank; i++)
        if (p->rank[i] >= s->ndevice[p->kind]) return no_device(s, p->kind, p->rank[i]);
    return 0;
}

int
rille_device_count(struct rille_session *s, const char *kind)
{
    if (face_session(s, __func__) || face_given(kind, "the kind", __func__)) return -1;
    int k = device_kind_parse(kind);
    return k < 0 ? -1 : s->ndevice[k];
}

const char *
rille_default_kind(struct rille_session *s)
{
    if (face_session(s, __func__)) return NULL;
    return device_kind_text(s->default_kind);
}

static int
thread_of(const struct rille_session *s, int kind, int rank)
{
    return s->cluster ? cluster_thread_of(s->cluster, kind, rank) : rank % MAX(1, s->threads);
}

bool
rille_device_info(struct rille_session *s, int i, struct rille_device_info *out)
{
    if (face_session(s, __func__) || face_given(out, "out", __func__)) return false;
    for (int kind = 0; kind < NDEVICE_KIND; kind++)
        for (int32_t rank = 0; rank < s->npool[kind]; rank++) {
            if (!s->pool[kind][rank] || i-- > 0) continue;
            struct pool_count c = pool_count(s->pool[kind][rank]);
            *out = (struct rille_device_info){.kind = device_kind_text(kind),
                                              .device = rank,
                                              .thread = thread_of(s, kind, rank),
                                              .live_bytes = (int64_t)c.live_bytes,
                                              .arena_bytes = (int64_t)c.arena_bytes,
                                              .peak_bytes = (int64_t)c.peak_bytes,
                                              .limit_bytes = (int64_t)s->memory_limit};
            return true;
        }
    return false;
}

int
rille_gpu_info(struct rille_session *s, int device, struct rille_gpu_info *out)
{
    struct cuda_gpu gpu;
    struct str kernels = {0};
    if (face_session(s, __func__) || face_given(out, "out", __func__)) return err_last();
    int status = s->cluster ? cluster_gpu(s->cluster, device, &gpu, &kernels) : cuda_gpu_of(device, &gpu);
    if (!status && !s->cluster) cuda_kernel_about(&kernels);
    if (!status) {
        *out = (struct rille_gpu_info){.memory = (int64_t)gpu.bytes, .major = gpu.major, .minor = gpu.minor};
        memcpy(out->name, gpu.name, sizeof out->name);
        snprintf(out->kernels, sizeof out->kernels, "%s", str_text(&kernels));
    }
    str_free(&kernels);
    return status;
}

/* ---- errors, interrupts ---- */

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

const char *
rille_error_kind(void)
{
    return err_name(err_last());
}

void
rille_at(struct rille_session *s, const char *file, int line, const char *inside)
{
    if (face_session(s, __func__)) return;
    if (!file)
        s->context.at.file = NULL;
    else if (!s->context.at.file || strcmp(s->context.at.file, file))
        s->context.at.file = graph_file(s->graph, file);
    s->context.at.line = line;
    s->context.at.inside = inside ? graph_file(s->graph, inside) : NULL;
}

void
rille_interrupt(struct rille_session *s)
{
    if (face_given(s, "the session", __func__)) return;
    atomic_store(&s->interrupted, 1);
    engine_interrupt(s->engine);
    if (s->cluster) cluster_interrupt(s->cluster);
}

void
rille_stop_when(bool (*wanted)(void *arg), void *arg)
{
    stop_caller_ask(wanted, arg);
}

static bool
doing_thread(const struct rille_session *s, int thread, char *text, size_t size)
{
    return s->cluster ? remote_doing(s, thread, text, size) : engine_doing_thread(s->engine, thread, text, size);
}

void
rille_doing(struct rille_session *s, char *text, size_t size)
{
    if (face_given(s, "the session", __func__) || face_given(text, "the text", __func__) || size == 0) return;
    for (int t = 0; doing_thread(s, t, text, size); t++)
        if (*text) return;
    *text = '\0';
    if (s->cluster ? cluster_is_running(s->cluster) : engine_is_running(s->engine)) strncat(text, "a run", size - 1);
}

bool
rille_doing_thread(struct rille_session *s, int thread, char *text, size_t size)
{
    if (face_given(s, "the session", __func__) || face_given(text, "the text", __func__) || size == 0 || thread < 0)
        return false;
    return doing_thread(s, thread, text, size);
}

bool
rille_waiting_thread(struct rille_session *s, int thread, char *text, size_t size)
{
    if (face_given(s, "the session", __func__) || face_given(text, "the text", __func__) || size == 0 || thread < 0)
        return false;
    *text = '\0';
    return !s->cluster && engine_waiting_thread(s->engine, thread, text, size);
}

void
rille_seed(struct rille_session *s, uint64_t seed)
{
    if (face_session(s, __func__)) return;
    s->seed = seed;
    s->ordinal = 0;
}

void
rille_random_state(struct rille_session *s, uint64_t *seed, uint64_t *count)
{
    if (face_session(s, __func__) || face_given(seed, "seed", __func__) || face_given(count, "count", __func__)) return;
    *seed = s->seed;
    *count = s->ordinal;
}

void
rille_random_restore(struct rille_session *s, uint64_t seed, uint64_t count)
{
    if (face_session(s, __func__)) return;
    s->seed = seed;
    s->ordinal = count;
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
    bool was = s->region != 0;
    if (on != was) s->region = on ? ++s->nregion : 0;
    return was;
}

bool
rille_recomputes(const struct rille_session *s)
{
    return !face_session(s, __func__) && s->region != 0;
}

/* ---- counters ---- */

void
rille_count(struct rille_session *s, struct rille_counters *out)
{
    if (face_session(s, __func__) || face_given(out, "out", __func__)) return;
    struct engine_count e = engine_count(s->engine);
    e.runs += s->remote_runs;
    e.acts += s->remote_acts;
    struct graph_count g = graph_count(s->graph);
    struct cuda_graph_count c = cuda_graphs();
    *out = (struct rille_counters){.nodes = s->nodes,
                                   .compiles = s->compiles,
                                   .cache_hits = s->hits,
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
    for (int kind = 0; kind < NDEVICE_KIND; kind++)
        for (int32_t i = 0; i < s->npool[kind]; i++) {
            if (!s->pool[kind][i]) continue;
            struct pool_count p = pool_count(s->pool[kind][i]);
            out->live_bytes += (int64_t)p.live_bytes;
            out->arena_bytes += (int64_t)p.arena_bytes;
            out->allocations += p.nalloc;
        }
}

int64_t
rille_external_bytes(struct rille_session *s)
{
    if (face_session(s, __func__)) return 0;
    struct rille_counters c;
    rille_count(s, &c);
    return c.live_bytes;
}

/* ---- placements and layouts ---- */

int
rille_place(struct rille_session *s, const char *kind, int naxis, const int32_t *sizes, const int32_t *ranks,
            const struct rille_place **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(kind, "the kind", __func__));
    TRY(face_given(sizes, "the list of sizes", __func__));
    TRY(face_given(ranks, "the list of ranks", __func__));
    TRY(face_given(out, "out", __func__));
    const struct place *p;
    int k = device_kind_parse(kind);
    if (k < 0) return err_last();
    TRY(place_new(s->atlas, k, naxis, sizes, ranks, &p));
    TRY(place_exists(s, p));
    *out = (const struct rille_place *)p;
    return 0;
}

const char *
rille_place_kind(const struct rille_place *p)
{
    if (face_given(p, "the placement", __func__)) return NULL;
    return device_kind_text(((const struct place *)p)->kind);
}

int
rille_place_axes(const struct rille_place *rp, int32_t sizes[RILLE_AXES])
{
    if (face_given(rp, "the placement", __func__) || face_given(sizes, "the list of sizes", __func__)) return 0;
    const struct place *p = (const struct place *)rp;
    for (int a = 0; a < p->naxis; a++) sizes[a] = p->axis[a];
    return p->naxis;
}

int
rille_place_ranks(const struct rille_place *rp, const int32_t **ranks)
{
    if (face_given(rp, "the placement", __func__) || face_given(ranks, "ranks", __func__)) return 0;
    const struct place *p = (const struct place *)rp;
    *ranks = p->rank;
    return p->nrank;
}

char *
rille_place_text(const struct rille_place *p)
{
    if (face_given(p, "the placement", __func__)) return NULL;
    struct str s = {0};
    place_print((const struct place *)p, &s);
    return s.text;
}

const struct layout *
session_layout(struct rille_session *s)
{
    const struct place *p;
    int32_t one = 1, zero = 0;
    int status = place_new(s->atlas, s->default_kind, 1, &one, &zero, &p);
    assert(!status);
    UNUSED(status);
    return layout_broadcast(s->atlas, p);
}

int
layout_summed(struct atlas *a, const struct layout *l, const struct layout **out)
{
    struct sbp whole[MAX_AXIS];
    for (int i = 0; i < l->place->naxis; i++)
        whole[i] = l->sbp[i].kind == SBP_P ? (struct sbp){.kind = SBP_B} : l->sbp[i];
    return layout_new(a, l->place, whole, l->order, out);
}

static int
face_texts(int n, const char *const *text, const char *who)
{
    if (n < 1 || !text) return fail(E_ARG, "%s: there is no sbp", who);
    for (int i = 0; i < n; i++) TRY(face_given(text[i], "an sbp", who));
    return 0;
}

int
rille_layout(struct rille_session *s, const struct rille_place *rp, int n, const char *const *sbp, const int *order,
             int ndim, const struct rille_layout **out)
{
    TRY(face_session(s, __func__));
    TRY(face_place(s, rp, __func__));
    TRY(face_texts(n, sbp, __func__));
    TRY(face_given(out, "out", __func__));
    const struct place *p = (const struct place *)rp;
    const struct layout *l;
    if (n == 1 && !order && (p->naxis > 1 || strchr(sbp[0], '('))) {
        TRY(layout_parse(s->atlas, p, sbp[0], ndim, &l));
        *out = (const struct rille_layout *)l;
        return 0;
    }
    struct sbp entry[MAX_AXIS];
    uint8_t cut[MAX_AXIS];
    if (n != p->naxis)
        return fail(E_SBP, "%d entr%s for a mesh of %d ax%s; give one entry for each mesh axis", n,
                    n == 1 ? "y" : "ies", p->naxis, p->naxis == 1 ? "is" : "es");
    for (int a = 0; a < n; a++) {
        TRY(sbp_parse(sbp[a], ndim, &entry[a]));
        if (!order) continue;
        if (order[a] < 0 || order[a] >= n)
            return fail(E_SBP, "order names mesh axis %d of a mesh of %d axes", order[a], n);
        cut[a] = (uint8_t)order[a];
    }
    TRY(layout_new(s->atlas, p, entry, order ? cut : NULL, &l));
    *out = (const struct rille_layout *)l;
    return 0;
}

const struct rille_place *
rille_layout_place(const struct rille_layout *l)
{
    if (face_given(l, "the layout", __func__)) return NULL;
    return (const struct rille_place *)((const struct layout *)l)->place;
}

const char *
rille_layout_text(struct rille_session *s, const struct rille_layout *rl)
{
    if (face_session(s, __func__) || face_layout(s, rl, __func__)) return NULL;
    const struct layout *l = (const struct layout *)rl;
    if (l->id >= s->ntext) {
        GROW(s->text, l->id + 1, s->text_capacity);
        memset(s->text + s->ntext, 0, sizeof *s->text * (size_t)(l->id + 1 - s->ntext));
        s->ntext = l->id + 1;
    }
    if (s->text[l->id]) return s->text[l->id];
    struct str text = {0};
    layout_print(l, &text);
    return s->text[l->id] = text.text;
}

/* ---- for tests ---- */

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
