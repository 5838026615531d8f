/* device.h - device kinds, devices and the memory they have.
 *
 * A device is a number within its kind; a kind is a record. A device's pool gives buffers: bytes that outlive a run
 * (values of variables, results), which only the session thread takes and gives back, so it needs no lock; and one
 * arena block, which all plans share and in which a plan's registers have fixed offsets. Host code touches bytes of a
 * device through its kind alone, but where it has HOST_READS.
 *
 * Kinds: cpu (finishes work before it returns); meta (as many ranks as the program names, no values); late (tests:
 * enqueues work on streams and does it later, and its memory faults when host code touches it); cuda (GPUs, by a
 * plug-in: device_cuda.h). */
#ifndef RILLE_RUNTIME_DEVICE_H
#define RILLE_RUNTIME_DEVICE_H

#include "runtime/base.h"

enum { DEV_CPU, DEV_META, DEV_LATE, DEV_CUDA, NDEVICE_KIND };

enum device_flags {
    HOST_READS = 1,  /* host code may touch its bytes */
    NO_BYTES = 2,    /* values have a layout and no bytes: a session reads its plans and runs none */
    FUSES = 4,       /* it computes chains of element-wise operators in one pass */
    ONE_SPACE = 8,   /* the devices of the kind are of one space: they read each other's bytes in place */
    COMPILES = 16,   /* kernels compiled for it may compute calls (kernels/cuda) */
    ROLES = 32,      /* a device has a stream of each role (stream.h), else, where there are streams, one for all */
    MULTIPLIES = 64, /* a library may compute products of matrices for it (kernels/cuda) */
    COLLECTS = 128,  /* a library makes collectives among its devices (communicator.h); it has ROLES too */
    CONVOLVES = 256, /* a library may compute convolutions for it (kernels/cuda) */
};

struct stream;
struct stream_work;
struct communicator;
struct communicator_post;
struct collective_call;
struct view_rows;

/* Marks on a device that launches: an event stands for all that the thread which noted it last had launched on the
 * device by then. E_KERNEL: the device is broken. */
struct device_events {
    int (*make)(int device, void **event);
    void (*drop)(int device, void *event);
    int (*note)(int device, void *event);
    int (*await)(int device, void *event);  /* blocks until all of that is done; any thread, like the next */
    int (*follow)(int device, void *event); /* what this thread launches on the device from now on waits for it */
    /* From now on what this thread launches may be put off until it notes, follows or settles; NULL: nothing is. */
    void (*gather)(bool on);
};

/* The session's thread calls all functions but those of streams, between runs. */
struct device_kind {
    const char *name;
    unsigned flags;
    int variants;        /* the kind whose kernel variants compute for it */
    const char *missing; /* why there are no devices of this kind; NULL: there may be */
    /* 64-byte aligned; NULL when there is no memory, or after E_KERNEL: the device is broken. */
    void *(*take)(int device, size_t bytes);
    void (*give)(int device, void *p, size_t bytes);
    /* Both block. E_KERNEL: the device is broken. */
    int (*copy)(void *dst, const void *src, size_t bytes); /* between its memory and the host's, or in it */
    int (*fill)(void *p, int byte, size_t bytes);
    /* ---- streams (stream.h); NULL: an act's work ends before the act returns ---- */
    /* role: enum stream_role. driven: it works when somebody calls step (the simulator), not by itself. E_MEMORY,
     * E_KERNEL. */
    int (*stream_new)(int device, int role, bool driven, struct stream **out);
    void (*stream_free)(struct stream **s); /* drained */
    int (*enqueue)(struct stream *s, const struct stream_work *w);
    int64_t (*mark)(const struct stream *s);
    bool (*passed)(const struct stream *s, int64_t mark);
    void (*wait)(struct stream *s, const struct stream *other, int64_t mark);
    void (*show)(struct stream *s); /* NULL: each piece of work is shown by itself */
    int (*trouble)(struct stream *s, int64_t mark);
    bool (*step)(struct stream *s);
    /* Of streams of the host's that launch work on a device: waits until all that this thread launched there is done.
     */
    int (*settle)(int device);          /* NULL: nothing is launched. E_KERNEL */
    const struct device_events *events; /* with settle */
    /* Of the work of a stream: begins to copy between spaces, as settle waits for. *begun false: host code has to,
     * since the host's memory is not pinned. NULL: it always has. E_KERNEL. */
    int (*carry)(int device, void *to, const void *from, const struct view_rows *rows, bool *begun);
    /* From now on who does the work calls fn(of) when it is done; NULL: the stream's owner has to look. */
    void (*tell)(struct stream *s, void (*fn)(void *of), void *of);
    void *(*reach)(void *p); /* the address by which its work, in host code, touches p */
    /* ---- collectives; used only with COLLECTS, but for meet ---- */
    /* The communicator of these devices, by seat; the kind's. It is made by meet. edge: of that use. */
    struct communicator *(*communicator)(bool edge, int32_t n, const int32_t *device);
    /* Before a run: what was cut is of use again, and those of n communicators are made that are not, one after the
     * other. Blocks until all processes that have seats have come. post: NULL: none of those that are still to be made
     * has seats in other processes. E_KERNEL; E_CANCEL: it was cut meanwhile.
     * NULL: the kind never has a library. */
    int (*meet)(int n, struct communicator *const *c, const struct communicator_post *post);
    /* Of the work of a stream: begins the part of a seat. Who passes has no `out`, who is passed no `in`. E_KERNEL,
     * E_CANCEL: it was cut. STREAM_HELD. */
    int (*collect)(struct communicator *c, int32_t seat, const struct collective_call *call, const struct stream *s,
                   const void *in, void *out);
    /* A run has failed, so that some seats will not begin theirs: the parts of others end, and who meets leaves, with
     * E_CANCEL, until the next run. Any thread. */
    void (*cut)(void);
};
const struct device_kind *device_kind(int kind);
const char *device_kind_text(int kind);
/* The space in which the bytes of a device lie: devices of one space read each other's in place. 0: the host's. */
int32_t device_space(int kind, int32_t device);
/* The kind whose streams carry bytes from a device of one kind to one of another space: they reach both; within one
 * kind the reader's do. -1: neither kind's do. */
int device_carrier(int from, int to);
/* -1 after fail(E_PLACE) naming the text. */
int device_kind_parse(const char *text);
/* Tests take ONE_SPACE away, for GPUs that do not reach each other, and ROLES, for work that never overlaps. */
extern struct device_kind device_late;
/* Blocks of a cpu of so many bytes and more are copied to GPUs and back while these compute, where there are any. */
enum { PINNED = 128 << 10 };

/* Work on streams that nobody has waited for yet may still touch bytes of pools. Whoever begins it counts it, in the
 * order in which it is done, notes in each buffer the number of the last work that touches it, and of the last that
 * writes it, and knows how to wait. Work that a buffer is made for is ordered behind all of that; host code waits, in
 * the functions below. The session's thread; `done` is read by any. */
struct work_order {
    uint64_t begun;        /* the number of the last work */
    _Atomic uint64_t done; /* all up to this number is done */
    /* Waits until work with this number is done. must: whatever happens, and what failed is told later; else it is told
     * now, and E_CANCEL says that the work is not done. */
    int (*await)(void *of, uint64_t number, bool must);
    void *of;
    uint64_t *failed; /* numbers of work that failed: what it wrote is no value */
    int32_t nfailed, failed_capacity;
};

struct pool;
struct buffer {
    struct pool *pool;
    void *data; /* 64-byte aligned */
    size_t bytes;
    int32_t nref;
    uint32_t generation;       /* of the pool's memory at buffer_new */
    uint64_t touched, written; /* the numbers of the last work that does so (work_order); 0: none */
};

/* A pool of one device; the session owns it. limit_bytes 0: no limit but the host's. */
struct pool *pool_new(int kind, int device, size_t limit_bytes);
/* From now on a fresh pool takes its memory from this source. take: 64-byte
 * aligned, or NULL. */
struct pool_source {
    void *(*take)(void *of, size_t bytes);
    void (*give)(void *of, void *p);
    /* Read and write bytes of another host, by addresses here that nobody touches. Any thread. NULL: the bytes lie
     * here. */
    int (*read)(void *of, void *to, const void *from, size_t bytes);
    int (*write)(void *of, void *to, const void *from, size_t bytes);
    /* Copies bytes of another such source, in a pool of the same cluster, here; NULL: read and write do. */
    int (*bring)(void *of, void *to, void *source_of, const void *from, size_t bytes);
    void *of;
    const uint32_t *generation; /* another number: all that lay there is lost; NULL: it never is */
};
void pool_from(struct pool *p, const struct pool_source *source);
/* From now on work of this order, which outlives the pool, may touch its bytes. */
void pool_order(struct pool *p, const struct work_order *order);
void pool_free(struct pool **p); /* after its last buffer_drop */
void pool_limit(struct pool *p, size_t limit_bytes);
/* E_MEMORY: "cpu:1 wanted 2.1 GB, 0.4 GB of its limit free". bytes 0 gives a buffer without data. The pool keeps freed
 * blocks for requests of the same size class, and returns them to the host when much lies idle. */
int buffer_new(struct pool *p, size_t bytes, struct buffer **out);
/* The same, of bytes that no work touches any more, where there is memory for them: host code writes them at once. */
int buffer_new_for_host(struct pool *p, size_t bytes, struct buffer **out);
void buffer_hold(struct buffer *b);
void buffer_drop(struct buffer **b);
void buffer_retire(struct buffer **b); /* drops it; as many bytes are not wanted again, and go back to the host */
/* Waits until host code may read its bytes (writes: write them) by the functions of its kind. All that follow do so by
 * themselves. E_KERNEL, E_CANCEL: as work_order.await says. */
int buffer_await(const struct buffer *b, bool writes);
/* Did work that wrote it fail after it was begun? */
bool buffer_failed(const struct buffer *b);
/* Gives its bytes where host code reads them: as they lie (*copy NULL), or in a copy that the caller frees, also after
 * a failure. Between runs. On another thread than the session's: of bytes that no work writes any more. */
int buffer_on_host(const struct buffer *b, void **data, void **copy);
/* Did it lose what it held, with the host that it was on? Reading it is E_LOST. */
bool buffer_is_lost(const struct buffer *b);
/* May host code touch its bytes as they lie? Else buffer_write writes them, all of them; or buffer_copy. */
bool buffer_host_reads(const struct buffer *b);
/* Do the functions of its kind reach its bytes? Else a source does. */
bool buffer_is_here(const struct buffer *b);
int buffer_write(const struct buffer *b, const void *from);
int buffer_copy(const struct buffer *to, const struct buffer *from); /* of as many bytes, and one kind */
/* The same of a part. Of buffers that the session holds meanwhile: any thread. */
int buffer_copy_part(const struct buffer *to, const struct buffer *from, size_t at, size_t bytes);
/* The arena block of the device, at least bytes long. It grows only between runs, when all work is done, and loses its
 * content then. E_MEMORY. */
int pool_arena(struct pool *p, size_t bytes, void **out);

struct pool_count {
    size_t live_bytes; /* in buffers handed out */
    size_t arena_bytes;
    size_t peak_bytes;
    int64_t nbuffer, nalloc; /* handed out now; requests that went to the host */
};
struct pool_count pool_count(const struct pool *p);

#endif
