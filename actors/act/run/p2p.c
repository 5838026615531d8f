/* p2p.c - acts on direct channels. A receive is first ready, then offered to the sender, then enqueued. A send is
 * first ready, then enqueued, then reported to the receiver. */
#include "actors/act/run/p2p.h"

#include "actors/act/run/engine_inner.h"

#include "runtime/base/error.h"

/* Sends a message to the other end of a direct channel, about the act on one micro-batch. */
static void
tell_end(struct worker *w, int task, enum msg_kind kind, uint16_t turn, int piece)
{
    const struct channel_far *far = &w->run->far[w->plan->task[task].channel];
    worker_send_to(
        w, far->addr,
        (struct msg){
            .kind = (uint8_t)kind, .task = (uint32_t)far->task, .out = MSG_FAR, .reg = turn, .piece = (uint32_t)piece});
}

static void
push_send(struct flow *f, int32_t task)
{
    assert(f->nqueue < f->queue_capacity);
    f->queue[(f->first_queued + f->nqueue++) % f->queue_capacity] = task;
}

static int32_t
pop_send(struct flow *f)
{
    int32_t task = f->queue[f->first_queued];
    f->first_queued = (f->first_queued + 1) % f->queue_capacity;
    f->nqueue--;
    return task;
}

void
p2p_offer(struct worker *w, int task)
{
    struct actor *a = &w->actors->actor[task];
    while (a->waits == 0 && a->begun < w->plan->task[task].nact && !w->stopped) {
        int piece = a->begun++;
        worker_take_ports(w, task, piece, 0);
        tell_end(w, task, MSG_FREE, 0, piece);
    }
}

/* Runs one act of a SEND task: enqueues its work and consumes tokens, registers and a credit. Then reports the send
 * to the other end, which enqueues the matching receive. */
static void
send_one(struct worker *w, int task, struct flow *f)
{
    struct actor *a = &w->actors->actor[task];
    const struct task *t = &w->plan->task[task];
    int piece = a->begun++;
    int64_t mark = worker_enqueue(w, task, piece, f);
    if (mark < 0) return;
    if (--w->actors->channel[t->channel] == 0) a->waits++;
    worker_take_ports(w, task, piece, mark);
    tell_end(w, task, MSG_FULL, f->turn++, piece);
    if (a->waits == 0 && a->begun < t->nact) worker_ready(w, task);
}

static void
receive_one(struct worker *w, int task, struct flow *f)
{
    worker_enqueue(w, task, w->actors->channel[w->plan->task[task].channel]++, f);
}

void
p2p_continue(struct worker *w, struct flow *f)
{
    while (f->nqueue > 0 && !flow_full(f) && !w->stopped) {
        int32_t task = pop_send(f);
        (p2p_offers(&w->plan->task[task]) ? receive_one : send_one)(w, task, f);
    }
}

void
p2p_send(struct worker *w, int task, struct flow *f)
{
    push_send(f, task);
    p2p_continue(w, f);
}

void
p2p_full(struct worker *w, int task, uint16_t turn)
{
    const struct task *t = &w->plan->task[task];
    struct flow *f = w->flows.of_channel[t->channel];
    int32_t queued = 0;
    for (int32_t i = 0; i < f->nqueue; i++) queued += f->queue[(f->first_queued + i) % f->queue_capacity] == task;
    if (turn != f->turn || w->actors->channel[t->channel] + queued >= w->actors->actor[task].begun) {
        struct str text = {0};
        channel_print(&w->plan->channel[t->channel].name, &text);
        worker_fail(w, fail(E_BUS,
                            turn != f->turn
                                ? "channel %s: host %d announced transfers out of order: expected number %d, found %d"
                                : "channel %s: host %d announced a transfer that no task expects to receive: "
                                  "expected number %d, found %d",
                            str_text(&text), (int)w->plan->channel[t->channel].peer, (int)f->turn, (int)turn));
        str_free(&text);
        return;
    }
    f->turn++;
    push_send(f, task);
    p2p_continue(w, f);
}
