/* device.h - device kinds, devices and their memory.
 *
 * A device is identified by its kind, a record, and its number within the kind. A device's pool provides two sorts
 * of memory. Buffers outlive a run (values of variables, results). One arena block is shared by all plans; a
 * plan's registers have fixed offsets in it. Only the session's thread allocates and frees buffers, so a pool
 * needs no lock. Host code accesses the bytes of a device only through its kind, unless the kind has HOST_READS.
 *
 * Kinds: cpu (completes work before it returns); meta (any number of devices without values, for planning); async
 * (for tests: executes the work of its streams later, and accesses to its memory by host code fault); cuda (GPUs,
 * by a plug-in: device_cuda.h). */
#ifndef RILLE_RUNTIME_DEVICE_H
#define RILLE_RUNTIME_DEVICE_H

#include "runtime/base/base.h"
#include "runtime/base/device_kinds.h"

enum device_flags {
    HOST_READS = 1, /* host code may access the device's bytes directly */
    NO_BYTES = 2,   /* values have a layout but no bytes; a session prints plans, but does not run them */
    FUSES = 4,      /* computes chains of element-wise operators in one pass */
    /* all devices of the kind share one memory space: they read each other's bytes in place */
    ONE_SPACE = 8,
    COMPILES = 16, /* has compiled kernels (kernels/cuda) */
    /* a device has one stream per role (stream.h); not set: a device has a single stream, if the kind has streams */
    ROLES = 32,
    MULTIPLIES = 64, /* a library may compute matrix products for the kind (kernels/cuda) */
    COLLECTS = 128,  /* a library runs collectives among its devices (communicator.h); implies ROLES */
    CONVOLVES = 256, /* a library may compute convolutions for the kind (kernels/cuda) */
};

struct stream;
struct stream_work;
struct communicator;
struct communicator_post;
struct collective_call;
struct view_rows;

/* Events of a device that launches work. A thread records an event (note); the event then stands for all work that
 * this thread has launched on the device so far. E_KERNEL: the device is broken. */
struct device_events {
    int (*make)(int device, void **event);
    void (*drop)(int device, void *event);
    int (*note)(int device, void *event);
    int (*await)(int device, void *event);  /* blocks until the event's work is complete; any thread */
    int (*follow)(int device, void *event); /* makes later launches of this thread wait for the event's work */
    /* Sets whether launches of this thread may be deferred until the thread calls note, follow or settle. NULL:
     * launches are never deferred. */
    void (*gather)(bool on);
};

/* The record of a device kind. Only the session's thread calls these functions, between runs; exceptions are the
 * functions of streams. */
struct device_kind {
    int number; /* number of the kind: DEV_CPU, ... (device_kinds.h) */
    unsigned flags;
    int variants;        /* number of the kind whose kernel variants devices of this kind run */
    const char *missing; /* reason why this process has no devices of this kind; NULL: it may have some */
    /* Allocates memory aligned to 64 bytes. NULL: there is no memory, or (after E_KERNEL) the device is broken. */
    void *(*take)(int device, size_t bytes);
    void (*give)(int device, void *p, size_t bytes);
    /* copy and fill block until they are complete. E_KERNEL: the device is broken. */
    /* copies between the device's memory and the host's, or within the device's */
    int (*copy)(void *dst, const void *src, size_t bytes);
    int (*fill)(void *p, int byte, size_t bytes);
    /* ---- streams (stream.h); all NULL: work is complete when the function that does it returns ---- */
    /* Creates a stream. role: enum stream_role. driven: the stream works only when step is called (for the
     * simulator). E_MEMORY, E_KERNEL. */
    int (*stream_new)(int device, int role, bool driven, struct stream **out);
    void (*stream_free)(struct stream **s); /* all work of the stream must be complete */
    int (*enqueue)(struct stream *s, const struct stream_work *w);
    int64_t (*mark)(const struct stream *s);
    bool (*passed)(const struct stream *s, int64_t mark);
    void (*wait)(struct stream *s, const struct stream *other, int64_t mark);
    void (*show)(struct stream *s); /* see stream_show(); NULL: the completion of each item is visible at once */
    int (*trouble)(struct stream *s, int64_t mark);
    bool (*step)(struct stream *s);
    /* For host streams that launch work on a device: waits until all work that this thread has launched on the
     * device is complete. */
    int (*settle)(int device);          /* NULL: the kind's work launches nothing on a device. E_KERNEL */
    const struct device_events *events; /* events for the launched work; not NULL if settle is not NULL */
    /* Begins a copy between memory spaces, as part of stream work; settle waits for the end of the copy. *begun
     * false: the host memory is not pinned, so host code must copy. carry NULL: host code always copies. E_KERNEL. */
    int (*carry)(int device, void *to, const void *from, const struct view_rows *rows, bool *begun);
    /* Sets the callback fn(of), which is called when work is complete. NULL: the stream's owner must poll. */
    void (*tell)(struct stream *s, void (*fn)(void *of), void *of);
    void *(*reach)(void *p); /* returns the address of p for host code that runs as work of the kind */
    /* ---- collectives: only for kinds with COLLECTS, except connect ---- */
    /* Returns the communicator of these devices, listed by rank; the kind owns it, and connect() creates the
     * library's part. edge: the communicator is a point-to-point link. */
    struct communicator *(*communicator)(bool edge, int32_t n, const int32_t *device);
    /* Prepares the collectives of a run. Makes communicators that cut() has cut usable again. Creates those of the
     * n communicators that do not exist yet, in order. Blocks until all processes with ranks have called connect.
     * post: exchanges ids; may be NULL if no new communicator has ranks in other processes. E_KERNEL; E_CANCEL:
     * cut() was called meanwhile. connect NULL: the kind has no library. */
    int (*connect)(int n, struct communicator *const *c, const struct communicator_post *post);
    /* Begins a rank's part of a collective, as stream work. On a link, the sender has no `out`, and the receiver
     * no `in`. E_KERNEL; E_CANCEL: the communicator was cut. The function may return STREAM_HELD. */
    int (*collect)(struct communicator *c, int32_t comm_rank, const struct collective_call *call,
                   const struct stream *s, const void *in, void *out);
    /* Cuts the kind's communicators after a run has failed, because some ranks will not begin their parts. Parts
     * that wait for these ranks, and connect(), then return E_CANCEL until the next run. Any thread. */
    void (*cut)(void);
};
const struct device_kind *device_kind(int kind);
/* Returns the memory space of a device; devices in one space read each other's bytes in place. 0: the host's space. */
int32_t device_space(int kind, int32_t device);
/* Returns the kind whose streams copy bytes between devices of two kinds in different memory spaces: the kind
 * whose streams can access both spaces. For two devices of one kind, that is their kind, and the streams of the
 * reading device copy. -1: the streams of neither kind can access both spaces. */
int device_carrier(int from, int to);
/* The test kind async. Tests clear its flag ONE_SPACE to imitate GPUs without peer access, and its flag ROLES to
 * imitate devices whose work does not overlap. */
extern struct device_kind device_late;
/* Least size of pinned cpu blocks, bytes. Smaller blocks, and all blocks in a process without GPUs, are not
 * pinned. Pinned blocks can be copied to and from GPUs during computation. */
enum { PINNED = 128 << 10 };

/* Unfinished work on streams may still access bytes of pools. A work order numbers work in the order in which the
 * work completes. Each buffer stores two numbers: of the last work that accesses the buffer, and of the last work
 * that writes it. If a pool reuses a block, new work on the block runs after that work. The functions below wait
 * for that work before host code accesses the bytes. Session's thread; any thread reads `done`. */
struct work_order {
    uint64_t begun;        /* number of the last work that was begun */
    _Atomic uint64_t done; /* all work up to and including this number is complete */
    /* Waits until the work with this number is complete. must true: leaves the work's errors to be reported later.
     * must false: returns these errors at once; E_CANCEL means that the work is not complete. */
    int (*await)(void *of, uint64_t number, bool must);
    void *of;
    uint64_t *failed; /* numbers of failed work, whose results are invalid */
    int32_t nfailed, failed_capacity;
};

struct pool;
struct buffer {
    struct pool *pool;
    void *data; /* address, aligned to 64 bytes */
    size_t bytes;
    int32_t nref;
    /* value of pool_source.generation when the buffer was created; a later value means that the content is lost */
    uint32_t generation;
    /* number of the last work that accesses the buffer (touched), and of the last that writes it (written); 0: none */
    uint64_t touched, written;
};

/* Creates the memory pool of a device; the session owns it. limit_bytes: memory limit; 0: only the host's. */
struct pool *pool_new(int kind, int device, size_t limit_bytes);
/* A source of memory. After pool_from(), a new pool allocates from the source, not from the device's kind. take:
 * returns memory aligned to 64 bytes, or NULL. */
struct pool_source {
    void *(*take)(void *of, size_t bytes);
    void (*give)(void *of, void *p);
    /* Copy bytes between this process and another host, which stores them. The addresses are in this process's
     * address space, although the process itself never accesses them. Any thread. NULL: the bytes are local. */
    int (*read)(void *of, void *to, const void *from, size_t bytes);
    int (*write)(void *of, void *to, const void *from, size_t bytes);
    /* Copies bytes to this source from another source of a pool in the same cluster. bring NULL: the caller uses
     * read and write. */
    int (*bring)(void *of, void *to, void *source_of, const void *from, size_t bytes);
    void *of;
    const uint32_t *generation; /* number that changes when all content is lost; NULL: content is never lost */
};
void pool_from(struct pool *p, const struct pool_source *source);
/* Returns true if the pool allocates from this source. */
bool pool_is_from(const struct pool *p, const struct pool_source *source);
/* Sets the work order of a pool: work of this order may access the pool's bytes. The order must outlive the pool. */
void pool_order(struct pool *p, const struct work_order *order);
void pool_free(struct pool **p); /* call only after all buffers were dropped */
/* Gives up the pool. The drop of the pool's last buffer, on any thread, then frees the pool. The caller guards
 * these drops by a lock. */
void pool_leave(struct pool **p);
/* Sets the pool's memory limit; 0: no limit. Tests call it to make an allocation fail in the middle of a run. */
void pool_limit(struct pool *p, size_t limit_bytes);
/* Frees freed blocks that the pool keeps, except for 1/64 of the bytes in use: for phases, such as the loading of a
 * model, whose later requests have other sizes. */
void pool_shrink(struct pool *p);
/* Allocates a buffer. bytes 0: a buffer without data. E_MEMORY: "out of memory on cpu:1: needs 2.1 GB, 0.4 GB of
 * its limit free". The pool keeps freed blocks for later requests of about the same size, up to a number of bytes
 * that follows from recent needs. */
int buffer_new(struct pool *p, size_t bytes, struct buffer **out);
/* Allocates a buffer that host code will write at once. Prefers blocks that no unfinished work accesses. */
int buffer_new_for_host(struct pool *p, size_t bytes, struct buffer **out);
/* Makes a buffer of memory that the caller owns, aligned to 64 bytes. The pool's bytes must be in this process.
 * release: called once, when nothing uses the memory any more; may be NULL. */
void buffer_wrap(struct pool *p, void *data, size_t bytes, void (*release)(void *arg), void *arg, struct buffer **out);
bool buffer_is_wrapped(const struct buffer *b); /* returns true if buffer_wrap made the buffer */
void buffer_hold(struct buffer *b);
void buffer_drop(struct buffer **b);
/* drops the buffer, and frees its memory instead of keeping it in the pool */
void buffer_retire(struct buffer **b);
/* Waits until host code may read the bytes with the kind's functions; with writes = true, until it may write them.
 * The functions below call buffer_await(). E_KERNEL, E_CANCEL: see work_order.await. */
int buffer_await(const struct buffer *b, bool writes);
/* Returns true if work that wrote the buffer has failed, so that its content is invalid. */
bool buffer_failed(const struct buffer *b);
/* Returns the buffer's bytes in host memory. *data: address of the bytes. *copy: NULL if *data is the buffer
 * itself; else a copy, which the caller frees, even after an error. Call between runs. A thread other than the
 * session's may call the function only if no unfinished work writes the bytes. */
int buffer_on_host(const struct buffer *b, void **data, void **copy);
int buffer_device(const struct buffer *b); /* returns the number of the buffer's device within its kind */
/* Returns true if the content was lost together with the host that stored it; reading the buffer then fails with
 * E_LOST. */
bool buffer_is_lost(const struct buffer *b);
/* Returns true if host code may access the bytes in place. Otherwise, read with buffer_copy, and write all bytes
 * with buffer_write. */
bool buffer_host_reads(const struct buffer *b);
/* Returns true if the kind's functions can access the bytes; false: only the pool's source can. */
bool buffer_is_here(const struct buffer *b);
int buffer_write(const struct buffer *b, const void *from);
/* copies all bytes; both buffers must have equal size and kind */
int buffer_copy(const struct buffer *to, const struct buffer *from);
/* Copies a part of a buffer. May be called on any thread while the session holds both buffers. */
int buffer_copy_part(const struct buffer *to, const struct buffer *from, size_t at, size_t bytes);
/* Returns the device's arena block, with at least this many bytes. The block grows only between runs, when all work
 * is complete, and then loses its content. E_MEMORY. */
int pool_arena(struct pool *p, size_t bytes, void **out);

struct pool_count {
    size_t live_bytes; /* total size of allocated buffers, bytes */
    size_t arena_bytes;
    size_t peak_bytes;
    /* nbuffer: number of allocated buffers; nalloc: number of requests that the pool passed on to the system or
     * device */
    int64_t nbuffer, nalloc;
};
struct pool_count pool_count(const struct pool *p);

/* Kinds of work; each stream executes one kind. The streams of a device run concurrently; only waits for marks
 * order their work. */
enum stream_role {
    STREAM_COMPUTE, /* kernels; all work, if the device has only one stream */
    STREAM_IN,      /* copies from other memory spaces to this device */
    STREAM_OUT,     /* copies from this device to other memory spaces */
    STREAM_MOVE,    /* boxing (redistribution) among devices that can read each other's memory */
    STREAM_COLLECT, /* collectives of a library, which wait for other devices */
    STREAM_SEND,    /* sends by a library, which wait for the receiver: one stream per link */
    STREAM_RECV,    /* receives by a library, which wait for the sender: one stream per link */
    NSTREAM,
};
const char *stream_role_text(int role); /* returns the role's name, "compute" or "in" */

#endif
