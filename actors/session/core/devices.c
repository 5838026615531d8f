/* devices.c - devices of a session, and their memory pools. */
#include "actors/session/core/devices.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

#include "actors/cluster/controller/roster.h"
#include "actors/cluster/controller/memories.h"
#include "runtime/device/cuda_kernel.h"
#include "runtime/data/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
session_collectives(const char *how, const char *devices, struct cuda_choice *gpus)
{
    if (!how || !strcmp(how, "own")) return 0;
    if (strcmp(how, "nccl")) return fail(E_ARG, "collectives must be \"own\" or \"nccl\", found \"%s\"", how);
    if (gpus->n == 0)
        return fail(E_PLACE, "collectives = \"nccl\" needs devices of kind cuda; \"%s\" has none",
                    devices ? devices : "cpu");
    gpus->nccl = true;
    return 0;
}

int
session_pool(struct rille_session *s, int kind, int rank, struct pool **out)
{
    struct session_devices *d = &s->devices;
    int32_t was = d->npool[kind];
    GROW(d->pool[kind], rank + 1, d->npool[kind]);
    for (int32_t i = was; i < d->npool[kind]; i++) d->pool[kind][i] = NULL;
    if (!d->pool[kind][rank]) {
        d->pool[kind][rank] = pool_new(kind, rank, d->memory_limit);
        if (!d->pool[kind][rank]) return err_last();
        pool_order(d->pool[kind][rank], &s->runs.order);
        struct pool_source source;
        if (s->cluster) {
            cluster_source(s->cluster, kind, rank, &source);
            pool_from(d->pool[kind][rank], &source);
        }
    }
    *out = d->pool[kind][rank];
    return 0;
}

/* Fails with the missing device and the list of the session's devices. */
static int
no_device(const struct rille_session *s, int kind, int32_t rank)
{
    const char *text = device_kind_text(kind);
    int n = (int)s->devices.ndevice[kind];
    char have[120];
    struct str remedy = {0};
    if (n == 0 && kind == DEV_CUDA)
        snprintf(have, sizeof have,
                 "no GPU; open the session with devices = \"cuda:all\" (on the command line: -d cuda:all)");
    else if (n == 0)
        snprintf(have, sizeof have, "no %s devices", text);
    else if (n == 1)
        snprintf(have, sizeof have, "only %s:0", text);
    else
        snprintf(have, sizeof have, "%s:0 to %s:%d", text, text, n - 1);
    if (kind != DEV_CUDA && !s->cluster)
        str_addf(&remedy, "; open the session with devices = \"%s:%lld\" (on the command line: -d %s:%lld)", text,
                 (long long)rank + 1, text, (long long)rank + 1);
    if (kind != DEV_CUDA && s->cluster)
        str_addf(&remedy, "; start more workers, or use more devices per worker: -d %s:N", text);
    int status =
        fail(E_PLACE, "placement: no device %s:%d: this session has %s%s", text, (int)rank, have, str_text(&remedy));
    str_free(&remedy);
    return status;
}

int
place_exists(struct rille_session *s, const struct place *p)
{
    for (int i = 0; i < p->nrank; i++)
        if (p->rank[i] >= s->devices.ndevice[p->kind]) return no_device(s, p->kind, p->rank[i]);
    return 0;
}

bool
rille_device_present(struct rille_session *s, const char *kind, int device)
{
    if (face_session(s, __func__) || face_given(kind, "the kind", __func__)) return false;
    int k = device_kind_parse(kind);
    if (k < 0 || device < 0 || device >= s->devices.ndevice[k]) return false;
    return !s->cluster || k == DEV_META || cluster_is_present(s->cluster, k, device);
}

int
rille_device_count(struct rille_session *s, const char *kind)
{
    if (face_session(s, __func__) || face_given(kind, "the kind", __func__)) return -1;
    int k = device_kind_parse(kind);
    return k < 0 ? -1 : s->devices.ndevice[k];
}

const char *
rille_default_kind(struct rille_session *s)
{
    if (face_session(s, __func__)) return NULL;
    return device_kind_text(s->devices.default_kind);
}

static int
thread_of(const struct rille_session *s, int kind, int rank)
{
    return s->cluster ? cluster_thread_of(s->cluster, kind, rank) : rank % MAX(1, s->devices.threads);
}

bool
rille_device_info(struct rille_session *s, int i, struct rille_device_info *out)
{
    if (face_session(s, __func__) || face_given(out, "out", __func__)) return false;
    for (int kind = 0; kind < NDEVICE_KIND; kind++)
        for (int32_t rank = 0; rank < s->devices.npool[kind]; rank++) {
            if (!s->devices.pool[kind][rank] || i-- > 0) continue;
            struct pool_count c = pool_count(s->devices.pool[kind][rank]);
            *out = (struct rille_device_info){.kind = device_kind_text(kind),
                                              .device = rank,
                                              .thread = thread_of(s, kind, rank),
                                              .live_bytes = (int64_t)c.live_bytes,
                                              .arena_bytes = (int64_t)c.arena_bytes,
                                              .peak_bytes = (int64_t)c.peak_bytes,
                                              .limit_bytes = (int64_t)s->devices.memory_limit};
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
