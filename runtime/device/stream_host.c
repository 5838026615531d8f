/* stream_host.c - streams whose work a host thread executes.
 *
 * A stream has a ring of work items, and a thread that executes them in order. A driven stream has no thread: a
 * simulator executes the oldest item at moments that it chooses at random. The owner counts enqueued items, and the
 * thread counts completed items; a mark is such a count.
 *
 * An item that only launches device work is complete when the device has finished that work. Such items are executed
 * in groups, and an event is recorded after each group. A group has at most GROUP consecutive items; it ends early
 * at an item that another stream or thread waits for (show). The thread waits for the device when it has nothing
 * else to launch, and before host code accesses bytes. When LAUNCHED groups are in flight, the thread waits for the
 * older half of them, so the device always has work. If an item waits for work in flight on another stream, the
 * device waits (follow), and the item's stream continues to launch.
 *
 * If there is no work, the thread sleeps on the stream's waker. If the oldest item waits for another stream, the
 * thread sleeps on that stream's bell. Before each sleep the thread polls, but for no longer than a sleep costs,
 * because there may be more streams than cores. */
#include "runtime/device/stream_host.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/denormal.h"
#include "runtime/base/error.h"
#include "runtime/base/thread.h"
#include "runtime/base/waker.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY = 4096, SPIN_NS = 2000, LAUNCHED = 8, GROUP = 32 };

struct item {
    /* the item's work. If its run is NULL, the item only waits for `mark` of stream `other`; with `other` NULL,
     * too, the item ends a group */
    struct stream_work work;
    const struct stream *other;
    int64_t mark;
};

struct host_stream {
    struct stream stream;
    bool driven;
    pthread_t thread;
    struct waker more; /* wakes the stream's thread when work is enqueued */
    _Atomic bool quit;
    /* enqueued: number of items enqueued so far, written by the owner; done: number of completed items, written by
     * the thread */
    _Atomic int64_t enqueued, done;
    /* number of items launched so far, written by the thread; items from `done` to `begun` are in flight on the
     * device */
    _Atomic int64_t begun;
    /* number of items taken from the ring so far; items from `begun` to `taken` are in the group that is being
     * launched */
    int64_t taken;
    int64_t ngroup, ngone; /* number of groups launched, and of groups completed */
    void *event[LAUNCHED]; /* events: the event after group g is at index g % LAUNCHED; NULL: the kind has no events */
    _Atomic int64_t upto[LAUNCHED]; /* marks: the mark at the end of group g is at index g % LAUNCHED */
    struct bell progress;           /* wakes other streams that wait for marks of this stream */
    void (*tell)(void *of);         /* callback after completed work; NULL: none */
    void *tell_of;
    struct item item[CAPACITY];
    int status; /* error code of the failed item; only the thread accesses it until `done` has passed the item */
    char text[1024];
    _Atomic int64_t failed; /* mark of the work before the failed item; INT64_MAX: no failure */
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

/* Copies the error text of the stream's thread, so that the owner can read the text. n: mark of the work before
 * the failed item. */
static void
keep_stream_failure(struct host_stream *s, int status, int64_t n)
{
    s->status = status;
    snprintf(s->text, sizeof s->text, "%s", err_text());
    atomic_store_explicit(&s->failed, n, memory_order_release);
}

/* Returns true if the items after this wait may begin: the work of the other stream is complete, or that work is
 * in flight and the device itself can wait for it. */
static bool
may_follow(const struct item *i)
{
    const struct host_stream *other = host(i->other);
    bool waits = other->stream.kind->events;
    return host_stream_passed(i->other, i->mark) ||
           (waits && atomic_load_explicit(&other->begun, memory_order_acquire) >= i->mark);
}

/* Returns an event after the work of the mark: the event of the first group that contains the mark. If the slot of
 * that event was reused, returns an event that follows later work, too. That work is already launched, so a wait
 * for the event ends. */
static void *
event_behind(const struct host_stream *s, int64_t mark)
{
    int found = -1;
    int64_t least = INT64_MAX;
    for (int i = 0; i < LAUNCHED; i++) {
        int64_t upto = atomic_load_explicit(&s->upto[i], memory_order_acquire);
        if (upto < mark || upto >= least) continue;
        least = upto;
        found = i;
    }
    assert(found >= 0);
    return s->event[found];
}

static int
follow_event(const struct host_stream *s, const struct item *i)
{
    if (!i->other || host_stream_passed(i->other, i->mark)) return 0;
    return s->stream.kind->events->follow(s->stream.device, event_behind(host(i->other), i->mark));
}

/* Executes an item, or skips it after a failure. Returns false if the item waits. */
static bool
run_item(struct host_stream *s, const struct item *i, int64_t n)
{
    if (atomic_load_explicit(&s->failed, memory_order_relaxed) < n) return true;
    int status = i->work.run ? i->work.run(&i->work, &s->stream) : follow_event(s, i);
    if (status == STREAM_HELD) return false;
    if (status) keep_stream_failure(s, status, n);
    return true;
}

static void
is_done(struct host_stream *s, int64_t n)
{
    atomic_store(&s->done, n);
    bell_ring(&s->progress);
    if (s->tell) s->tell(s->tell_of);
}

/* Records an error that the device has returned for work after mark n, unless an earlier error is recorded. */
static void
hear_status(struct host_stream *s, int status, int64_t n)
{
    if (status && atomic_load_explicit(&s->failed, memory_order_relaxed) == INT64_MAX)
        keep_stream_failure(s, status, n);
}

/* Waits for all launched work, and then marks the first n items as complete. */
static void
finish_item(struct host_stream *s, int64_t n)
{
    const struct device_kind *kind = s->stream.kind;
    if (kind->settle)
        hear_status(s, kind->settle(s->stream.device), atomic_load_explicit(&s->done, memory_order_relaxed));
    s->ngone = s->ngroup;
    is_done(s, n);
}

/* Waits for the work in flight, and marks its items as complete. Returns false if nothing is in flight. */
static bool
settle_begun(struct host_stream *s)
{
    if (s->begun == atomic_load_explicit(&s->done, memory_order_relaxed)) return false;
    finish_item(s, s->begun);
    return true;
}

/* Ends the current group, which is then in flight. If LAUNCHED groups are in flight, waits for the older half.
 * Returns false if the group is empty. */
static bool
launch_taken(struct host_stream *s)
{
    const struct device_events *e = s->stream.kind->events;
    int64_t begun = s->begun, done = atomic_load_explicit(&s->done, memory_order_relaxed), g = s->ngroup;
    if (s->taken == begun) return false;
    hear_status(s, e->note(s->stream.device, s->event[g % LAUNCHED]), begun);
    atomic_store_explicit(&s->upto[g % LAUNCHED], s->taken, memory_order_release);
    s->ngroup = g + 1;
    atomic_store(&s->begun, s->taken);
    bell_ring(&s->progress);
    if (s->ngroup - s->ngone < LAUNCHED) return true;
    s->ngone += LAUNCHED / 2;
    hear_status(s, e->await(s->stream.device, s->event[(s->ngone - 1) % LAUNCHED]), done);
    is_done(s, s->upto[(s->ngone - 1) % LAUNCHED]);
    return true;
}

static void
put_item(struct host_stream *s, const struct item *item)
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
    put_item(host(s), &(struct item){.work = *w});
    return 0;
}

void
host_stream_wait(struct stream *s, const struct stream *other, int64_t m)
{
    put_item(host(s), &(struct item){.other = other, .mark = m});
}

void
host_stream_show(struct stream *s)
{
    put_item(host(s), &(struct item){0});
}

static bool
stream_has_work(struct host_stream *s)
{
    return s->taken < atomic_load_explicit(&s->enqueued, memory_order_acquire);
}

/* Returns the stream for whose work the oldest item waits; NULL: the item may begin. */
static struct host_stream *
held_by(struct host_stream *s)
{
    const struct item *i = &s->item[s->taken % CAPACITY];
    return !stream_has_work(s) || !i->other || may_follow(i) ? NULL : host(i->other);
}

/* Executes the oldest item. Returns false if the ring is empty or the item waits. */
static bool
begin_next_item(struct host_stream *s)
{
    int64_t n = s->taken;
    const struct item *i = &s->item[n % CAPACITY];
    if (!stream_has_work(s) || held_by(s)) return false;
    bool launches = s->stream.kind->events && (!i->work.run || i->work.launches);
    if (!launches || i->other) launch_taken(s);
    if (!launches) settle_begun(s);
    if (!run_item(s, i, n)) return false;
    s->taken = n + 1;
    if (launches) {
        if (!i->work.run || s->taken - s->begun == GROUP) launch_taken(s);
    } else {
        /* no event follows work of host code, so this call waits for all launched work */
        finish_item(s, n + 1);
        s->begun = n + 1;
    }
    return true;
}

bool
host_stream_step(struct stream *stream)
{
    struct host_stream *s = host(stream);
    return begin_next_item(s) || launch_taken(s) || settle_begun(s);
}

void
host_stream_tell(struct stream *s, void (*fn)(void *of), void *of)
{
    host(s)->tell = fn;
    host(s)->tell_of = of;
}

static bool
may_go_on(struct host_stream *s)
{
    return atomic_load(&s->quit) || (stream_has_work(s) && !held_by(s));
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
    if (atomic_load(&s->quit) || stream_has_work(s))
        waker_disarm(&s->more);
    else
        waker_sleep(&s->more, 0);
}

static bool
stream_spin(struct host_stream *s)
{
    for (int64_t until = now_ns() + SPIN_NS; now_ns() < until; relax())
        if (may_go_on(s)) return true;
    return false;
}

/* Sleeps until there may be work. If a group is being launched, first waits briefly for more items of the group. */
static void
await_items(struct host_stream *s)
{
    if (s->taken == s->begun && settle_begun(s)) return;
    if (stream_spin(s) || launch_taken(s)) return;
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
    const struct device_events *e = s->stream.kind->events;
    denormals_flush();
    if (e && e->gather) e->gather(true);
    while (!atomic_load(&s->quit)) {
        while (begin_next_item(s)) continue;
        await_items(s);
    }
    if (e && e->gather) e->gather(false);
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

static void
drop_events(struct host_stream *s)
{
    for (int i = 0; i < LAUNCHED; i++)
        if (s->event[i]) s->stream.kind->events->drop(s->stream.device, s->event[i]);
}

static int
make_events(struct host_stream *s)
{
    const struct device_events *e = s->stream.kind->events;
    for (int i = 0; e && i < LAUNCHED; i++) TRY(e->make(s->stream.device, &s->event[i]));
    return 0;
}

/* Creates the stream's events, then its thread. */
static int
begin_item(struct host_stream *s)
{
    TRY(make_events(s));
    return s->driven ? 0 : thread_start(&s->thread, stream_thread, s);
}

int
host_stream_new(const struct device_kind *kind, int device, int role, bool driven, struct stream **out)
{
    struct host_stream *s = must_alloc(sizeof *s);
    s->stream = (struct stream){kind, device, role};
    s->driven = driven;
    atomic_store(&s->failed, INT64_MAX);
    int status = begin_item(s);
    if (status) {
        drop_events(s);
        free(s);
        return status;
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
    drop_events(s);
    free(s);
}
