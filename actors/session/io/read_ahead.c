/* read_ahead.c - implements the prefetching data source of read_ahead.h.
 *
 * While the source's thread works, both threads share only two counters. The source increments `filled`; the session
 * increments `taken` when it is done with a register. To change the position, the session first halts the source's
 * thread. While that thread rests, the session owns all state. */
#include "actors/session/io/read_ahead.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/thread.h"
#include "runtime/base/waker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct reg {
    struct batch_at at;
    void *data;
    size_t bytes;
    int status; /* result of the last call of the fill function: 0 or an error */
    char *why;  /* error text of the fill function; NULL: none */
};

enum order { WORK, REST, END };

struct ahead {
    struct read_ahead_source source;
    struct reg reg[READ_AHEAD_DEPTH];
    pthread_t thread;
    bool begun, held; /* begun: the thread was started; held: the caller owns the register at `taken` */
    _Atomic int order;
    _Atomic bool rests;
    _Atomic int64_t filled, taken;
    struct waker session, worker; /* session wakes the session's thread; worker wakes the source's thread */
    struct batch_at next;         /* next batch to read; while the source's thread works, it owns this field */
    struct batch_at expected;     /* batch expected in the register at `taken`; owned by the session */
    /* number of batches read before the last halt; `filled` counts the batches read since that halt */
    int64_t nread;
    int64_t ntaken, nwait;
    double wait;
    _Atomic int64_t nfull;
};

/* ---- the source's thread ---- */

static void
fill_batch(struct ahead *a, struct reg *r)
{
    size_t bytes = a->source.bytes(&a->next);
    if (bytes > r->bytes) {
        free(r->data);
        r->data = must_alloc(bytes);
        r->bytes = bytes;
    }
    free(r->why);
    r->at = a->next;
    r->status = a->source.fill(a->source.arg, &r->at, r->data);
    r->why = r->status ? must_copy(err_text(), strlen(err_text()) + 1) : NULL;
    a->next = a->source.next(a->source.arg, &r->at);
}

static bool
ahead_has_work(const struct ahead *a)
{
    return a->order == WORK && a->filled - a->taken < READ_AHEAD_DEPTH;
}

/* Waits until a register is free, or until the session gives an order (to halt, to work or to end). */
static void
wait_for_credit(struct ahead *a)
{
    int order = a->order;
    if (order == WORK) a->nfull++;
    a->rests = order != WORK;
    waker_wake(&a->session);
    for (;;) {
        waker_arm(&a->worker);
        if (a->order != order || ahead_has_work(a)) break;
        waker_sleep(&a->worker, 0);
    }
    waker_disarm(&a->worker);
    a->rests = false;
}

static void *
read_ahead_work(void *arg)
{
    struct ahead *a = arg;
    while (a->order != END) {
        if (!ahead_has_work(a)) {
            wait_for_credit(a);
            continue;
        }
        fill_batch(a, &a->reg[a->filled % READ_AHEAD_DEPTH]);
        a->filled++;
        waker_wake(&a->session);
    }
    return NULL;
}

/* ---- the session's thread ---- */

struct ahead *
read_ahead_new(const struct read_ahead_source *source)
{
    struct ahead *a = must_alloc(sizeof *a);
    a->source = *source;
    return a;
}

static void
send_order(struct ahead *a, enum order order)
{
    a->order = order;
    waker_wake(&a->worker);
}

void
read_ahead_free(struct ahead **ap)
{
    struct ahead *a = *ap;
    *ap = NULL;
    if (!a) return;
    if (a->begun) {
        send_order(a, END);
        pthread_join(a->thread, NULL);
    }
    for (int i = 0; i < READ_AHEAD_DEPTH; i++) {
        free(a->reg[i].data);
        free(a->reg[i].why);
    }
    free(a);
}

static bool
rests(const struct ahead *a)
{
    return a->rests;
}

static bool
is_filled(const struct ahead *a)
{
    return a->filled > a->taken;
}

static void
wait_until(struct ahead *a, bool (*there)(const struct ahead *a))
{
    while (!there(a)) {
        waker_arm(&a->session);
        if (!there(a)) waker_sleep(&a->session, 0);
        waker_disarm(&a->session);
    }
}

/* Restarts reading at another position, also while the source's thread is reading. */
static int
go_to(struct ahead *a, const struct batch_at *at)
{
    if (a->begun) {
        send_order(a, REST);
        wait_until(a, rests);
    }
    a->nread += a->filled;
    a->filled = a->taken = 0;
    a->next = a->expected = *at;
    if (a->begun) {
        send_order(a, WORK);
        return 0;
    }
    TRY(thread_start(&a->thread, read_ahead_work, a));
    a->begun = true;
    return 0;
}

static bool
same_place(const struct batch_at *a, const struct batch_at *b)
{
    return a->seed == b->seed && a->epoch == b->epoch && a->first == b->first && a->n == b->n &&
           a->length == b->length && a->vocab == b->vocab;
}

int
read_ahead_take(struct ahead *a, const struct batch_at *at, const void **out)
{
    assert(!a->held);
    if (!a->begun || !same_place(&a->expected, at)) TRY(go_to(a, at));
    if (!is_filled(a)) {
        int64_t start = now_ns();
        a->nwait++;
        wait_until(a, is_filled);
        a->wait += 1e-9 * (double)(now_ns() - start);
    }
    const struct reg *r = &a->reg[a->taken % READ_AHEAD_DEPTH];
    a->held = true;
    a->ntaken++;
    a->expected = a->source.next(a->source.arg, at);
    *out = r->data;
    if (!r->status) return 0;
    int status = fail((enum err_code)r->status, "%s", r->why);
    read_ahead_give_back(a);
    return status;
}

void
read_ahead_give_back(struct ahead *a)
{
    assert(a->held);
    a->held = false;
    a->taken++;
    waker_wake(&a->worker);
}

void
read_ahead_stats(const struct ahead *a, struct rille_source_stats *out)
{
    *out = (struct rille_source_stats){.depth = READ_AHEAD_DEPTH,
                                       .read = a->nread + a->filled,
                                       .taken = a->ntaken,
                                       .waited = a->nwait,
                                       .full = a->nfull,
                                       .wait = a->wait};
}
