/* device_late.c - a device kind for tests: what is enqueued is done later, and host code that touches its bytes faults.
 *
 * It stands for a GPU where there is none. Its memory is a range of addresses that
 * nothing lies at; the bytes of address p are at p + LATE_BYTES, where its work
 * finds them (reach). A stream is a thread that does the work in order, or, driven,
 * a queue of which the simulator does the oldest when its seed says so. */
#include "runtime/arena.h"
#include "runtime/error.h"
#include "runtime/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory ---- */

static const size_t LATE_BYTES = (size_t)1 << 38;

/* Ranges that were given back, of all devices; taken again first fit. */
struct range {
    struct range *next;
    char *at;
    size_t bytes;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *base; /* LATE_BYTES that fault, and as many behind them */
static size_t used;
static struct range *idle;

static size_t
whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static bool
is_late(const char *p)
{
    return base && p >= base && p < base + LATE_BYTES;
}

static void *
reach(void *p)
{
    return is_late(p) ? (char *)p + LATE_BYTES : p;
}

static char *
take_idle(size_t bytes)
{
    for (struct range **r = &idle; *r; r = &(*r)->next) {
        struct range *found = *r;
        if (found->bytes < bytes) continue;
        char *at = found->at;
        found->at += bytes;
        found->bytes -= bytes;
        if (found->bytes == 0) {
            *r = found->next;
            free(found);
        }
        return at;
    }
    return NULL;
}

static char *
take_locked(size_t bytes)
{
    if (!base) {
        void *p = mmap(NULL, 2 * LATE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return NULL;
        base = p;
    }
    char *at = take_idle(bytes);
    if (at || bytes > LATE_BYTES - used) return at;
    at = base + used;
    used += bytes;
    return at;
}

static void *
take(int device, size_t bytes)
{
    UNUSED(device);
    bytes = whole_pages(bytes);
    pthread_mutex_lock(&lock);
    char *p = take_locked(bytes);
    pthread_mutex_unlock(&lock);
    return p && mprotect(reach(p), bytes, PROT_READ | PROT_WRITE) == 0 ? p : NULL;
}

/* The next who takes it finds zeros, as with fresh memory; whoever still touches it faults. */
static void
give(int device, void *p, size_t bytes)
{
    UNUSED(device);
    if (!p) return;
    bytes = whole_pages(bytes);
    madvise(reach(p), bytes, MADV_DONTNEED);
    mprotect(reach(p), bytes, PROT_NONE);
    struct range *r = must_alloc(sizeof *r);
    pthread_mutex_lock(&lock);
    *r = (struct range){idle, p, bytes};
    idle = r;
    pthread_mutex_unlock(&lock);
}

static void
copy(void *dst, const void *src, size_t bytes)
{
    memcpy(reach(dst), reach((void *)(uintptr_t)src), bytes);
}

static void
fill(void *p, int byte, size_t bytes)
{
    memset(reach(p), byte, bytes);
}

/* ---- streams ---- */

enum { ROOM = 4096 };

struct item {
    struct stream_work work; /* run NULL: waits for `mark` of `other` */
    const struct stream *other;
    int64_t mark;
};

struct late_stream {
    struct stream stream;
    bool driven;
    pthread_t thread;
    pthread_mutex_t lock; /* the worker sleeps on `more` when there is no work */
    pthread_cond_t more;
    bool quit;
    _Atomic int64_t enqueued, done; /* the owner's, the worker's */
    struct item item[ROOM];
    int status; /* of the work that failed; the worker's, until `done` says so */
    char text[1024];
    _Atomic int64_t failed; /* mark of the work before it; INT64_MAX: none did */
};

static struct late_stream *
late(const struct stream *s)
{
    return (struct late_stream *)(uintptr_t)s;
}

static bool
passed(const struct stream *s, int64_t mark)
{
    return atomic_load_explicit(&late(s)->done, memory_order_acquire) >= mark;
}

static int64_t
mark(const struct stream *s)
{
    return atomic_load_explicit(&late(s)->enqueued, memory_order_relaxed);
}

/* After a failure nothing more is begun; what it says is the failing thread's, and kept for the owner's. */
static void
carry_out(struct late_stream *s, const struct item *i, int64_t n)
{
    if (atomic_load_explicit(&s->failed, memory_order_relaxed) < n || !i->work.run) return;
    int status = i->work.run(&i->work, &s->stream);
    if (!status) return;
    s->status = status;
    snprintf(s->text, sizeof s->text, "%s", err_text());
    atomic_store_explicit(&s->failed, n, memory_order_release);
}

static void
put(struct late_stream *s, const struct item *item)
{
    int64_t n = atomic_load_explicit(&s->enqueued, memory_order_relaxed);
    assert(n - atomic_load_explicit(&s->done, memory_order_acquire) < ROOM);
    s->item[n % ROOM] = *item;
    if (s->driven) {
        atomic_store_explicit(&s->enqueued, n + 1, memory_order_release);
        return;
    }
    pthread_mutex_lock(&s->lock);
    atomic_store_explicit(&s->enqueued, n + 1, memory_order_release);
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static int
enqueue(struct stream *s, const struct stream_work *w)
{
    put(late(s), &(struct item){.work = *w});
    return 0;
}

static void
wait_for(struct stream *s, const struct stream *other, int64_t m)
{
    put(late(s), &(struct item){.other = other, .mark = m});
}

static bool
step(struct stream *stream)
{
    struct late_stream *s = late(stream);
    int64_t n = atomic_load_explicit(&s->done, memory_order_relaxed);
    if (n == atomic_load_explicit(&s->enqueued, memory_order_acquire)) return false;
    const struct item *i = &s->item[n % ROOM];
    if (i->other && !passed(i->other, i->mark)) return false;
    carry_out(s, i, n);
    atomic_store_explicit(&s->done, n + 1, memory_order_release);
    return true;
}

static bool
has_work(struct late_stream *s)
{
    return atomic_load_explicit(&s->done, memory_order_relaxed) <
           atomic_load_explicit(&s->enqueued, memory_order_acquire);
}

static void *
stream_thread(void *arg)
{
    struct late_stream *s = arg;
    for (bool quit = false; !quit;) {
        while (step(&s->stream)) continue;
        pthread_mutex_lock(&s->lock);
        while (!s->quit && !has_work(s)) pthread_cond_wait(&s->more, &s->lock);
        quit = s->quit;
        pthread_mutex_unlock(&s->lock);
        if (!quit) usleep(0); /* its oldest work may wait for another stream */
    }
    return NULL;
}

static int
trouble(struct stream *stream, int64_t m)
{
    struct late_stream *s = late(stream);
    if (atomic_load_explicit(&s->failed, memory_order_acquire) >= m) return 0;
    if (passed(stream, mark(stream))) atomic_store_explicit(&s->failed, INT64_MAX, memory_order_relaxed);
    return fail((enum err_code)s->status, "%s", s->text);
}

static int
stream_new(int device, bool driven, struct stream **out)
{
    struct late_stream *s = must_alloc(sizeof *s);
    UNUSED(device);
    s->stream.kind = &device_late;
    s->driven = driven;
    atomic_store(&s->failed, INT64_MAX);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    if (!driven && pthread_create(&s->thread, NULL, stream_thread, s)) {
        free(s);
        return fail(E_MEMORY, "a stream's thread could not be started");
    }
    *out = &s->stream;
    return 0;
}

static void
stream_free(struct stream **stream)
{
    struct late_stream *s = late(*stream);
    *stream = NULL;
    if (!s) return;
    assert(!has_work(s));
    if (!s->driven) {
        pthread_mutex_lock(&s->lock);
        s->quit = true;
        pthread_cond_signal(&s->more);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    free(s);
}

const struct device_kind device_late = {
    .name = "late",
    .flags = FUSES | ONE_MEMORY,
    .rows = DEV_CPU,
    .take = take,
    .give = give,
    .copy = copy,
    .fill = fill,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .enqueue = enqueue,
    .mark = mark,
    .passed = passed,
    .wait = wait_for,
    .trouble = trouble,
    .step = step,
    .reach = reach,
};
