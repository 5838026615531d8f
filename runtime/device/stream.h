/* stream.h - ordered asynchronous work of a device.
 *
 * A stream executes work in the order in which its owner enqueued it. A mark is a number that stands for all work
 * enqueued before; the stream passes the mark when that work is complete. Work on one stream may wait for a mark
 * of another stream. Only the thread that owns the device uses a stream, except that any thread may call `passed`.
 * Only the functions that create and free a stream may block or allocate. */
#ifndef RILLE_RUNTIME_STREAM_H
#define RILLE_RUNTIME_STREAM_H

#include "runtime/device/device.h"

struct finding;

/* Fields that streams of all kinds have. */
struct stream {
    const struct device_kind *kind;
    int device, role; /* device: number within the kind; role: enum stream_role */
};

/* An item of work for a stream: host code that computes a kernel, or launches it on a device. Memory to which the
 * item points must stay valid until the work is complete. Work accesses bytes only at addresses from
 * stream_reach(). */
enum { STREAM_HELD = -1 };
struct stream_work {
    /* Does the item's work. Returns 0, or an error code after fail() (see stream_trouble). On a driven stream, run
     * may return STREAM_HELD if the work waits for another device; the stream then calls run again later. */
    int (*run)(const struct stream_work *w, const struct stream *s);
    const void *of;
    void *const *in, *const *out;
    void *scratch;
    uint64_t piece;
    /* receives the first invalid element of the data (op.h); NULL: the work does not check data */
    struct finding *find;
    /* true: `run` only launches device work, in order, and accesses no bytes on the host */
    bool launches;
};

/* Enqueues work. s NULL: runs the work now. */
static inline int
stream_enqueue(struct stream *s, const struct stream_work *w)
{
    return s ? s->kind->enqueue(s, w) : w->run(w, NULL);
}
/* Returns a mark for all work enqueued on the stream so far. */
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
/* Makes work that is enqueued on s from now on wait for a mark of another stream of the same kind. */
static inline void
stream_wait(struct stream *s, const struct stream *other, int64_t mark)
{
    s->kind->wait(s, other, mark);
}
/* Makes the completion of the work enqueued so far visible as soon as this work is complete, not only together
 * with later work. Called if another stream or thread waits for the work. */
static inline void
stream_show(struct stream *s)
{
    if (s->kind->show) s->kind->show(s);
}
/* Makes the stream call fn(of) whenever work completes. The call is made on a thread of the stream, so fn must be
 * short. Call before work is enqueued. Returns false if the kind has no callbacks; then waiters must poll. */
static inline bool
stream_tell(struct stream *s, void (*fn)(void *of), void *of)
{
    if (s->kind->tell) s->kind->tell(s, fn, of);
    return s->kind->tell;
}
/* Returns 0 or, after fail(), the error of the stream's first failed work, if that work precedes the mark. After a
 * failure, the stream begins no more work. If the stream is idle, the call also clears the error. */
static inline int
stream_trouble(struct stream *s, int64_t mark)
{
    return s->kind->trouble(s, mark);
}
/* Runs the oldest work of a driven stream. Returns false if the stream is empty or its oldest work waits. */
static inline bool
stream_step(struct stream *s)
{
    return s->kind->step(s);
}
/* Returns the address through which work on the stream accesses p. */
static inline void *
stream_reach(const struct stream *s, void *p)
{
    return s ? s->kind->reach(p) : p;
}

#endif
