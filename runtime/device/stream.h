/* stream.h - ordered asynchronous work of a device.
 *
 * A stream executes work in the order in which its owner enqueued it. A mark stands for the work enqueued up to a
 * moment; the stream passes the mark when that work is done. Work of one stream may wait for a mark of another
 * stream. Only the thread that owns the device uses a stream, except that any thread may call `passed`. No function
 * blocks or allocates, except those that create and free a stream. */
#ifndef RILLE_RUNTIME_STREAM_H
#define RILLE_RUNTIME_STREAM_H

#include "runtime/device/device.h"

struct finding;

/* The kind of work a stream is for. Streams of one device run concurrently; only marks order them. */
enum stream_role {
    STREAM_COMPUTE, /* kernels; or all work, if the device has only one stream */
    STREAM_IN,      /* copies to this device */
    STREAM_OUT,     /* copies from this device */
    STREAM_MOVE,    /* boxing among devices that can read each other's memory */
    STREAM_COLLECT, /* a library's collectives, which wait for other devices */
    STREAM_SEND,    /* sends by a library, which wait for the receiver: one stream per edge */
    STREAM_RECV,    /* receives by a library */
    NSTREAM,
};
const char *stream_role_text(int role); /* "compute", "in" */

/* Base of the streams of every kind. */
struct stream {
    const struct device_kind *kind;
    int device, role; /* device number within the kind; enum stream_role */
};

/* A work item: host code that stands for a kernel. Memory that it points to must stay valid until the work is done.
 * It accesses bytes only through stream_reach. */
enum { STREAM_HELD = -1 };
struct stream_work {
    /* Returns 0 or E_..., after fail(): see stream_trouble. On a driven stream also STREAM_HELD: the work waits for
     * another device, and the stream calls run again. */
    int (*run)(const struct stream_work *w, const struct stream *s);
    const void *of;
    void *const *in, *const *out;
    void *scratch;
    uint64_t piece;
    struct finding *find; /* receives findings about bad data (op.h); NULL: the work does not check data */
    bool launches;        /* run touches no bytes on the host: it only launches device work, in order */
};

/* Enqueues work; s NULL: runs it now. */
static inline int
stream_enqueue(struct stream *s, const struct stream_work *w)
{
    return s ? s->kind->enqueue(s, w) : w->run(w, NULL);
}
/* Returns the mark of the work enqueued so far. */
static inline int64_t
stream_mark(const struct stream *s)
{
    return s->kind->mark(s);
}
static inline bool
stream_passed(const struct stream *s, int64_t mark)
{
    return s->kind->passed(s, mark);
}
/* Makes work enqueued on s from now on wait for a mark of another stream of its kind. */
static inline void
stream_wait(struct stream *s, const struct stream *other, int64_t mark)
{
    s->kind->wait(s, other, mark);
}
/* Makes the completion of the work so far visible as soon as it is done, not together with later work, because
 * others than this stream wait for it. */
static inline void
stream_show(struct stream *s)
{
    if (s->kind->show) s->kind->show(s);
}
/* Makes the stream call fn(of) whenever more work is done, on a thread of the stream; fn must be brief. Call this
 * before work is enqueued. Returns false if the kind cannot call back; then waiters must poll. */
static inline bool
stream_tell(struct stream *s, void (*fn)(void *of), void *of)
{
    if (s->kind->tell) s->kind->tell(s, fn, of);
    return s->kind->tell;
}
/* Returns 0, or, after fail(), the error of the first failed work before a passed mark; the stream begins no work
 * after that. A stream that reports the error while it is idle then clears it. */
static inline int
stream_trouble(struct stream *s, int64_t mark)
{
    return s->kind->trouble(s, mark);
}
/* Runs the oldest work of a driven stream. Returns false if no work is enqueued or the oldest work waits. */
static inline bool
stream_step(struct stream *s)
{
    return s->kind->step(s);
}
/* Returns the address by which work on the stream accesses p. */
static inline void *
stream_reach(const struct stream *s, void *p)
{
    return s ? s->kind->reach(p) : p;
}

#endif
