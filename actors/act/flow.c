/* flow.c - the streams of a thread, and room for work that is under way on them. */
#include "actors/act/actor.h"

#include "runtime/arena.h"
#include "runtime/communicator.h"
#include "runtime/device.h"
#include "runtime/error.h"
#include "runtime/stream.h"

#include <stdlib.h>

static int
flow_new(struct flow *f, int kind, int rank, int role, bool driven, struct worker *owner)
{
    *f = (struct flow){.kind = kind, .rank = rank, .role = role, .driven = driven};
    TRY(device_kind(kind)->stream_new(rank, role, driven, &f->stream));
    f->tells = !driven && stream_tell(f->stream, worker_told, owner);
    f->act = must_alloc(sizeof *f->act * FLOW_ACTS);
    return 0;
}

/* For acts of so many addresses. */
static void
flow_capacity(struct flow *f, int32_t naddress)
{
    if (naddress <= f->naddress) return;
    assert(flow_empty(f));
    f->naddress = naddress;
    f->address = must_realloc(f->address, sizeof *f->address * (size_t)naddress * FLOW_ACTS);
}

static struct flow *
find_flow(const struct worker *w, const struct plan_device *d, int role)
{
    for (int i = 0; i < w->nflow; i++)
        if (w->flow[i].kind == d->kind && w->flow[i].rank == d->rank && w->flow[i].role == role) return &w->flow[i];
    return NULL;
}

/* The streams of its devices that the plan has work for, those that it has already among them. */
static int
make_flows(struct worker *w, const struct run *run, bool driven)
{
    const struct plan *p = run->plan;
    for (int32_t i = 0; i < p->ndevice; i++) {
        const struct plan_device *d = &p->device[i];
        if (d->thread != w->id || !device_kind(d->kind)->stream_new) continue;
        for (int role = 0; role < NSTREAM; role++) {
            if (!(run->actors->roles[i] >> role & 1) || find_flow(w, d, role)) continue;
            w->flow = must_realloc(w->flow, sizeof *w->flow * (size_t)(w->nflow + 1));
            TRY(flow_new(&w->flow[w->nflow], d->kind, d->rank, role, driven, w));
            w->nflow++;
        }
    }
    return 0;
}

int
flows_make(struct worker *w, const struct run *run, bool driven)
{
    const struct plan *p = run->plan;
    if (p->ndevice > w->device_capacity) {
        w->device_capacity = p->ndevice;
        w->flow_of = must_realloc(w->flow_of, sizeof *w->flow_of * NSTREAM * (size_t)p->ndevice);
    }
    TRY(make_flows(w, run, driven));
    for (int32_t k = 0; k < p->ndevice * NSTREAM; k++) {
        const struct plan_device *d = &p->device[k / NSTREAM];
        struct flow *f = d->thread == w->id && w->nflow ? find_flow(w, d, k % NSTREAM) : NULL;
        w->flow_of[k] = f;
        if (f) flow_capacity(f, run->actors->naddress);
    }
    return 0;
}

void
flows_cut(const struct worker *w)
{
    for (int i = 0; i < w->nflow; i++) {
        const struct device_kind *kind = device_kind(w->flow[i].kind);
        if (w->flow[i].role == STREAM_COLLECT) kind->cut();
    }
}

/* Those of a kind that has a library, one after the other. */
static int
meet_kind(const struct run *r, int kind, const struct communicator_post *post)
{
    const struct actors *a = r->actors;
    struct communicator **in = must_alloc(sizeof *in * (size_t)(a->ncommunicator + 1));
    int n = 0;
    for (int32_t i = 0; i < a->ncommunicator; i++)
        if (a->communicator[i]->kind == kind) in[n++] = a->communicator[i];
    int status = device_kind(kind)->meet(n, in, post);
    free(in);
    return status;
}

int
run_meet(const struct run *r, const struct communicator_post *post)
{
    const struct plan *p = r->plan;
    for (int32_t i = 0; i < p->ndevice; i++) {
        int kind = p->device[i].kind;
        bool first = i == 0 || kind != p->device[i - 1].kind;
        if (first && device_kind(kind)->meet) TRY(meet_kind(r, kind, post));
    }
    return 0;
}

void
flows_free(struct worker *w)
{
    for (int i = 0; i < w->nflow; i++) {
        struct flow *f = &w->flow[i];
        f->stream->kind->stream_free(&f->stream);
        free(f->act);
        free(f->address);
    }
    free(w->flow);
    free(w->flow_of);
}
