/* actor.c - ready -> act -> publish -> give back. */
#include "actors/act/actor.h"

#include "runtime/clock.h"
#include "runtime/device.h"
#include "runtime/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAULT /* t/actors-sim.c compiles this file once more, with mistakes */
#define FAULT(mistake) false
#endif

/* ---- the heap of ready actors ---- */

static uint64_t
key_of(const struct worker *w, int task)
{
    const struct task *t = &w->plan->task[task];
    return (uint64_t)t->phase << 56 | (uint64_t)w->actors->actor[task].begun << 32 | (t->priority & 0xffffffffu);
}

static void
heap_swap(struct worker *w, int a, int b)
{
    int32_t t = w->ready[a];
    uint64_t k = w->ready_key[a];
    w->ready[a] = w->ready[b];
    w->ready_key[a] = w->ready_key[b];
    w->ready[b] = t;
    w->ready_key[b] = k;
}

static void
heap_up(struct worker *w, int i)
{
    for (; i > 0 && w->ready_key[i] < w->ready_key[(i - 1) / 2]; i = (i - 1) / 2) heap_swap(w, i, (i - 1) / 2);
}

static void
heap_push(struct worker *w, int task)
{
    assert(w->nready < w->room);
    int i = w->nready++;
    w->ready[i] = task;
    w->ready_key[i] = key_of(w, task);
    heap_up(w, i);
}

static int
heap_take(struct worker *w, int i)
{
    int task = w->ready[i];
    int last = --w->nready;
    if (i == last) return task;
    heap_swap(w, i, last);
    heap_up(w, i);
    for (;;) {
        int least = i, l = 2 * i + 1;
        if (l < w->nready && w->ready_key[l] < w->ready_key[least]) least = l;
        if (l + 1 < w->nready && w->ready_key[l + 1] < w->ready_key[least]) least = l + 1;
        if (least == i) return task;
        heap_swap(w, i, least);
        i = least;
    }
}

/* ---- tokens ---- */

static void
wait_less(struct worker *w, int task)
{
    struct actor *a = &w->actors->actor[task];
    assert(a->waits > 0);
    if (--a->waits == 0 && a->begun < w->plan->task[task].nact) heap_push(w, task);
}

static void
deliver(struct worker *w, const struct reader *r)
{
    const struct in_port *p = &w->plan->task[r->task].in[r->port];
    if (++w->actors->actor[r->task].in[r->port].tokens == p->need) wait_less(w, r->task);
}

/* A full register reached this thread: all its readers here have it. */
static void
fan_arrive(struct worker *w, int task, int out, int f, int reg)
{
    const struct out_port *o = &w->plan->task[task].out[out];
    const struct fan *fan = &o->fan[f];
    assert(fan->thread == w->id);
    if (!o->once)
        w->actors->left[w->actors->first_out[task] + out][f * o->nreg + reg] = fan->nreader - FAULT(READER_COUNT);
    for (int i = 0; i < fan->nreader; i++) deliver(w, &fan->reader[i]);
    w->messages += fan->nreader;
}

/* Fills a freed register with NaN, so that a late reader is seen. Not where a block has one tenant after the other: by
 * the time that the owner hears of the last reader, the next tenant may be at work. */
static void
poison(struct worker *w, int task, int out, int reg)
{
    const struct out_port *o = &w->plan->task[task].out[out];
    if (!o->alone || o->bytes == 0) return;
    memset(reg_address(w->run, &o->where, reg), 0xff, (size_t)o->bytes);
}

/* All readers of one thread gave a register back. */
static void
reg_free(struct worker *w, int task, int out, int reg)
{
    struct out_state *o = &w->actors->actor[task].out[out];
    assert(o->readers[reg] > 0);
    if (--o->readers[reg] > 0) return;
    if (w->run->poison) poison(w, task, out, reg);
    if (reg == o->write) wait_less(w, task);
}

static void
give_back(struct worker *w, const struct in_port *p, int32_t *left, int reg)
{
    assert(*left > 0);
    w->messages++;
    if ((--*left > 0 && !FAULT(EARLY_FREE)) || FAULT(KEPT)) return;
    int thread = w->plan->task[p->task].thread;
    if (thread == w->id)
        reg_free(w, p->task, p->out, reg);
    else
        worker_send(
            w, thread,
            (struct msg){.kind = MSG_FREE, .task = (uint32_t)p->task, .out = (uint16_t)p->out, .reg = (uint16_t)reg});
}

/* ---- acting ---- */

/* Takes a token of each input and the next register of each output. */
static void
take(struct worker *w, int task)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    a->begun++;
    for (int i = 0; i < t->nin; i++) {
        const struct in_port *p = &t->in[i];
        struct in_state *s = &a->in[i];
        assert(s->tokens >= p->need);
        if (++s->used < p->hold) continue;
        s->used = 0;
        s->tokens -= p->need;
        if (s->tokens < p->need) a->waits++;
    }
    for (int i = 0; i < t->nout; i++) {
        const struct out_port *p = &t->out[i];
        struct out_state *s = &a->out[i];
        if (p->control || a->begun % p->every) continue;
        s->readers[s->write] = p->nfan;
        s->write = (s->write + 1) % p->nreg;
        if (s->readers[s->write] > 0 && !FAULT(NO_CREDIT)) a->waits++;
    }
    if (a->waits == 0 && a->begun < t->nact) heap_push(w, task);
}

static void
publish(struct worker *w, int task, int out, int piece)
{
    const struct out_port *p = &w->plan->task[task].out[out];
    struct out_state *s = &w->actors->actor[task].out[out];
    int reg = s->show;
    if (!p->control) s->show = (reg + 1) % p->nreg;
    for (int f = 0; f < p->nfan; f++) {
        if (p->fan[f].thread == w->id) {
            fan_arrive(w, task, out, f, reg);
            continue;
        }
        if (!FAULT(LOST))
            worker_send(w, p->fan[f].thread,
                        (struct msg){.kind = MSG_FULL,
                                     .fan = (uint16_t)f,
                                     .task = (uint32_t)task,
                                     .out = (uint16_t)out,
                                     .reg = (uint16_t)reg,
                                     .piece = (uint32_t)piece});
    }
}

static bool
is_late(const struct worker *w, int task)
{
    return w->plan->device[w->plan->task[task].device].kind == DEV_LATE;
}

static bool
enqueued_early(const struct worker *w, int task)
{
    return FAULT(ENQUEUED) && is_late(w, task);
}

/* What the mistake ENQUEUED does wrong. */
static void
give_early(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    for (int i = 0; i < t->nin; i++) {
        const struct in_port *p = &t->in[i];
        const struct out_port *o = &w->plan->task[p->task].out[p->out];
        int reg = piece / p->hold % o->nreg;
        if (!o->once && (piece + 1) % p->hold == 0) give_back(w, p, &w->actors->actor[task].in[i].left[reg], reg);
    }
}

/* The work of an act is done: outputs to their readers, inputs back to their producers. */
static void
finish(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    a->done++;
    w->todo--;
    w->acts++;
    for (int i = 0; i < t->nout; i++)
        if (t->out[i].control || a->done % t->out[i].every == 0) publish(w, task, i, piece);
    for (int i = 0; i < t->nin; i++) {
        const struct in_port *p = &t->in[i];
        const struct out_port *o = &w->plan->task[p->task].out[p->out];
        struct in_state *s = &a->in[i];
        if (o->control || ++s->given < p->hold) continue;
        s->given = 0;
        int reg = s->give;
        s->give = (reg + 1) % o->nreg;
        if (!o->once && !enqueued_early(w, task)) give_back(w, p, &s->left[reg], reg);
    }
}

static void
failed(struct worker *w, int task, int status)
{
    const struct task *t = &w->plan->task[task];
    struct line at = t->told >= 0 ? w->run->line[t->told] : t->line;
    w->status = status;
    w->stopped = true;
    if (at.file)
        snprintf(w->text, sizeof w->text, "%s:%d: %s", at.file, (int)at.line, err_text());
    else
        snprintf(w->text, sizeof w->text, "%s", err_text());
}

/* The whole work of an act, done here and now. */
static int
carry_out(struct worker *w, struct act *a)
{
    const struct task *t = a->task;
    if (w->run->before_act) TRY(w->run->before_act(w->run->hook, task_op(w->plan, t)));
    act_address(w, a);
    TRY(t->kind->begin(a));
    return t->kind->done ? t->kind->done(a) : 0;
}

static void
work(struct worker *w, int task, int piece)
{
    struct act a = {.plan = w->plan, .task = &w->plan->task[task], .piece = piece};
    int64_t begin = w->run->timed ? now_ns() : 0;
    int status = carry_out(w, &a);
    if (status) {
        failed(w, task, status);
        return;
    }
    w->actors->actor[task].received += a.received;
    if (w->run->timed && w->nact < w->act_room) w->act[w->nact++] = (struct act_time){task, piece, begin, now_ns()};
    finish(w, task, piece);
}

void
worker_act(struct worker *w, int i)
{
    if (w->plan->task[w->ready[i]].updates && !worker_may_update(w)) {
        w->stopped = true;
        return;
    }
    int task = heap_take(w, i);
    int piece = w->actors->actor[task].begun;
    take(w, task);
    if (is_late(w, task)) {
        if (enqueued_early(w, task)) give_early(w, task, piece);
        assert(w->nstream < w->stream_room);
        w->stream[w->nstream++] = (struct pending){task, piece};
        return;
    }
    work(w, task, piece);
}

void
worker_complete(struct worker *w)
{
    if (w->nstream == 0) return;
    struct pending p = w->stream[0];
    memmove(w->stream, w->stream + 1, sizeof(*w->stream) * (size_t)--w->nstream);
    work(w, p.task, p.piece);
}

void
worker_receive(struct worker *w, const struct msg *m)
{
    int task = (int)m->task;
    switch (m->kind) {
    case MSG_FULL: fan_arrive(w, task, m->out, m->fan, m->reg); break;
    case MSG_FREE: reg_free(w, task, m->out, m->reg); break;
    default: break;
    }
}

/* ---- the state of a plan's actors ---- */

/* One row for all results: [fan][register] of the first, of the second, ... */
static void
count_left(struct actors *a)
{
    const struct plan *p = a->plan;
    size_t nout = 0, nleft = 0;
    a->first_out = ARENA_ARRAY(&a->arena, int32_t, p->ntask + 1);
    for (int i = 0; i < p->ntask; i++) {
        a->first_out[i] = (int32_t)nout;
        nout += (size_t)p->task[i].nout;
        for (int k = 0; k < p->task[i].nout; k++)
            nleft += (size_t)p->task[i].out[k].nfan * (size_t)p->task[i].out[k].nreg;
    }
    a->left = ARENA_ARRAY(&a->arena, int32_t *, nout + 1);
    int32_t *left = ARENA_ARRAY(&a->arena, int32_t, nleft + 1), **each = a->left;
    for (int i = 0; i < p->ntask; i++)
        for (int k = 0; k < p->task[i].nout; k++) {
            *each++ = left;
            left += p->task[i].out[k].nfan * p->task[i].out[k].nreg;
        }
}

struct actors *
actors_new(const struct plan *p)
{
    struct actors *a = must_alloc(sizeof *a);
    a->plan = p;
    a->actor = ARENA_ARRAY(&a->arena, struct actor, p->ntask);
    count_left(a);
    for (int i = 0; i < p->ntask; i++) {
        const struct task *t = &p->task[i];
        a->naddress = MAX(a->naddress, t->narg + t->nresult);
        a->actor[i].in = ARENA_ARRAY(&a->arena, struct in_state, t->nin);
        a->actor[i].out = ARENA_ARRAY(&a->arena, struct out_state, t->nout);
        for (int k = 0; k < t->nin; k++) {
            const struct in_port *in = &t->in[k];
            int32_t nreg = p->task[in->task].out[in->out].nreg;
            a->actor[i].in[k].left = a->left[a->first_out[in->task] + in->out] + in->fan * nreg;
        }
        for (int k = 0; k < t->nout; k++) a->actor[i].out[k].readers = ARENA_ARRAY(&a->arena, int32_t, t->out[k].nreg);
    }
    return a;
}

void
actors_free(struct actors **ap)
{
    struct actors *a = *ap;
    if (!a) return;
    arena_fini(&a->arena);
    free(a);
    *ap = NULL;
}

bool
actors_acted(const struct actors *a, int task)
{
    return a->actor[task].begun > 0;
}

static void
actor_reset(struct worker *w, int task)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    a->begun = a->done = 0;
    a->received = 0;
    a->waits = t->nin;
    for (int k = 0; k < t->nin; k++) a->in[k] = (struct in_state){.left = a->in[k].left};
    for (int k = 0; k < t->nout; k++) {
        a->out[k].write = a->out[k].show = 0;
        memset(a->out[k].readers, 0, sizeof(int32_t) * (size_t)t->out[k].nreg);
    }
    if (a->waits == 0) heap_push(w, task);
}

void
worker_room(struct worker *w, const struct run *run)
{
    const struct plan *p = run->plan;
    int64_t nact = p->nact[w->id];
    if (p->nlocal[w->id] > w->room) {
        w->room = p->nlocal[w->id];
        w->ready = must_realloc(w->ready, sizeof *w->ready * (size_t)w->room);
        w->ready_key = must_realloc(w->ready_key, sizeof *w->ready_key * (size_t)w->room);
    }
    if (nact > w->stream_room) {
        w->stream_room = (int32_t)nact;
        w->stream = must_realloc(w->stream, sizeof *w->stream * (size_t)nact);
    }
    if (run->actors->naddress > w->address_room) {
        w->address_room = run->actors->naddress;
        w->address = must_realloc(w->address, sizeof *w->address * (size_t)w->address_room);
    }
    if (run->timed && nact > w->act_room) {
        w->act_room = nact;
        w->act = must_realloc(w->act, sizeof *w->act * (size_t)nact);
    }
}

void
worker_begin(struct worker *w, const struct run *run, uint32_t run_id)
{
    w->run = run;
    w->plan = run->plan;
    w->actors = run->actors;
    w->run_id = run_id;
    w->active = true;
    w->stopped = false;
    w->status = 0;
    w->nready = w->nstream = 0;
    w->nact = 0;
    w->todo = w->plan->nact[w->id];
    w->asked = must_count();
    for (int i = 0; i < w->plan->nlocal[w->id]; i++) actor_reset(w, w->plan->local[w->id][i]);
}
