/* actor.c - the life of an act: an actor becomes ready, acts, publishes the results and returns the input registers. */
#include "actors/act/run/actor.h"

#include "actors/act/run/activity.h"
#include "actors/act/run/address.h"
#include "actors/act/run/engine_inner.h"
#include "actors/act/run/open_run.h"
#include "actors/act/run/p2p.h"
#include "actors/act/run/poison.h"

#include "runtime/base/clock.h"
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "runtime/base/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FAULT /* t/lib/plan/faults.h compiles this file with deliberate bugs, which the tests must detect */
#define FAULT(mistake) false
#endif

/* ---- tokens ---- */

void
worker_ready(struct worker *w, int task)
{
    if (p2p_offers(&w->plan->task[task]))
        p2p_offer(w, task);
    else
        lanes_push(w, task);
}

static void
await_less(struct worker *w, int task)
{
    struct actor *a = &w->actors->actor[task];
    assert(a->waits > 0);
    if (--a->waits == 0 && a->begun < w->plan->task[task].nact) worker_ready(w, task);
}

static void
deliver(struct worker *w, const struct reader *r)
{
    const struct in_port *p = &w->plan->task[r->task].in[r->port];
    if (++w->actors->actor[r->task].in[r->port].tokens == p->need) await_less(w, r->task);
}

/* Notifies readers `first` to end - 1 of a fan: the readers of a result on this thread. A register of the result is
 * full or, on a control edge, a signal was sent. */
static void
tell_readers(struct worker *w, const struct fan *fan, int first, int end)
{
    assert(fan->thread == w->id);
    for (int i = first; i < end; i++) deliver(w, &fan->reader[i]);
    w->counts.messages += end - first;
}

/* Sets the number of readers that must return register `reg`: all readers of the result on this thread (fan f). */
static void
count_readers(struct worker *w, int task, int out, int f, int reg)
{
    const struct out_port *o = &w->plan->task[task].out[out];
    if (o->once) return;
    w->actors->left[w->actors->first_out[task] + out][f * o->nreg + reg] = o->fan[f].nreader - FAULT(READER_COUNT);
}

/* Records that a register is full, and notifies the result's readers on this thread (fan f). */
static void
fan_arrive(struct worker *w, int task, int out, int f, int reg)
{
    const struct fan *fan = &w->plan->task[task].out[out].fan[f];
    count_readers(w, task, out, f, reg);
    tell_readers(w, fan, 0, fan->nreader);
}

/* Records that the readers on one thread have returned a register. Frees the register if no thread uses it. */
static void
reg_free(struct worker *w, int task, int out, int reg)
{
    struct out_state *o = &w->actors->actor[task].out[out];
    assert(o->readers[reg] > 0);
    if (--o->readers[reg] > 0) return;
    if (reg == o->write) await_less(w, task);
}

static void
give_back_register(struct worker *w, const struct in_port *p, int32_t *left, int reg)
{
    assert(*left > 0);
    w->counts.messages++;
    if ((--*left > 0 && !FAULT(EARLY_FREE)) || FAULT(KEPT)) return;
    int thread = w->plan->task[p->task].thread;
    if (thread == w->id)
        reg_free(w, p->task, p->out, reg);
    else
        worker_send(
            w, thread,
            (struct msg){.kind = MSG_FREE, .task = (uint32_t)p->task, .out = (uint16_t)p->out, .reg = (uint16_t)reg});
}

/* ---- channels ---- */

/* Uses one credit of the channel, and notifies the task at the channel's other end. A credit allows the task to
 * send, or receive, one micro-batch. Direct channels do this in p2p.c. */
static void
pass_on_act(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    if (t->channel < 0 || t->kind->flags & KIND_P2P) return;
    const struct channel_far *far = &w->run->far[t->channel];
    if (--w->actors->channel[t->channel] == 0) w->actors->actor[task].waits++;
    worker_send_to(w, far->addr,
                   (struct msg){.kind = w->plan->channel[t->channel].sends ? MSG_FULL : MSG_FREE,
                                .task = (uint32_t)far->task,
                                .out = MSG_FAR,
                                .piece = (uint32_t)piece});
}

/* Handles a message from the other end of a channel. Checks the task index, because another process sent the
 * message. */
static void
channel_arrive(struct worker *w, const struct msg *m)
{
    const struct task *t = m->task < (uint32_t)w->plan->ntask ? &w->plan->task[m->task] : NULL;
    if (!t || t->channel < 0 || t->thread != w->id) return;
    if (p2p_offers(t))
        p2p_full(w, (int)m->task, m->reg);
    else if (++w->actors->channel[t->channel] == 1)
        await_less(w, (int)m->task);
}

/* ---- acting ---- */

static void
send_full(struct worker *w, int task, int out, int f, int reg, int piece)
{
    if (FAULT(LOST)) return;
    worker_send(w, w->plan->task[task].out[out].fan[f].thread,
                (struct msg){.kind = MSG_FULL,
                             .fan = (uint16_t)f,
                             .task = (uint32_t)task,
                             .out = (uint16_t)out,
                             .reg = (uint16_t)reg,
                             .piece = (uint32_t)piece});
}

/* Claims the register that the act writes and returns its index. If the register for the next act is still in use,
 * the actor waits for it. */
static int
take_register(struct actor *a, const struct out_port *p, struct out_state *s)
{
    int reg = s->write;
    if (p->control) return reg;
    s->readers[reg] = p->nfan;
    s->write = reg + 1 < p->nreg ? reg + 1 : 0;
    if (s->readers[s->write] > 0 && !FAULT(NO_CREDIT)) a->waits++;
    return reg;
}

/* Counts that one more act has read the register of an input. Returns true if this input must return the register
 * after the act, and sets *reg to its index. */
static bool
take_input(struct worker *w, struct actor *a, const struct in_port *p, struct in_state *s, int *reg)
{
    assert(s->tokens >= p->need);
    if (++s->used < p->hold) return false;
    s->used = 0;
    s->tokens -= p->need;
    if (s->tokens < p->need) a->waits++;
    const struct out_port *o = &w->plan->task[p->task].out[p->out];
    *reg = s->read;
    s->read = *reg + 1 < o->nreg ? *reg + 1 : 0;
    return !o->once;
}

/* Publishes the results and returns the input registers when an act without stream work is over. */
static void
settle_act(struct worker *w, int task, int piece)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    int reg;
    a->done++;
    for (int k = 0; k < t->nout; k++) {
        const struct out_port *p = &t->out[k];
        if (p->every > 1 && !p->control && a->done % p->every) continue;
        reg = take_register(a, p, &a->out[k]);
        for (int f = 0; f < p->nfan; f++)
            if (p->fan[f].thread == w->id)
                fan_arrive(w, task, k, f, reg);
            else
                send_full(w, task, k, f, reg, piece);
    }
    for (int k = 0; k < t->nin; k++)
        if (take_input(w, a, &t->in[k], &a->in[k], &reg)) give_back_register(w, &t->in[k], &a->in[k].left[reg], reg);
    if (a->waits == 0 && a->begun < t->nact) lanes_push(w, task);
}

static void
record_failure(struct worker *w, int task, int status)
{
    const struct task *t = &w->plan->task[task];
    struct line at = t->blame_node >= 0 ? w->run->line[t->blame_node] : (struct line){0};
    w->outcome.status = status;
    w->stopped = true;
    w->outcome.blame = t->blame_node;
    if (status != E_CANCEL) line_blame(&at, status);
    w->outcome.module = at.module;
    snprintf(w->outcome.text, sizeof w->outcome.text, "%s", err_text());
}

static int
begin_work(const struct worker *w, struct act *a)
{
    if (w->run->before_act) TRY(w->run->before_act(w->run->hook, a));
    return a->task->kind->begin(a);
}

static int
end_work(struct act *a)
{
    return a->task->kind->done ? a->task->kind->done(a) : 0;
}

static void
count_act(struct worker *w, int task, const struct act *a, int64_t begin_ns, int64_t end_ns)
{
    w->todo--;
    w->counts.acts++;
    w->actors->actor[task].received += a->received;
    if (w->run->timed && w->log.nact < w->log.act_capacity)
        w->log.act[w->log.nact++] = (struct act_time){task, a->piece, begin_ns, end_ns};
}

static void send_on(struct worker *w, int task, const struct act *a, int64_t begin_ns);

/* Runs an act on a device without streams. */
static void
act_now(struct worker *w, int task)
{
    struct actor *actor = &w->actors->actor[task];
    struct act a = {
        .plan = w->plan, .task = &w->plan->task[task], .transport = w->run->transport, .piece = actor->begun++};
    activity_bill(w, a.task->device);
    int64_t begin_ns = w->run->timed ? now_ns() : 0;
    act_address(w, &a, w->address);
    atomic_store_explicit(&w->shown.acting, task + 1, memory_order_release);
    bool sends = a.task->kind->flags & KIND_SENDS;
    poison_outputs(w->run, task, a.piece, NULL);
    if (!sends && FAULT(EARLY_BACK)) poison_inputs(w->run, task, a.piece, NULL);
    int status = begin_work(w, &a);
    if (!status) status = end_work(&a);
    atomic_store_explicit(&w->shown.acting, 0, memory_order_release);
    if (status) {
        record_failure(w, task, status);
        return;
    }
    pass_on_act(w, task, a.piece);
    if (sends) {
        send_on(w, task, &a, begin_ns);
        return;
    }
    if (!FAULT(EARLY_BACK)) poison_inputs(w->run, task, a.piece, NULL);
    count_act(w, task, &a, begin_ns, w->run->timed ? now_ns() : 0);
    if (w->recorder) recorder_end(w->recorder);
    settle_act(w, task, a.piece);
}

/* ---- acting on streams ---- */

/* Returns, by register, the records of the stream work that filled the result that an input reads (struct fill). */
static struct fill *
fills_of(const struct worker *w, const struct in_port *p)
{
    return w->actors->fill[w->actors->first_out[p->task] + p->out];
}

/* Makes the stream wait for inputs that are written on other streams, at most once for each other stream. */
static void
wait_for_inputs(const struct worker *w, const struct task *t, struct flow *f)
{
    const struct in_state *in = w->actors->actor[t - w->plan->task].in;
    for (int k = 0; k < t->nin; k++) {
        const struct in_port *p = &t->in[k];
        if (p->token != SYNC_EVENT || FAULT(NO_EVENT)) continue;
        struct flow *other = flow_of(w, &w->plan->task[p->task]);
        other->wanted = MAX(other->wanted, fills_of(w, p)[in[k].read].mark);
    }
    for (int i = 0; i < w->flows.nflow; i++) {
        struct flow *other = &w->flows.flow[i];
        if (!stream_passed(other->stream, other->wanted)) stream_wait(f->stream, other->stream, other->wanted);
        other->wanted = 0;
    }
}

/* Claims the output registers of enqueued work. Notifies the readers that may act before the work is complete. */
static void
issue_outputs(struct worker *w, int task, int piece, int64_t mark)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    for (int k = 0; k < t->nout; k++) {
        const struct out_port *p = &t->out[k];
        if (!p->control && a->begun % p->every) continue;
        int reg = take_register(a, p, &a->out[k]);
        struct fill *fill = w->actors->fill[w->actors->first_out[task] + k];
        if (fill) fill[reg].mark = mark;
        for (int f = 0; f < p->nfan; f++)
            if (p->fan[f].thread == w->id) {
                count_readers(w, task, k, f, reg);
                tell_readers(w, &p->fan[f], 0, FAULT(EARLY_READ) ? p->fan[f].nreader : p->fan[f].nissued);
            } else if (FAULT(EARLY_READ)) {
                send_full(w, task, k, f, reg, piece);
            }
    }
}

static void
issue_inputs(struct worker *w, int task)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    int reg;
    for (int k = 0; k < t->nin; k++) {
        bool early = t->in[k].token == SYNC_ENQUEUED || FAULT(EARLY_BACK);
        if (take_input(w, a, &t->in[k], &a->in[k], &reg) && early)
            give_back_register(w, &t->in[k], &a->in[k].left[reg], reg);
    }
}

/* Notifies the readers that had to wait until the work was complete. */
static void
done_outputs(struct worker *w, int task, int piece, int64_t now)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    for (int k = 0; k < t->nout; k++) {
        const struct out_port *p = &t->out[k];
        if ((!p->control && a->done % p->every) || FAULT(EARLY_READ)) continue;
        int reg = a->out[k].publish_reg;
        a->out[k].publish_reg = reg + 1 < p->nreg ? reg + 1 : 0;
        struct fill *fill = w->actors->fill[w->actors->first_out[task] + k];
        if (fill) fill[reg].done_ns = now;
        for (int f = 0; f < p->nfan; f++)
            if (p->fan[f].thread == w->id)
                tell_readers(w, &p->fan[f], p->fan[f].nissued, p->fan[f].nreader);
            else
                send_full(w, task, k, f, p->control ? 0 : reg, piece);
    }
}

static void
done_inputs(struct worker *w, int task)
{
    const struct task *t = &w->plan->task[task];
    struct actor *a = &w->actors->actor[task];
    for (int k = 0; k < t->nin; k++) {
        const struct in_port *p = &t->in[k];
        const struct out_port *o = &w->plan->task[p->task].out[p->out];
        struct in_state *s = &a->in[k];
        if (o->once || p->token == SYNC_ENQUEUED || FAULT(EARLY_BACK) || ++s->given < p->hold) continue;
        int reg = s->give;
        s->given = 0;
        s->give = reg + 1 < o->nreg ? reg + 1 : 0;
        give_back_register(w, p, &s->left[reg], reg);
    }
}

/* Returns true if the device is idle: its streams have no work, neither of this run nor of runs that were left
 * open. */
static bool
has_nothing_to_do(const struct worker *w, int32_t device)
{
    struct flow *const *f = w->flows.of_device + device * NSTREAM;
    for (int role = 0; role < NSTREAM; role++)
        if (f[role] && !flow_empty(f[role])) return false;
    return w->flows.nleft == 0;
}

static void finish_oldest(struct worker *w, struct flow *f);

static bool
may_finish(const struct flow *f)
{
    return !flow_empty(f) && stream_passed(f->stream, flow_oldest(f)->mark);
}

/* Finishes the acts that wrote the inputs of act u, if they were enqueued before u and their work is complete.
 * Called before u is finished, because streams may be polled in any order. */
static void
finish_inputs(struct worker *w, const struct under_way *u)
{
    for (int k = 0; k < u->act.task->nin; k++) {
        const struct in_port *p = &u->act.task->in[k];
        struct flow *f = p->token == SYNC_EVENT ? flow_of(w, &w->plan->task[p->task]) : NULL;
        while (f && !w->stopped && may_finish(f) && flow_oldest(f)->order < u->order) finish_oldest(w, f);
    }
}

/* Estimates the time, ns, at which stream work began: the latest of its enqueue time, the end of earlier work on the
 * stream, and the end of work on other streams that wrote its inputs. */
static int64_t
begin_of(const struct worker *w, const struct flow *f, const struct under_way *u)
{
    const struct task *t = u->act.task;
    const struct in_state *in = w->actors->actor[t - w->plan->task].in;
    int64_t ns = MAX(u->begin_ns, f->until_ns);
    for (int k = 0; k < t->nin; k++)
        if (t->in[k].token == SYNC_EVENT) ns = MAX(ns, fills_of(w, &t->in[k])[in[k].give].done_ns);
    return ns;
}

/* Finishes the oldest act of a stream. The work of the act must be complete. */
static void
finish_oldest(struct worker *w, struct flow *f)
{
    struct under_way *u = flow_oldest(f);
    if (open_run_has(w, u)) {
        open_run_finish(w, f);
        return;
    }
    int task = (int)(u->act.task - w->plan->task);
    finish_inputs(w, u);
    int status = stream_trouble(f->stream, u->mark);
    int64_t now = now_ns(), begin_ns = begin_of(w, f, u);
    f->first++;
    f->until_ns = now;
    w->flows.nunder--;
    if (!f->edge && has_nothing_to_do(w, u->act.task->device)) w->actors->busy_ns[u->act.task->device] += now;
    if (!status && !FAULT(EARLY_SAY)) status = end_work(&u->act);
    if (status) {
        record_failure(w, task, status);
        return;
    }
    w->actors->actor[task].done++;
    if (w->recorder) recorder_end(w->recorder);
    pass_on_act(w, task, u->act.piece);
    if (!u->counted) count_act(w, task, &u->act, begin_ns, now);
    done_outputs(w, task, u->act.piece, now);
    done_inputs(w, task);
    lanes_ended(w, task, now);
}

/* ---- finish acts whose bytes the transport has read ---- */

/* Ends an act of a SEND task: notifies the readers of its control edges and returns the input registers. */
static void
end_sending(struct worker *w, const struct sending *s)
{
    struct act a = {.plan = w->plan, .task = &w->plan->task[s->task], .piece = s->piece};
    w->actors->actor[s->task].done++;
    if (w->recorder) recorder_end(w->recorder);
    poison_inputs(w->run, s->task, s->piece, NULL);
    count_act(w, s->task, &a, s->begin_ns, w->run->timed ? now_ns() : 0);
    done_outputs(w, s->task, s->piece, 0);
    done_inputs(w, s->task);
}

/* Returns true if the transport has read the act's bytes, and all earlier acts of the task are over. */
static bool
sending_is_over(const struct worker *w, const struct sending *s)
{
    const struct transport *t = w->run->transport;
    return w->actors->actor[s->task].done == s->piece && (!s->ticket || t->taken(t->of, s->ticket));
}

static bool
finish_sending(struct worker *w)
{
    int32_t n = 0, was = w->sends.nsending;
    for (int32_t i = 0; i < was; i++) {
        struct sending s = w->sends.sending[i];
        if (w->stopped || !sending_is_over(w, &s)) {
            w->sends.sending[n++] = s;
            continue;
        }
        w->flows.nunder--;
        end_sending(w, &s);
    }
    w->sends.nsending = n;
    return n < was;
}

/* Ends an act of a SEND task, or queues the act until the transport has read the bytes of its inputs. */
static void
send_on(struct worker *w, int task, const struct act *a, int64_t begin_ns)
{
    struct actor *actor = &w->actors->actor[task];
    struct sending s = {task, a->piece, a->ticket, begin_ns};
    issue_outputs(w, task, a->piece, 0);
    issue_inputs(w, task);
    if (!s.ticket && sending_is_over(w, &s)) {
        end_sending(w, &s);
    } else {
        if (w->sends.nsending == w->sends.sending_capacity)
            /* makes room in the list: if it is full, the transport has read the bytes of at least one act */
            finish_sending(w);
        assert(w->sends.nsending < w->sends.sending_capacity);
        w->sends.sending[w->sends.nsending++] = s;
        w->flows.nunder++;
    }
    if (actor->waits == 0 && actor->begun < a->task->nact) lanes_push(w, task);
}

bool
worker_drive(struct worker *w)
{
    for (int i = 0; i < w->flows.nflow; i++)
        if (w->flows.flow[i].driven && stream_step(w->flows.flow[i].stream)) return true;
    return false;
}

bool
worker_may_complete(const struct worker *w)
{
    if (w->sends.nsending > 0 && !w->run->transport->nudges)
        return true; /* must be polled, because the transport does not report progress */
    for (int32_t i = 0; i < w->sends.nsending; i++)
        if (sending_is_over(w, &w->sends.sending[i])) return true;
    for (int i = 0; i < w->flows.nflow && w->flows.nunder > 0; i++) {
        const struct flow *f = &w->flows.flow[i];
        if (!flow_empty(f) && (!f->tells || stream_passed(f->stream, flow_oldest(f)->mark))) return true;
    }
    return false;
}

enum { LOOK_UP_NS = 100000000 };

/* Sleeps for at most ns nanoseconds, until stream f passes the mark. f NULL: until any stream progresses. Spins for
 * MOMENT_NS before it sleeps. */
static void
rest(struct worker *w, const struct flow *f, int64_t mark, int64_t ns)
{
    enum { MOMENT_NS = 2000 };
    signals_pass();
    for (int64_t until = now_ns() + MOMENT_NS; now_ns() < until; relax())
        if (f ? stream_passed(f->stream, mark) : worker_may_complete(w)) return;
    waker_arm(&w->rest);
    if (f ? stream_passed(f->stream, mark) : worker_may_complete(w))
        waker_disarm(&w->rest);
    else
        waker_sleep(&w->rest, ns);
}

void
worker_rest(struct worker *w, int64_t ns)
{
    rest(w, NULL, 0, ns ? MIN(ns, LOOK_UP_NS) : LOOK_UP_NS);
}

void
flow_await(struct worker *w, struct flow *f, int64_t mark)
{
    while (!stream_passed(f->stream, mark)) {
        activity_await(w, f);
        if (f->driven)
            worker_drive(w);
        else if (f->tells)
            rest(w, f, mark, LOOK_UP_NS);
    }
}

/* Waits until the stream has room for another act. */
static void
make_way(struct worker *w, struct flow *f)
{
    if (!flow_full(f)) return;
    flow_await(w, f, flow_oldest(f)->mark);
    finish_oldest(w, f);
}

void
worker_take_ports(struct worker *w, int task, int piece, int64_t mark)
{
    issue_outputs(w, task, piece, mark);
    issue_inputs(w, task);
}

int64_t
worker_enqueue(struct worker *w, int task, int piece, struct flow *f)
{
    void **address;
    struct under_way *u = flow_next(f, &address);
    activity_bill(w, -1);
    u->begin_ns = now_ns();
    u->order = w->flows.nissued++;
    u->of = w->run;
    u->run = w->number;
    u->counted = w->run->stays_open && !w->plan->task[task].looks;
    u->act = (struct act){.plan = w->plan, .task = &w->plan->task[task], .stream = f->stream, .piece = piece};
    act_address(w, &u->act, address);
    wait_for_inputs(w, u->act.task, f);
    poison_outputs(w->run, task, piece, f->stream);
    int status = begin_work(w, &u->act);
    if (!status && FAULT(EARLY_SAY)) status = end_work(&u->act);
    if (status) {
        record_failure(w, task, status);
        return -1;
    }
    poison_inputs(w->run, task, piece, f->stream);
    if (u->act.task->shown) stream_show(f->stream);
    u->mark = stream_mark(f->stream);
    if (!f->edge && has_nothing_to_do(w, u->act.task->device)) w->actors->busy_ns[u->act.task->device] -= u->begin_ns;
    f->next++;
    w->flows.nunder++;
    if (u->counted) count_act(w, task, &u->act, 0, 0);
    return u->mark;
}

/* Plants a bug for tests: sets the addresses of the newest act to those of the task's next act. */
static void
readdress(const struct worker *w, const struct flow *f)
{
    struct under_way *u = &f->act[(f->next - 1) % FLOW_ACTS];
    act_address(w, &u->act, f->address + ((f->next - 1) % FLOW_ACTS) * f->naddress);
}

static void
act_issue(struct worker *w, int task, struct flow *f)
{
    struct actor *actor = &w->actors->actor[task];
    make_way(w, f);
    if (w->stopped) return;
    int piece = actor->begun++;
    int64_t mark = worker_enqueue(w, task, piece, f);
    if (mark < 0) return;
    worker_take_ports(w, task, piece, mark);
    if (FAULT(NEXT_ADDRESS)) readdress(w, f);
    if (actor->waits == 0 && actor->begun < w->plan->task[task].nact) worker_ready(w, task);
}

void
worker_act(struct worker *w, struct lane *l, int i)
{
    if (w->plan->task[l->ready.value[i]].updates && !worker_may_update(w)) {
        w->stopped = true;
        return;
    }
    int task = heap_take(&l->ready, i);
    w->lanes.nready--;
    if (w->recorder) recorder_begin(w->recorder, w->run_id, task);
    struct flow *f = flow_of(w, &w->plan->task[task]);
    if (f && f->edge)
        p2p_send(w, task, f);
    else if (f)
        act_issue(w, task, f);
    else
        act_now(w, task);
    if (w->recorder) recorder_over(w->recorder);
    if (w->run->rows && !f) l->free_ns = now_ns();
}

bool
worker_complete(struct worker *w)
{
    bool any = w->sends.nsending > 0 && finish_sending(w);
    for (int i = 0; i < w->flows.nflow; i++) {
        struct flow *f = &w->flows.flow[i];
        while (!w->stopped && may_finish(f)) {
            finish_oldest(w, f);
            any = true;
        }
        if (f->nqueue) p2p_continue(w, f);
    }
    return any;
}

bool
worker_step(struct worker *w, uint64_t (*choose)(struct bus *b, uint64_t n), struct bus *b)
{
    if (w->flows.nflow == 0) return false;
    int i = (int)choose(b, (uint64_t)w->flows.nflow);
    return stream_step(w->flows.flow[i].stream);
}

void
worker_drain(struct worker *w)
{
    for (int i = 0; i < w->flows.nflow; i++) {
        struct flow *f = &w->flows.flow[i];
        int64_t all = stream_mark(f->stream);
        flow_await(w, f, all);
        open_run_check(w, f);
        stream_trouble(f->stream, all);
    }
    for (int32_t d = 0; d < w->plan->ndevice && w->flows.nflow > 0; d++)
        if (w->flows.nleft == 0 && !has_nothing_to_do(w, d)) w->actors->busy_ns[d] += now_ns();
    for (int i = 0; i < w->flows.nflow; i++)
        w->flows.flow[i].first = w->flows.flow[i].next = w->flows.flow[i].nqueue = 0;
    if (w->sends.nsending) w->run->transport->stop(w->run->transport->of);
    w->sends.nsending = 0;
    w->flows.nunder = 0;
    w->flows.nleft = 0;
}

void
worker_receive(struct worker *w, const struct msg *m)
{
    int task = (int)m->task;
    if (m->out == MSG_FAR) {
        channel_arrive(w, m);
        return;
    }
    switch (m->kind) {
    case MSG_FULL: fan_arrive(w, task, m->out, m->fan, m->reg); break;
    case MSG_FREE: reg_free(w, task, m->out, m->reg); break;
    default: break;
    }
}

/* ---- a run ---- */

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
        a->out[k].write = a->out[k].publish_reg = 0;
        memset(a->out[k].readers, 0, sizeof(int32_t) * (size_t)t->out[k].nreg);
    }
    if (t->channel >= 0) {
        const struct channel *c = &w->plan->channel[t->channel];
        w->actors->channel[t->channel] = c->sends && !c->direct ? c->nreg : 0;
        /* In a direct channel, the SEND also waits for its RECV; in other channels, the RECV also waits for bytes. */
        a->waits += c->sends ? c->direct : !c->direct;
    }
    if (a->waits == 0) worker_ready(w, task);
}

int
worker_capacity(struct worker *w, const struct run *run, bool driven)
{
    const struct plan *p = run->plan;
    int64_t nact = p->nact[w->id];
    lanes_make(w, run);
    if (run->actors->naddress > w->address_capacity) {
        w->address_capacity = run->actors->naddress;
        w->address = must_realloc(w->address, sizeof *w->address * (size_t)w->address_capacity);
    }
    if (run->timed && nact > w->log.act_capacity) {
        w->log.act_capacity = nact;
        w->log.act = must_realloc(w->log.act, sizeof *w->log.act * (size_t)nact);
    }
    int32_t sending = 0;
    for (int32_t c = 0; c < p->nchannel; c++)
        sending += p->channel[c].sends && !p->channel[c].direct ? p->channel[c].nreg : 0;
    if (sending > w->sends.sending_capacity) {
        w->sends.sending_capacity = sending;
        w->sends.sending = must_realloc(w->sends.sending, sizeof *w->sends.sending * (size_t)sending);
    }
    return flows_make(w, run, driven);
}

void
worker_free(struct worker *w)
{
    flows_free(w);
    lanes_free(w);
    free(w->address);
    free(w->sends.sending);
    free(w->log.act);
    open_run_free(w);
}

void
worker_begin(struct worker *w, struct run *run, uint32_t run_id)
{
    w->number = run->nth;
    w->run = run;
    w->plan = run->plan;
    w->actors = run->actors;
    w->run_id = run_id;
    w->active = true;
    w->stopped = false;
    w->outcome.status = 0;
    w->outcome.blame = -1;
    w->outcome.module = 0;
    activity_bill_start(w);
    for (int32_t d = 0; d < w->plan->ndevice; d++)
        if (w->plan->device[d].thread == w->id) w->actors->busy_ns[d] = 0;
    w->log.nact = 0;
    w->todo = w->plan->nact[w->id];
    lanes_reset(w);
    worker_ask(w);
    w->counts.asked = must_count();
    for (int i = 0; i < w->plan->nlocal[w->id]; i++) actor_reset(w, w->plan->local[w->id][i]);
}
