/* stream_host.c - streams whose work is done by a thread of the host.
 *
 * A stream is a ring of work and a thread that does it in order; driven, the ring
 * alone, of which the simulator does the oldest when its seed says so. The owner
 * counts what it has enqueued, the thread what is done: a mark is such a count.
 *
 * Work that only launches is done when its device says so, and an event behind each
 * group tells: pieces that follow each other up to one that others wait for (show),
 * GROUP at most, as far as there is work. The thread asks when it has nothing else to
 * launch, before host code touches bytes, and, for the older half, when LAUNCHED
 * groups are under way, so that the device always has some. Who waits for what is under
 * way lets the device wait (follow): a stream goes on to launch as soon as the other
 * has launched.
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

enum { CAPACITY = 4096, SPIN_NS = 2000, LAUNCHED = 8, GROUP = 32 };

struct item {
    struct stream_work work; /* run NULL: waits for `mark` of `other`; NULL too: a group ends */
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
    _Atomic int64_t begun;          /* the thread's: those from `done` on are under way on the device */
    int64_t taken;                  /* those from `begun` on are of the group that is being launched */
    int64_t ngroup, ngone;          /* that are launched; that are done */
    void *event[LAUNCHED];          /* behind group g is event g % LAUNCHED; NULL: its kind has none */
    _Atomic int64_t upto[LAUNCHED]; /* and that is the mark at its end */
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

/* May work behind this wait begin? It may when the other's is done, or under way where the device can wait. */
static bool
may_follow(const struct item *i)
{
    const struct host_stream *other = host(i->other);
    bool waits = other->stream.kind->events;
    return host_stream_passed(i->other, i->mark) ||
           (waits && atomic_load_explicit(&other->begun, memory_order_acquire) >= i->mark);
}

/* The event of the first group that holds what the mark names. One that was noted again meanwhile stands for more: also
 * for what is launched already, so that nobody waits for ever. */
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
follow(const struct host_stream *s, const struct item *i)
{
    if (!i->other || host_stream_passed(i->other, i->mark)) return 0;
    return s->stream.kind->events->follow(s->stream.device, event_behind(host(i->other), i->mark));
}

/* After a failure nothing more is begun. False: the work waits. */
static bool
carry_out(struct host_stream *s, const struct item *i, int64_t n)
{
    if (atomic_load_explicit(&s->failed, memory_order_relaxed) < n) return true;
    int status = i->work.run ? i->work.run(&i->work, &s->stream) : follow(s, i);
    if (status == STREAM_HELD) return false;
    if (status) keep_failure(s, status, n);
    return true;
}

static void
is_done(struct host_stream *s, int64_t n)
{
    atomic_store(&s->done, n);
    bell_ring(&s->progress);
    if (s->tell) s->tell(s->tell_of);
}

/* What the device says of work behind n: the first that fails is kept. */
static void
hear(struct host_stream *s, int status, int64_t n)
{
    if (status && atomic_load_explicit(&s->failed, memory_order_relaxed) == INT64_MAX) keep_failure(s, status, n);
}

/* Waits for all that was launched: n pieces of work are done. */
static void
finish(struct host_stream *s, int64_t n)
{
    const struct device_kind *kind = s->stream.kind;
    if (kind->settle) hear(s, kind->settle(s->stream.device), atomic_load_explicit(&s->done, memory_order_relaxed));
    s->ngone = s->ngroup;
    is_done(s, n);
}

/* Waits for what is under way, and tells that it is done. False: nothing is. */
static bool
settle(struct host_stream *s)
{
    if (s->begun == atomic_load_explicit(&s->done, memory_order_relaxed)) return false;
    finish(s, s->begun);
    return true;
}

/* What was taken is one more group under way; of too many it waits for the older half. False: nothing was. */
static bool
launch_taken(struct host_stream *s)
{
    const struct device_events *e = s->stream.kind->events;
    int64_t begun = s->begun, done = atomic_load_explicit(&s->done, memory_order_relaxed), g = s->ngroup;
    if (s->taken == begun) return false;
    hear(s, e->note(s->stream.device, s->event[g % LAUNCHED]), begun);
    atomic_store_explicit(&s->upto[g % LAUNCHED], s->taken, memory_order_release);
    s->ngroup = g + 1;
    atomic_store(&s->begun, s->taken);
    bell_ring(&s->progress);
    if (s->ngroup - s->ngone < LAUNCHED) return true;
    s->ngone += LAUNCHED / 2;
    hear(s, e->await(s->stream.device, s->event[(s->ngone - 1) % LAUNCHED]), done);
    is_done(s, s->upto[(s->ngone - 1) % LAUNCHED]);
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

void
host_stream_show(struct stream *s)
{
    put(host(s), &(struct item){0});
}

static bool
has_work(struct host_stream *s)
{
    return s->taken < atomic_load_explicit(&s->enqueued, memory_order_acquire);
}

/* The stream for which the oldest work waits, NULL: it may go on. */
static struct host_stream *
held_by(struct host_stream *s)
{
    const struct item *i = &s->item[s->taken % CAPACITY];
    return !has_work(s) || !i->other || may_follow(i) ? NULL : host(i->other);
}

/* Takes the oldest work. False: there is none, or it waits. */
static bool
take(struct host_stream *s)
{
    int64_t n = s->taken;
    const struct item *i = &s->item[n % CAPACITY];
    if (!has_work(s) || held_by(s)) return false;
    bool launches = s->stream.kind->events && (!i->work.run || i->work.launches);
    if (!launches || i->other) launch_taken(s);
    if (!launches) settle(s);
    if (!carry_out(s, i, n)) return false;
    s->taken = n + 1;
    if (launches) {
        if (!i->work.run || s->taken - s->begun == GROUP) launch_taken(s);
    } else {
        finish(s, n + 1); /* host code may have launched too: nobody follows that */
        s->begun = n + 1;
    }
    return true;
}

bool
host_stream_step(struct stream *stream)
{
    struct host_stream *s = host(stream);
    return take(s) || launch_taken(s) || settle(s);
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

static bool
spin(struct host_stream *s)
{
    for (int64_t until = now_ns() + SPIN_NS; now_ns() < until; relax())
        if (may_go_on(s)) return true;
    return false;
}

/* Until there may be something to do. A group waits a little for more of it. */
static void
await(struct host_stream *s)
{
    if (s->taken == s->begun && settle(s)) return;
    if (spin(s) || launch_taken(s)) return;
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
        while (take(s)) continue;
        await(s);
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

/* Its events, then the thread that uses them. */
static int
begin(struct host_stream *s)
{
    TRY(make_events(s));
    bool runs = s->driven || !pthread_create(&s->thread, NULL, stream_thread, s);
    return runs ? 0 : fail(E_MEMORY, "a stream's thread could not be started");
}

int
host_stream_new(const struct device_kind *kind, int device, int role, bool driven, struct stream **out)
{
    struct host_stream *s = must_alloc(sizeof *s);
    s->stream = (struct stream){kind, device, role};
    s->driven = driven;
    atomic_store(&s->failed, INT64_MAX);
    int status = begin(s);
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
