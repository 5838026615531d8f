/* flow.c - the streams of a thread, and storage for acts in flight on them. */
#include "actors/act/run/flow.h"

#include "actors/act/run/actor.h"
#include "actors/act/run/engine_inner.h"

#include "runtime/data/arena.h"
#include "runtime/device/communicator.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

static int
flow_new(struct flow *f, int kind, int rank, int role, bool driven, struct worker *owner)
{
    *f = (struct flow){.kind = kind, .rank = rank, .role = role, .driven = driven};
    TRY(device_kind(kind)->stream_new(rank, role, driven, &f->stream));
    f->tells = !driven && stream_tell(f->stream, worker_told, owner);
    f->act = must_alloc(sizeof *f->act * FLOW_ACTS);
    return 0;
}

/* Reserves storage for `naddress` addresses for each act in flight of a stream. */
static void
flow_capacity(struct flow *f, int32_t naddress)
{
    if (naddress <= f->naddress) return;
    assert(flow_empty(f));
    f->naddress = naddress;
    f->address = must_realloc(f->address, sizeof *f->address * (size_t)naddress * FLOW_ACTS);
}

static struct flow *
find_flow(const struct worker *w, const struct plan_device *d, int role, const struct communicator *edge)
{
    for (int i = 0; i < w->flows.nflow; i++) {
        struct flow *f = &w->flows.flow[i];
        if (f->kind == d->kind && f->rank == d->rank && f->role == role && f->edge == edge) return f;
    }
    return NULL;
}

/* Opens a stream of this role on the device, unless the worker has such a stream. */
static int
add_flow(struct worker *w, const struct plan_device *d, int role, const struct communicator *edge, bool driven)
{
    if (find_flow(w, d, role, edge)) return 0;
    w->flows.flow = must_realloc(w->flows.flow, sizeof *w->flows.flow * (size_t)(w->flows.nflow + 1));
    TRY(flow_new(&w->flows.flow[w->flows.nflow], d->kind, d->rank, role, driven, w));
    w->flows.flow[w->flows.nflow++].edge = edge;
    return 0;
}

/* Returns the point-to-point link (NCCL send/recv) of a direct channel whose task is on this thread; NULL for other
 * channels. */
static const struct communicator *
edge_at(const struct worker *w, const struct plan *p, const struct channel *c)
{
    const struct task *t = &p->task[c->task];
    return c->direct && t->thread == w->id ? t->move.member->in : NULL;
}

/* Opens the streams that the plan needs on the worker's devices and that do not exist yet. */
static int
make_flows(struct worker *w, const struct run *run, bool driven)
{
    const struct plan *p = run->plan;
    for (int32_t i = 0; i < p->ndevice; i++) {
        const struct plan_device *d = &p->device[i];
        if (d->thread != w->id || !device_kind(d->kind)->stream_new) continue;
        for (int role = 0; role < STREAM_SEND; role++)
            if (run->actors->roles[i] >> role & 1) TRY(add_flow(w, d, role, NULL, driven));
    }
    for (int32_t c = 0; c < p->nchannel; c++) {
        const struct communicator *edge = edge_at(w, p, &p->channel[c]);
        const struct task *t = &p->task[p->channel[c].task];
        if (edge) TRY(add_flow(w, &p->device[t->device], t->stream, edge, driven));
    }
    return 0;
}

/* Finds the stream of each direct channel, which is a point-to-point link. Reserves room in the stream's queue for
 * the acts that the channel's tasks may queue. */
static void
find_edges(struct worker *w, const struct run *run)
{
    const struct plan *p = run->plan;
    if (p->nchannel > w->flows.channel_capacity) {
        w->flows.channel_capacity = p->nchannel;
        w->flows.of_channel = must_realloc(w->flows.of_channel, sizeof *w->flows.of_channel * (size_t)p->nchannel);
    }
    for (int i = 0; i < w->flows.nflow; i++)
        w->flows.flow[i].queue_capacity = w->flows.flow[i].nqueue = w->flows.flow[i].turn = 0;
    for (int32_t c = 0; c < p->nchannel; c++) {
        const struct communicator *edge = edge_at(w, p, &p->channel[c]);
        const struct task *t = &p->task[p->channel[c].task];
        struct flow *f = edge ? find_flow(w, &p->device[t->device], t->stream, edge) : NULL;
        w->flows.of_channel[c] = f;
        if (!f) continue;
        f->queue_capacity += p->channel[c].sends ? 1 : t->out[0].nreg;
        flow_capacity(f, run->actors->naddress);
    }
    for (int i = 0; i < w->flows.nflow; i++) {
        struct flow *f = &w->flows.flow[i];
        if (f->edge) f->queue = must_realloc(f->queue, sizeof *f->queue * (size_t)(f->queue_capacity + 1));
        f->first_queued = 0;
    }
}

int
flows_make(struct worker *w, const struct run *run, bool driven)
{
    const struct plan *p = run->plan;
    if (p->ndevice > w->flows.device_capacity) {
        w->flows.device_capacity = p->ndevice;
        w->flows.of_device =
            must_realloc(w->flows.of_device, sizeof *w->flows.of_device * NSTREAM * (size_t)p->ndevice);
    }
    TRY(make_flows(w, run, driven));
    if (p->ndevice) memset(w->flows.of_device, 0, sizeof *w->flows.of_device * NSTREAM * (size_t)p->ndevice);
    for (int32_t k = 0; k < p->ndevice * NSTREAM && w->flows.nflow; k++) {
        const struct plan_device *d = &p->device[k / NSTREAM];
        struct flow *f = d->thread == w->id ? find_flow(w, d, k % NSTREAM, NULL) : NULL;
        w->flows.of_device[k] = f;
        if (f) flow_capacity(f, run->actors->naddress);
    }
    find_edges(w, run);
    return 0;
}

void
flows_cut(const struct worker *w)
{
    for (int i = 0; i < w->flows.nflow; i++) {
        const struct device_kind *kind = device_kind(w->flows.flow[i].kind);
        if (w->flows.flow[i].role == STREAM_COLLECT || w->flows.flow[i].edge) kind->cut();
    }
}

/* Creates the run's communicators for one kind of device, in the order in which all processes create them. */
static int
connect_kind(const struct run *r, int kind, const struct communicator_post *post)
{
    const struct actors *a = r->actors;
    struct communicator **in = must_alloc(sizeof *in * (size_t)(a->ncommunicator + 1));
    int n = 0;
    for (int32_t i = 0; i < a->ncommunicator; i++)
        if (a->communicator[i]->kind == kind) in[n++] = a->communicator[i];
    int status = device_kind(kind)->connect(n, in, post);
    free(in);
    return status;
}

int
run_connect(const struct run *r, const struct communicator_post *post)
{
    const struct plan *p = r->plan;
    for (int32_t i = 0; i < p->ndevice; i++) {
        int kind = p->device[i].kind;
        bool first = i == 0 || kind != p->device[i - 1].kind;
        if (first && device_kind(kind)->connect) TRY(connect_kind(r, kind, post));
    }
    return 0;
}

void
flows_free(struct worker *w)
{
    for (int i = 0; i < w->flows.nflow; i++) {
        struct flow *f = &w->flows.flow[i];
        f->stream->kind->stream_free(&f->stream);
        free(f->act);
        free(f->address);
        free(f->queue);
    }
    free(w->flows.of_channel);
    free(w->flows.flow);
    free(w->flows.of_device);
}
