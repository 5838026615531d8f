/* stream_host.c - streams whose work is done by a thread of the host.
 *
 * A stream is a ring of work and a thread that does it in order; driven, the ring
 * alone, of which the simulator does the oldest when its seed says so. The owner
 * counts what it has enqueued, the thread what is done: a mark is such a count. */
#include "runtime/stream_host.h"

#include "runtime/arena.h"
#include "runtime/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROOM = 4096 };

struct item {
    struct stream_work work; /* run NULL: waits for `mark` of `other` */
    const struct stream *other;
    int64_t mark;
};

struct host_stream {
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

/* After a failure nothing more is begun; what it says is the failing thread's, and kept for the owner's. */
static void
carry_out(struct host_stream *s, const struct item *i, int64_t n)
{
    if (atomic_load_explicit(&s->failed, memory_order_relaxed) < n || !i->work.run) return;
    int status = i->work.run(&i->work, &s->stream);
    if (!status) return;
    s->status = status;
    snprintf(s->text, sizeof s->text, "%s", err_text());
    atomic_store_explicit(&s->failed, n, memory_order_release);
}

static void
put(struct host_stream *s, const struct item *item)
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
    int64_t n = atomic_load_explicit(&s->done, memory_order_relaxed);
    if (n == atomic_load_explicit(&s->enqueued, memory_order_acquire)) return false;
    const struct item *i = &s->item[n % ROOM];
    if (i->other && !host_stream_passed(i->other, i->mark)) return false;
    carry_out(s, i, n);
    atomic_store_explicit(&s->done, n + 1, memory_order_release);
    return true;
}

static bool
has_work(struct host_stream *s)
{
    return atomic_load_explicit(&s->done, memory_order_relaxed) <
           atomic_load_explicit(&s->enqueued, memory_order_acquire);
}

static void *
stream_thread(void *arg)
{
    struct host_stream *s = arg;
    for (bool quit = false; !quit;) {
        while (host_stream_step(&s->stream)) continue;
        pthread_mutex_lock(&s->lock);
        while (!s->quit && !has_work(s)) pthread_cond_wait(&s->more, &s->lock);
        quit = s->quit;
        pthread_mutex_unlock(&s->lock);
        if (!quit) usleep(0); /* its oldest work may wait for another stream */
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
host_stream_new(const struct device_kind *kind, bool driven, struct stream **out)
{
    struct host_stream *s = must_alloc(sizeof *s);
    s->stream.kind = kind;
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

void
host_stream_free(struct stream **stream)
{
    struct host_stream *s = host(*stream);
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
