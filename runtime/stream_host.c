/* stream_host.c - streams whose work is done by a thread of the host.
 *
 * A stream is a ring of work and a thread that does it in order; driven, the ring
 * alone, of which the simulator does the oldest when its seed says so. The owner
 * counts what it has enqueued, the thread what is done: a mark is such a count.
 *
 * Work that only launches is done when its device says so. The thread asks when it
 * has nothing else to launch, before host code touches bytes, and after LAUNCHED
 * pieces of work, for which others may wait.
 *
 * The thread sleeps when there is no work, or when the oldest waits for another
 * stream: on its own waker, and on the count of that other. It spins a little
 * before, no longer than a sleep costs: there may be more streams than cores. */
#include "runtime/stream_host.h"

#include "runtime/arena.h"
#include "runtime/clock.h"
#include "runtime/denormal.h"
#include "runtime/error.h"
#include "runtime/waker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY = 4096, SPIN_NS = 2000, LAUNCHED = 8 };

struct item {
    struct stream_work work; /* run NULL: waits for `mark` of `other` */
    const struct stream *other;
    int64_t mark;
};

struct host_stream {
    struct stream stream;
    bool driven;
    pthread_t thread;
    struct waker more; /* of the thread, when there is no work */
    _Atomic bool quit;
    _Atomic int64_t enqueued, done; /* the owner's, the thread's */
    int64_t begun;                  /* the thread's: those from `done` on are under way on the device */
    struct bell progress;           /* for streams that wait for this one */
    void (*tell)(void *of);         /* NULL: nobody asked */
    void *tell_of;
    struct item item[CAPACITY];
    int status; /* of the work that failed; the worker's, until `done` says so */
    char text[1024];
    _Atomic int64_t failed; /* mark of the work before it; INT64_MAX: none did */
};

static struct host_stream *
host(const struct stream *s)
{
    return (struct host_stream *)(uintptr_t)s;
}

bool
host_stream_passed(const struct stream *s, int64_t mark)
{
    return atomic_load_explicit(&host(s)->done, memory_order_acquire) >= mark;
}

int64_t
host_stream_mark(const struct stream *s)
{
    return atomic_load_explicit(&host(s)->enqueued, memory_order_relaxed);
}

/* What it says is the failing thread's, and kept for the owner's. n: the mark of the work before it. */
static void
keep_failure(struct host_stream *s, int status, int64_t n)
{
    s->status = status;
    snprintf(s->text, sizeof s->text, "%s", err_text());
    atomic_store_explicit(&s->failed, n, memory_order_release);
}

/* After a failure nothing more is begun. False: the work waits. */
static bool
carry_out(struct host_stream *s, const struct item *i, int64_t n)
{
    if (atomic_load_explicit(&s->failed, memory_order_relaxed) < n || !i->work.run) return true;
    int status = i->work.run(&i->work, &s->stream);
    if (status == STREAM_HELD) return false;
    if (status) keep_failure(s, status, n);
    return true;
}

/* Waits for what is under way, and tells that it is done. False: nothing is. */
static bool
settle(struct host_stream *s)
{
    int64_t done = atomic_load_explicit(&s->done, memory_order_relaxed);
    if (done == s->begun) return false;
    int status = s->stream.kind->settle ? s->stream.kind->settle(s->stream.device) : 0;
    if (status && atomic_load_explicit(&s->failed, memory_order_relaxed) == INT64_MAX) keep_failure(s, status, done);
    atomic_store(&s->done, s->begun);
    bell_ring(&s->progress);
    if (s->tell) s->tell(s->tell_of);
    return true;
}

static void
put(struct host_stream *s, const struct item *item)
{
    int64_t n = atomic_load_explicit(&s->enqueued, memory_order_relaxed);
    assert(n - atomic_load_explicit(&s->done, memory_order_acquire) < CAPACITY);
    s->item[n % CAPACITY] = *item;
    atomic_store(&s->enqueued, n + 1);
    waker_wake(&s->more);
}

int
host_stream_enqueue(struct stream *s, const struct stream_work *w)
{
    put(host(s), &(struct item){.work = *w});
    return 0;
}

void
host_stream_wait(struct stream *s, const struct stream *other, int64_t m)
{
    put(host(s), &(struct item){.other = other, .mark = m});
}

bool
host_stream_step(struct stream *stream)
{
    struct host_stream *s = host(stream);
    int64_t n = s->begun, done = atomic_load_explicit(&s->done, memory_order_relaxed);
    const struct item *i = &s->item[n % CAPACITY];
    bool here = n < atomic_load_explicit(&s->enqueued, memory_order_acquire);
    if (!here || (i->other && !host_stream_passed(i->other, i->mark))) return settle(s);
    bool by_host = i->work.run && !i->work.launches;
    if (by_host) settle(s);
    if (!carry_out(s, i, n)) return settle(s);
    s->begun = n + 1;
    if (by_host || !s->stream.kind->settle || s->begun - done >= LAUNCHED) settle(s);
    return true;
}

void
host_stream_tell(struct stream *s, void (*fn)(void *of), void *of)
{
    host(s)->tell = fn;
    host(s)->tell_of = of;
}

static bool
has_work(struct host_stream *s)
{
    return s->begun < atomic_load_explicit(&s->enqueued, memory_order_acquire);
}

/* The stream for which the oldest work waits, NULL: it may go on. */
static struct host_stream *
held_by(struct host_stream *s)
{
    const struct item *i = &s->item[s->begun % CAPACITY];
    return !has_work(s) || !i->other || host_stream_passed(i->other, i->mark) ? NULL : host(i->other);
}

static bool
may_go_on(struct host_stream *s)
{
    return atomic_load(&s->quit) || (has_work(s) && !held_by(s));
}

static void
await_other(struct host_stream *s, struct host_stream *other)
{
    uint32_t armed = bell_arm(&other->progress);
    if (may_go_on(s))
        bell_disarm(&other->progress);
    else
        bell_sleep(&other->progress, armed);
}

static void
await_work(struct host_stream *s)
{
    waker_arm(&s->more);
    if (atomic_load(&s->quit) || has_work(s))
        waker_disarm(&s->more);
    else
        waker_sleep(&s->more, 0);
}

/* Until there may be something to do. */
static void
await(struct host_stream *s)
{
    for (int64_t until = now_ns() + SPIN_NS; now_ns() < until; relax())
        if (may_go_on(s)) return;
    struct host_stream *other = held_by(s);
    if (other)
        await_other(s, other);
    else
        await_work(s);
}

static void *
stream_thread(void *arg)
{
    struct host_stream *s = arg;
    denormals_flush();
    while (!atomic_load(&s->quit)) {
        while (host_stream_step(&s->stream)) continue;
        await(s);
    }
    return NULL;
}

int
host_stream_trouble(struct stream *stream, int64_t m)
{
    struct host_stream *s = host(stream);
    if (atomic_load_explicit(&s->failed, memory_order_acquire) >= m) return 0;
    if (host_stream_passed(stream, host_stream_mark(stream)))
        atomic_store_explicit(&s->failed, INT64_MAX, memory_order_relaxed);
    return fail((enum err_code)s->status, "%s", s->text);
}

int
host_stream_new(const struct device_kind *kind, int device, int role, bool driven, struct stream **out)
{
    struct host_stream *s = must_alloc(sizeof *s);
    s->stream = (struct stream){kind, device, role};
    s->driven = driven;
    atomic_store(&s->failed, INT64_MAX);
    if (!driven && pthread_create(&s->thread, NULL, stream_thread, s)) {
        free(s);
        return fail(E_MEMORY, "a stream's thread could not be started");
    }
    *out = &s->stream;
    return 0;
}

void
host_stream_free(struct stream **stream)
{
    struct host_stream *s = host(*stream);
    *stream = NULL;
    if (!s) return;
    assert(host_stream_passed(&s->stream, host_stream_mark(&s->stream)));
    if (!s->driven) {
        atomic_store(&s->quit, true);
        waker_wake(&s->more);
        pthread_join(s->thread, NULL);
    }
    free(s);
}
