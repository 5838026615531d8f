/* workers.c - public functions for clusters: run as a worker, make keys, list workers. */
#include "actors/session/core/devices.h"
#include "actors/session/core/session.h"

#include "actors/cluster/controller/roster.h"
#include "actors/cluster/wire/key.h"
#include "actors/cluster/wire/link.h"
#include "actors/cluster/wire/machine.h"
#include "actors/cluster/transport/net_mpi.h"
#include "actors/cluster/worker/worker.h"
#include "actors/session/core/face.h"
#include "kernels/exec/identity.h"
#include "kernels/loaded/loaded.h"
#include "kernels/loaded/loaded_library.h"
#include "runtime/data/arena.h"
#include "runtime/base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)RILLE_KEY_NAME == (int)KEY_FILE, "RILLE_KEY_NAME must equal KEY_FILE");
_Static_assert((int)RILLE_SECRET == (int)CLUSTER_ID, "RILLE_SECRET must equal CLUSTER_ID");

int
rille_worker(const struct rille_worker_options *options)
{
    struct rille_worker_options copy, *o = &copy;
    TRY(face_options(options, UP_TO(rille_worker_options, die), sizeof copy, &copy, __func__));
    TRY(face_given(o->join, "the address to join", __func__));
    struct cluster_worker_options so = {.join = o->join,
                                        .key_file = o->key_file,
                                        .job = o->job,
                                        .root = o->root,
                                        .version = RILLE_VERSION,
                                        .rank = o->rank,
                                        .host = o->host,
                                        .wait_s = o->wait_seconds,
                                        .keep_s = o->keep_seconds,
                                        .link_s = o->link_seconds,
                                        .orphan_s = o->orphan_seconds,
                                        .check_ref = o->check_ref,
                                        .mpi = (enum carrier_mpi)o->mpi,
                                        .say = o->say,
                                        .signal = o->signal,
                                        .joined = o->joined,
                                        .die = o->die,
                                        .code = o->code};
    memcpy(so.secret, o->secret, sizeof so.secret);
    TRY(device_counts_of_worker(o->devices, true, &so.devices));
    TRY(session_collectives(o->collectives, o->devices, &so.devices.gpus));
    TRY(cuda_choose(&so.devices.gpus));
    TRY(loaded_from_environment());
    return cluster_serve(&so);
}

int
rille_mpi_library(const char **out)
{
    const struct mpi_plugin *plugin;
    TRY(face_given(out, "out", __func__));
    TRY(mpi_find(&plugin));
    *out = plugin->library;
    return 0;
}

int
rille_address(const char *text)
{
    bool local;
    TRY(face_given(text, "the address", __func__));
    return link_address(text, &local);
}

int
rille_limit_isa(const char *name)
{
    TRY(face_given(name, "the name", __func__));
    return kernels_limit_isa_by_name(name);
}

void
rille_sweep(const char *join)
{
    if (!face_given(join, "the address", __func__)) link_sweep(join);
}

int
rille_own_address(const char *host, char out[64])
{
    char to[LINK_ENDPOINT];
    TRY(face_given(host, "the host", __func__));
    TRY(face_given(out, "out", __func__));
    snprintf(to, sizeof to, strchr(host, ':') ? "tcp://[%s]:1" : "tcp://%s:1", host);
    if (machine_address(to, out)) return 0;
    char number[MACHINE_ADDRESS];
    return machine_number(host, strlen(host), number)
               ? fail(E_ARG, "this host has no network route to \"%s\": check the network", host)
               : fail(E_ARG, "the host name \"%s\" is unknown: check the name", host);
}

int
rille_devices(const char *text, bool here)
{
    struct device_counts d;
    TRY(face_given(text, "the devices", __func__));
    return device_counts_of_worker(text, here, &d);
}

int
rille_limits(struct rille_limits *out)
{
    TRY(face_given(out, "out", __func__));
    struct limits l = limits_now();
    out->cores = l.cores;
    out->memory = l.memory;
    memcpy(out->cores_from, l.cores_from, sizeof out->cores_from);
    memcpy(out->memory_from, l.memory_from, sizeof out->memory_from);
    return 0;
}

int
rille_key_new(char **out)
{
    struct str s = {0};
    TRY(face_given(out, "out", __func__));
    int status = key_new(&s);
    *out = s.text;
    return status;
}

int
rille_key_new_ranks(int workers, char **out)
{
    TRY(face_given(out, "out", __func__));
    struct str *text = must_alloc(sizeof *text * ((size_t)MAX(workers, 0) + 1));
    int status = key_new_ranks(workers, text);
    for (int i = 0; !status && i <= workers; i++) out[i] = text[i].text;
    free(text);
    return status;
}

int
rille_key_name(int rank, char out[RILLE_KEY_NAME])
{
    TRY(face_given(out, "out", __func__));
    key_file_name(rank, out);
    return 0;
}

bool
rille_was_lost(void)
{
    return err_last() == E_LOST;
}

int
rille_hear(struct rille_session *s, uint64_t signals)
{
    TRY(face_session(s, __func__));
    if (s->cluster) cluster_hear(s->cluster, signals);
    return 0;
}

int
rille_heard(struct rille_session *s, int *rank)
{
    if (face_session(s, __func__) || face_given(rank, "the rank", __func__)) return 0;
    *rank = -1;
    return s->cluster ? cluster_heard(s->cluster, rank) : 0;
}

int
rille_end_with(struct rille_session *s, int code)
{
    TRY(face_session(s, __func__));
    if (s->cluster) cluster_end_with(s->cluster, code);
    return 0;
}

/* Describes this process in *out as worker 0, for a session without workers. Returns false if i is not 0. */
static bool
alone(struct rille_session *s, int i, struct rille_worker_info *out)
{
    size_t n = 0;
    if (i != 0) return false;
    *out = (struct rille_worker_info){.rank = 0, .pid = (int)getpid(), .state = "ready"};
    machine_host(NULL, out->host);
    for (int k = 0; k < NDEVICE_KIND; k++)
        for (int32_t d = 0; k != DEV_META && d < s->devices.ndevice[k] && n + 16 < sizeof out->devices; d++)
            n += (size_t)snprintf(out->devices + n, sizeof out->devices - n, "%s%s:%d", n ? " " : "",
                                  device_kind_text(k), (int)d);
    return true;
}

bool
rille_worker_info(struct rille_session *s, int i, struct rille_worker_info *out)
{
    struct cluster_worker w;
    if (face_own(s, __func__) || face_given(out, "out", __func__)) return false;
    if (!s->cluster) return alone(s, i, out);
    if (!cluster_worker(s->cluster, i, &w)) return false;
    *out = (struct rille_worker_info){
        .rank = w.rank, .pid = w.pid, .cores = w.cores, .bytes = w.bytes, .heartbeat = w.heartbeat};
    out->acts = w.acts;
    out->busy = w.busy;
    out->slow = w.slow;
    out->silence = w.silence;
    out->hang = w.hang;
    out->link = w.link;
    out->own_link = w.own_link;
    out->own_orphan = w.own_orphan;
    memcpy(out->host, w.host, sizeof out->host);
    memcpy(out->devices, w.devices, sizeof out->devices);
    memcpy(out->state, w.state, sizeof out->state);
    return true;
}

bool
rille_in_cluster(struct rille_session *s)
{
    return !face_session(s, __func__) && s->cluster;
}
