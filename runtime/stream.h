/* stream.h - ordered work of a device.
 *
 * A stream does its work in the order in which its owner enqueued it, some time later. A mark names the work that is on
 * the stream so far; the stream passes it when all of that is done. Work of one stream may wait for a mark of another.
 * Only the thread that owns its device uses a stream; any thread may ask `passed`. Nothing here blocks or allocates but
 * what makes and frees a stream. */
#ifndef RILLE_RUNTIME_STREAM_H
#define RILLE_RUNTIME_STREAM_H

#include "runtime/device.h"

struct finding;

/* What work of its device a stream is for. Streams of one device go on side by side: only marks order them. */
enum stream_role {
    STREAM_COMPUTE, /* kernels; all work, where a device has one stream */
    STREAM_IN,      /* what lay elsewhere is brought here */
    STREAM_OUT,     /* what lies here is brought elsewhere */
    STREAM_MOVE,    /* from layout to layout, among devices that read each other's bytes */
    STREAM_COLLECT, /* parts in collectives of a library, which wait for other devices */
    STREAM_SEND,    /* what a library brings to a device elsewhere, which waits for that: a stream for each edge */
    STREAM_RECV,    /* what it brings from there */
    NSTREAM,
};
const char *stream_role_text(int role); /* "compute", "in" */

/* What every kind's stream begins with. */
struct stream {
    const struct device_kind *kind;
    int device, role; /* of that kind; enum stream_role */
};

/* One piece of work, in host code that stands for a kernel. What it points to stays until the work is done. It touches
 * bytes by stream_reach alone. */
enum { STREAM_HELD = -1 };
struct stream_work {
    /* E_..., after fail(): see stream_trouble. Of a driven stream STREAM_HELD: it waits for another device, and the
     * stream asks again. */
    int (*run)(const struct stream_work *w, const struct stream *s);
    const void *of;
    void *const *in, *const *out;
    void *scratch;
    uint64_t piece;
    struct finding *find; /* what is wrong in the data (op.h); NULL where the work looks for nothing */
    bool launches;        /* host code of it touches no bytes: it only launches what the device does later, in order */
};

/* Puts work on the stream; s NULL: does it now. */
static inline int
stream_enqueue(struct stream *s, const struct stream_work *w)
{
    return s ? s->kind->enqueue(s, w) : w->run(w, NULL);
}
/* Names all work that is on the stream now. */
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
/* Makes work that s gets from now on wait for a mark of another stream of its kind. */
static inline void
stream_wait(struct stream *s, const struct stream *other, int64_t mark)
{
    s->kind->wait(s, other, mark);
}
/* Others than who comes behind it on the stream wait for the work so far: it is told of as soon as it is done, not with
 * work that follows. */
static inline void
stream_show(struct stream *s)
{
    if (s->kind->show) s->kind->show(s);
}
/* Calls fn(of) whenever more of the stream is done: on a thread of the stream's, briefly. Before there is work. False:
 * it does not, and who waits has to look now and then. */
static inline bool
stream_tell(struct stream *s, void (*fn)(void *of), void *of)
{
    if (s->kind->tell) s->kind->tell(s, fn, of);
    return s->kind->tell;
}
/* 0, or, after fail(), why work before a passed mark failed: the first that did; the stream begins no work after it. A
 * stream that tells it with nothing left to do forgets it. */
static inline int
stream_trouble(struct stream *s, int64_t mark)
{
    return s->kind->trouble(s, mark);
}
/* Does the oldest work of a driven stream; false: there is none, or it waits. */
static inline bool
stream_step(struct stream *s)
{
    return s->kind->step(s);
}
/* The address by which work on the stream touches p. */
static inline void *
stream_reach(const struct stream *s, void *p)
{
    return s ? s->kind->reach(p) : p;
}

#endif
