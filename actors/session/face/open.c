/* open.c - opens and closes sessions. */
#include "actors/cluster/controller/memories.h"
#include "actors/session/build/build_node.h"
#include "actors/session/build/derive.h"
#include "actors/session/build/own_gradient.h"
#include "actors/session/scan/scan_grad.h"
#include "actors/session/build/update.h"
#include "actors/session/core/cost.h"
#include "actors/session/core/devices.h"
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"
#include "actors/session/durable/kept.h"
#include "actors/session/durable/snapshot.h"
#include "actors/session/io/dlpack.h"
#include "actors/session/run/cache.h"
#include "actors/session/run/collect.h"
#include "actors/session/run/open_run.h"
#include "actors/session/run/run.h"
#include "actors/session/batch/batch_calls.h"
#include "actors/session/step/compiled.h"

#include "kernels/loaded/loaded.h"
#include "kernels/loaded/loaded_library.h"
#include "runtime/base/limits.h"
#include "runtime/data/str.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int
cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

/* Returns the option `bus`, or RILLE_BUS; NULL: neither is set. */
static const char *
bus_text(const struct rille_options *o)
{
    return o && o->bus ? o->bus : getenv("RILLE_BUS");
}

static int
set_collectives(const struct rille_options *o, struct cuda_choice *gpus)
{
    bool text = o->devices || !o->cluster;
    struct cuda_choice any = {.n = 1}; /* assumes any GPUs, because workers have not yet reported theirs */
    TRY(session_collectives(o->collectives, o->devices, text && !gpus->all ? gpus : &any));
    const char *bus = bus_text(o);
    if (gpus->nccl && bus && !strncmp(bus, "sim", 3))
        return fail(E_STATE, "collectives = \"nccl\" needs several threads, but the simulator (RILLE_BUS=sim) has one");
    return 0;
}

static int
set_devices(struct rille_session *s, const struct rille_options *o)
{
    s->devices.ndevice[DEV_META] = INT_MAX;
    s->devices.default_kind = DEV_CPU;
    struct device_counts d = {0};
    if (!o || !o->devices) {
        s->devices.ndevice[DEV_CPU] = MAX(8, cores());
        return o ? set_collectives(o, &d.gpus) : 0;
    }
    TRY(device_counts_parse(o->devices, !o->cluster, &d));
    TRY(set_collectives(o, &d.gpus));
    if (o->cluster) return 0; /* with workers, open_cluster checks the workers' reports */
    TRY(cuda_choose(&d.gpus));
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (k != DEV_META) s->devices.ndevice[k] = d.n[k];
    s->devices.default_kind = d.first;
    return s->devices.ndevice[DEV_CPU] || s->devices.default_kind != DEV_CPU
               ? 0
               : fail(E_PLACE, "devices: expected a list such as \"cpu:8\" or \"cuda:all\", found \"%s\"", o->devices);
}

/* Sets *out to the number of device threads: RILLE_THREADS, else one per core that the process may use. */
static int
read_threads(int *out)
{
    const char *text = getenv("RILLE_THREADS");
    char *end;
    *out = limits_now().cores;
    if (!text || !*text) return 0;
    long n = strtol(text, &end, 10);
    if (*end || n < 0)
        return fail(E_ARG, "RILLE_THREADS must be a number of threads, or 0 for one per core, found '%s'", text);
    if (n) *out = (int)MIN(n, MOST_THREADS);
    return 0;
}

static int
open_engine(struct rille_session *s, const struct rille_options *o)
{
    const char *bus = bus_text(o);
    struct engine_options e = {.bus = &bus_zmq};
    if (bus && *bus) TRY(bus_parse(bus, &e.bus, &e.seed));
    TRY(read_threads(&e.threads));
    if (o && o->threads > 0) e.threads = MIN(o->threads, MOST_THREADS);
    e.spin_ns = e.threads <= limits_now().cores ? 50000 : 0;
    s->devices.threads = e.threads;
    s->runs.poison = !e.bus->threaded;
    return engine_new(&e, &s->engine);
}

/* Checks that all workers use NCCL, because users may start workers without NCCL. */
static int
check_nccl_devices(const struct rille_session *s)
{
    if (!s->devices.ndevice[DEV_CUDA])
        return fail(E_PLACE, "collectives = \"nccl\" needs devices of kind cuda; the workers have none");
    if (device_kind(DEV_CUDA)->flags & COLLECTS) return 0;
    return fail(E_PLACE,
                "collectives = \"nccl\": not all workers use NCCL; start each with rille worker --collectives nccl");
}

/* Opens the cluster. Workers then own all devices. */
static int
open_cluster(struct rille_session *s, const struct rille_workers *workers, bool nccl)
{
    struct rille_workers copy, *o = &copy;
    TRY(face_options(workers, UP_TO(rille_workers, arg), sizeof copy, &copy, "rille_open: cluster"));
    struct cluster_options co = {.world = o->workers,
                                 .least = o->least,
                                 .restarts = o->restarts,
                                 .restarts_s = o->restart_seconds,
                                 .bind = o->bind,
                                 .key_file = o->key_file,
                                 .job = o->job,
                                 .root = o->root,
                                 .version = RILLE_VERSION,
                                 .threads = s->devices.threads,
                                 .start = o->start,
                                 .started = o->started,
                                 .devices = o->devices,
                                 .takes_over = o->takes_over,
                                 .silence_s = o->silence_seconds,
                                 .link_s = o->link_seconds,
                                 .hang_s = o->hang_seconds,
                                 .host = o->host,
                                 .say = o->say,
                                 .arg = o->arg};
    if (s->runs.poison) return fail(E_ARG, "the simulator (RILLE_BUS=sim) is a single process without workers");
    TRY(cluster_open(&co, &s->cluster));
    run_renew_devices(s);
    s->devices.default_kind = cluster_devices(s->cluster)->first;
    return nccl ? check_nccl_devices(s) : 0;
}

static void
live_release(struct rille_live *live)
{
    rille_live_free(&live);
}

int
rille_open(const struct rille_options *options, struct rille_session **out)
{
    struct rille_options copy, *o = options ? &copy : NULL;
    TRY(face_given(out, "out", __func__));
    if (o) TRY(face_options(options, UP_TO(rille_options, cluster), sizeof copy, &copy, __func__));
    struct rille_session *s = must_alloc(sizeof *s);
    s->owner = face_thread();
    s->process = face_process();
    s->atlas = atlas_new();
    s->calls.reverse_body = scan_gradient;
    s->graph = graph_new();
    pthread_mutex_init(&s->totals.lock, NULL);
    graph_on_orphan(s->graph, tensor_orphan);
    graph_on_live(s->graph, live_release);
    graph_on_own_gradient(s->graph, own_gradient_release);
    work_order_begin(s);
    s->context = (struct call_context){.s = s, .grad = true};
    s->random.seed = o ? o->seed : 0;
    s->devices.memory_limit = o ? o->memory_limit : 0;
    if (o && o->check_ref) kernel_check(true);
    s->runs.find_nan = o && o->check_nan;
    int status = loaded_from_environment();
    if (!status) status = set_devices(s, o);
    if (!status) status = cost_read(o ? o->cost : NULL, &s->devices.cost, &s->devices.rates);
    if (!status) status = open_engine(s, o);
    if (!status && o && o->cluster)
        status = open_cluster(s, o->cluster, o->collectives && !strcmp(o->collectives, "nccl"));
    if (status) rille_close(&s);
    *out = s;
    return status;
}

int
rille_adopt(struct rille_session *s)
{
    TRY(face_own(s, __func__));
    if (s->trace.now) return fail(E_STATE, "adopt: a step is being traced; end the trace first");
    session_drain(s);
    s->owner = face_thread();
    return 0;
}

/* Numbers of handles that the host program did not free, for a message. */
struct forgotten {
    struct str names;
    int n;
};

static void
forget(struct forgotten *f, const char *what, const char *name)
{
    enum { NAMED = 8 };
    if (f->n < NAMED) str_addf(&f->names, "%s%s%s%s", f->n ? ", " : "", what, name ? " " : "", name ? name : "");
    if (f->n == NAMED) str_add(&f->names, ", ...");
    f->n++;
}

static void
forget_tensor(struct forgotten *f, const struct rille_tensor *t)
{
    struct str type = {0};
    type_print(&t->val->type, &type);
    forget(f, str_text(&type), t->name);
    str_free(&type);
}

/* Frees the gradients first, because the handles of tensors refer to gradients. Then frees the tensors that the
 * host program did not free, and counts these tensors in f. */
static void
forget_tensors(struct rille_session *s, struct forgotten *f)
{
    for (struct rille_tensor *t = s->handles.tensors; t; t = t->next) {
        if (t->grad) t->grad->nref--;
        t->grad = NULL;
    }
    while (s->handles.tensors) {
        struct rille_tensor *t = s->handles.tensors;
        if (t->nref > 0) forget_tensor(f, t);
        t->nref = 1;
        rille_tensor_free(&t);
    }
}

/* Frees all remaining handles. If the host program left any handles, lists them. */
static int
forget_handles(struct rille_session *s)
{
    struct forgotten f = {0};
    rille_trace_abort(s);
    batch_calls_end(s);
    while (s->handles.graphs) {
        struct rille_graph *g = s->handles.graphs;
        forget(&f, "a graph", NULL);
        rille_graph_free(&g);
    }
    forget_tensors(s, &f);
    int status = f.n == 0 ? 0
                          : fail(E_STATE, "close: %d handle%s still open, and freed now: %s", f.n,
                                 f.n == 1 ? " was" : "s were", str_text(&f.names));
    str_free(&f.names);
    return status;
}

int
rille_close(struct rille_session **sp)
{
    TRY(face_given(sp, "the pointer to the session", __func__));
    if (!*sp) return 0;
    TRY(face_session(*sp, __func__));
    struct rille_session *s = *sp;
    *sp = NULL;
    session_drain(s);
    snapshot_free(&s->snapshots.taken);
    snapshot_free(&s->snapshots.last);
    snapshot_free(&s->snapshots.before);
    str_free(&s->snapshots.passed_over);
    str_free(&s->snapshots.wrong);
    str_free(&s->snapshots.loss.place);
    str_free(&s->remote.place);
    doubt_free(&s->snapshots.doubt);
    kept_free(&s->snapshots.kept);
    int status = forget_handles(s);
    build_settle(s, 0);
    updates_forget(s);
    engine_free(&s->engine);
    cache_free(&s->cache);
    free(s->remote.act);
    memo_free(&s->memo);
    free(s->stages.place);
    collection_free(&s->collection);
    graph_free(&s->graph);
    bool kept = dlpack_holds(s);
    for (int kind = 0; kind < NDEVICE_KIND; kind++) {
        for (int32_t i = 0; i < s->devices.npool[kind]; i++)
            if (s->devices.pool[kind][i] && kept)
                pool_leave(&s->devices.pool[kind][i]);
            else if (s->devices.pool[kind][i])
                pool_free(&s->devices.pool[kind][i]);
        free(s->devices.pool[kind]);
    }
    dlpack_close(s);
    cluster_close(&s->cluster);
    for (int32_t i = 0; i < s->texts.n; i++) free(s->texts.text[i]);
    free(s->texts.text);
    while (s->handles.lives) {
        struct rille_live *live = s->handles.lives;
        live->nref = 1;
        rille_live_free(&live);
    }
    atlas_free(&s->atlas);
    arena_fini(&s->calls.scratch);
    str_free(&s->runs.inspected);
    claims_free(&s->claims);
    free(s->runs.order.failed);
    free(s->calls.fresh);
    pthread_mutex_destroy(&s->totals.lock);
    free(s->updates.update);
    free(s->updates.watch);
    handles_free(&s->handles);
    free(s);
    err_at(NULL, 0);
    return status;
}
