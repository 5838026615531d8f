/* stream.c - tests of host streams: work runs in order, streams wait for each other, and waiting threads wake up.
 *
 * More streams than cores add to one number, in an order that only the streams' waits determine. The owner of the
 * streams sleeps until it is notified; a lost wake-up would make the test hang. The test also runs on a simulated
 * device with launches: the device does nothing until a thread waits for it, and then runs launched work in a random
 * order. */
#include "runtime/base/error.h"
#include "runtime/device/stream_host.h"
#include "runtime/base/waker.h"
#include "t/lib/tap.h"

#include <pthread.h>

enum { STREAMS = 12, ROUNDS = 2000 };

static int64_t number, wrong; /* changed without locks, so that a wrong order of work gives a wrong result */

/* Runs as a piece of work: checks that the number has the expected value, and adds one. */
static int
step(const struct stream_work *w, const struct stream *s)
{
    UNUSED(s);
    wrong += (uint64_t)number != w->piece;
    number++;
    return 0;
}

static int
refuse(const struct stream_work *w, const struct stream *s)
{
    UNUSED(s);
    return fail(E_KERNEL, "work %d fails", (int)w->piece);
}

static int
nap(const struct stream_work *w, const struct stream *s)
{
    UNUSED(s);
    usleep((unsigned)w->piece);
    number++;
    return 0;
}

/* ---- an owner that sleeps ---- */

static struct waker owner;

static void
wake(void *of)
{
    waker_wake(of);
}

static void
sleep_until(const struct stream *s, int64_t mark)
{
    while (!stream_passed(s, mark)) {
        waker_arm(&owner);
        if (stream_passed(s, mark))
            waker_disarm(&owner);
        else
            waker_sleep(&owner, 0);
    }
}

static void
open_streams(struct stream **s, int n, bool driven)
{
    const struct device_kind *late = device_kind(DEV_ASYNC);
    for (int i = 0; i < n; i++) {
        if (late->stream_new(i, STREAM_COMPUTE, driven, &s[i])) printf("Bail out! %s\n", err_text());
        stream_tell(s[i], wake, &owner);
    }
}

static void
close_streams(struct stream **s, int n)
{
    for (int i = 0; i < n; i++) device_kind(DEV_ASYNC)->stream_free(&s[i]);
}

/* ---- rings of streams ---- */

/* Enqueues work on a ring of streams, in which each stream waits for the previous stream. one_by_one: the owner
 * waits for each piece of work; otherwise all work is enqueued at once. */
static void
in_a_ring(bool one_by_one)
{
    struct stream *s[STREAMS];
    number = wrong = 0;
    open_streams(s, STREAMS, false);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct stream *now = s[i % STREAMS], *before = s[(i + STREAMS - 1) % STREAMS];
        if (i > 0) stream_wait(now, before, stream_mark(before));
        stream_enqueue(now, &(struct stream_work){.run = step, .piece = i});
        if (one_by_one) sleep_until(now, stream_mark(now));
    }
    for (int i = 0; i < STREAMS; i++) sleep_until(s[i], stream_mark(s[i]));
    ok(wrong == 0 && number == ROUNDS, "%d streams that wait for each other run in order, %s", STREAMS,
       one_by_one ? "one at a time" : "all work enqueued at once");
    close_streams(s, STREAMS);
}

/* Lets all streams wait for one slow stream. Checks that each stream is woken up when the slow stream is done. */
static void
many_wait_for_one(void)
{
    struct stream *s[STREAMS];
    int64_t late = 0;
    open_streams(s, STREAMS, false);
    for (int round = 0; round < 50; round++) {
        number = wrong = 0;
        stream_enqueue(s[0], &(struct stream_work){.run = nap, .piece = (uint64_t)(round % 5 * 200)});
        for (int i = 1; i < STREAMS; i++) {
            stream_wait(s[i], s[0], stream_mark(s[0]));
            if (i > 1) stream_wait(s[i], s[i - 1], stream_mark(s[i - 1]));
            stream_enqueue(s[i], &(struct stream_work){.run = step, .piece = (uint64_t)i});
        }
        for (int i = STREAMS - 1; i >= 0; i--) sleep_until(s[i], stream_mark(s[i]));
        late += wrong + (number != STREAMS);
    }
    ok(late == 0, "all streams that wait for one stream continue");
    close_streams(s, STREAMS);
}

static void
trouble_is_kept(void)
{
    struct stream *s;
    number = wrong = 0;
    open_streams(&s, 1, false);
    stream_enqueue(s, &(struct stream_work){.run = step, .piece = 0});
    int64_t before = stream_mark(s);
    stream_enqueue(s, &(struct stream_work){.run = refuse, .piece = 7});
    stream_enqueue(s, &(struct stream_work){.run = step, .piece = 1});
    sleep_until(s, stream_mark(s));
    ok(!stream_trouble(s, before), "work done before a failure has no error");
    ok(stream_trouble(s, stream_mark(s)) == E_KERNEL && strstr(err_text(), "work 7"), "failed work reports its error");
    ok(number == 1, "no work after a failure begins");
    stream_enqueue(s, &(struct stream_work){.run = step, .piece = 1});
    sleep_until(s, stream_mark(s));
    ok(number == 2 && !stream_trouble(s, stream_mark(s)), "a reported failure is cleared, and later work runs");
    close_streams(&s, 1);
}

static void
driven_streams_wait_for_steps(void)
{
    struct stream *s[2];
    number = wrong = 0;
    open_streams(s, 2, true);
    stream_enqueue(s[0], &(struct stream_work){.run = step, .piece = 0});
    stream_wait(s[1], s[0], stream_mark(s[0]));
    stream_enqueue(s[1], &(struct stream_work){.run = step, .piece = 1});
    ok(!stream_step(s[1]) && number == 0, "a driven stream does nothing by itself, and waits for another stream");
    ok(stream_step(s[0]) && stream_step(s[1]) && stream_step(s[1]) && number == 2 && wrong == 0,
       "a step of a driven stream runs its oldest work");
    ok(!stream_step(s[1]), "a step of an empty driven stream returns false");
    close_streams(s, 2);
}

/* ---- a device that launches: each stream has a queue (lane) of launched work ---- */

struct event {
    int lane;
    int64_t upto;
};
static struct lane {
    struct launched {
        bool waits; /* true: the entry waits for the event `after`; false: it runs step(), which adds 1 to `number` */
        struct event after;
        uint64_t piece;
    } work[2 * ROUNDS];
    int64_t put, done;
} lane[STREAMS];
static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER; /* protects lanes, `number` and `seed` */
static uint64_t seed;
static int64_t nfollow;
static bool forgets; /* true: an injected fault, a device that does not wait for events */

static int
lane_add(int of, struct launched work)
{
    pthread_mutex_lock(&device);
    lane[of].work[lane[of].put++] = work;
    pthread_mutex_unlock(&device);
    return 0;
}

/* Runs the oldest work of a lane. Returns false if the lane is empty or waits for an event. */
static bool
lane_step(struct lane *l)
{
    const struct launched *w = &l->work[l->done];
    if (l->done == l->put || (w->waits && lane[w->after.lane].done < w->after.upto)) return false;
    if (!w->waits) step(&(struct stream_work){.piece = w->piece}, NULL);
    l->done++;
    return true;
}

static int
lane_await(int of, int64_t upto)
{
    pthread_mutex_lock(&device);
    while (lane[of].done < upto) {
        pthread_mutex_unlock(&device); /* unlocks while it sleeps, so that other threads can launch */
        usleep(10);
        pthread_mutex_lock(&device);
        lane_step(&lane[next_random(&seed) % STREAMS]);
    }
    pthread_mutex_unlock(&device);
    return 0;
}

static int
lane_settle(int of)
{
    return lane_await(of, lane[of].put);
}

static int
event_make(int of, void **event)
{
    UNUSED(of);
    *event = calloc(1, sizeof(struct event));
    return 0;
}

static void
event_drop(int of, void *event)
{
    UNUSED(of);
    free(event);
}

static int
event_note(int of, void *event)
{
    pthread_mutex_lock(&device);
    *(struct event *)event = (struct event){of, lane[of].put};
    pthread_mutex_unlock(&device);
    return 0;
}

static struct event
event_of(const void *event)
{
    pthread_mutex_lock(&device);
    struct event e = *(const struct event *)event;
    pthread_mutex_unlock(&device);
    return e;
}

static int
event_await(int of, void *event)
{
    struct event e = event_of(event);
    UNUSED(of);
    return lane_await(e.lane, e.upto);
}

static int
event_follow(int of, void *event)
{
    __atomic_add_fetch(&nfollow, 1, __ATOMIC_RELAXED);
    return forgets ? 0 : lane_add(of, (struct launched){.waits = true, .after = event_of(event)});
}

static int
launch(const struct stream_work *w, const struct stream *s)
{
    return lane_add(s->device, (struct launched){.piece = w->piece});
}

/* Host code that runs between launches: launches the step for odd pieces of work, and runs the step itself for
 * even ones. */
static int
look(const struct stream_work *w, const struct stream *s)
{
    if (w->piece % 2) return launch(w, s);
    pthread_mutex_lock(&device);
    step(w, s);
    pthread_mutex_unlock(&device);
    return 0;
}

/* Runs the ring of in_a_ring() on the simulated device with launches, with occasional host code. Returns the number
 * of pieces of work that found a wrong number. */
static int64_t
launch_in_a_ring(uint64_t from)
{
    static const struct device_events events = {event_make, event_drop, event_note, event_await, event_follow, NULL};
    static struct device_kind launches;
    struct stream *s[STREAMS];
    launches = *device_kind(DEV_ASYNC);
    launches.settle = lane_settle;
    launches.events = &events;
    memset(lane, 0, sizeof lane);
    number = wrong = nfollow = 0;
    seed = from;
    for (int i = 0; i < STREAMS; i++) {
        if (host_stream_new(&launches, i, STREAM_COMPUTE, false, &s[i])) printf("Bail out! %s\n", err_text());
        stream_tell(s[i], wake, &owner);
    }
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct stream *now = s[i % STREAMS], *before = s[(i + STREAMS - 1) % STREAMS];
        bool host = next_random(&from) % 16 == 0;
        if (i > 0) stream_wait(now, before, stream_mark(before));
        stream_enqueue(now, &(struct stream_work){.run = host ? look : launch, .piece = i, .launches = !host});
    }
    for (int i = 0; i < STREAMS; i++) sleep_until(s[i], stream_mark(s[i]));
    close_streams(s, STREAMS);
    return wrong + (number != ROUNDS);
}

static void
streams_that_launch(void)
{
    uint64_t from = seed_of(1);
    int64_t late = 0, follows = 0;
    for (uint64_t k = 0; k < 5; k++) {
        late += launch_in_a_ring(from + k);
        follows += nfollow;
    }
    ok(late == 0, "launched work of streams that wait for each other runs in order, whatever order the device prefers");
    ok(follows > 0, "the device waits instead of the host: %lld times", (long long)follows);
    forgets = true;
    for (uint64_t k = 0; k < 20 && late == 0; k++) late += launch_in_a_ring(from + k);
    ok(late > 0, "the test detects a device that does not wait");
}

int
main(void)
{
    in_a_ring(false);
    in_a_ring(true);
    many_wait_for_one();
    trouble_is_kept();
    driven_streams_wait_for_steps();
    streams_that_launch();
    return done();
}
