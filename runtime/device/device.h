/* device.h - device kinds, devices and their memory.
 *
 * A device is a number within its kind; a kind is a record. A device's pool provides two sorts of memory. Buffers
 * outlive a run (values of variables, results). One arena block is shared by all plans; a plan's registers have
 * fixed offsets in it. Only the session's thread allocates and frees buffers, so a pool needs no lock. Host code
 * accesses the bytes of a device only through its kind, unless the kind has HOST_READS.
 *
 * Kinds: cpu (completes work before it returns); meta (as many ranks as the program names, no values); late (tests:
 * enqueues work on streams and does it later, and its memory faults if host code touches it); cuda (GPUs, by a
 * plug-in: device_cuda.h). */
#ifndef RILLE_RUNTIME_DEVICE_H
#define RILLE_RUNTIME_DEVICE_H

#include "runtime/base/base.h"
#include "runtime/base/device_kinds.h"

enum device_flags {
    HOST_READS = 1,  /* host code may access its bytes directly */
    NO_BYTES = 2,    /* values have a layout and no bytes: a session prints plans and runs none */
    FUSES = 4,       /* computes chains of element-wise operators in one pass */
    ONE_SPACE = 8,   /* devices of the kind share one memory space and read each other's bytes in place */
    COMPILES = 16,   /* has compiled kernels (kernels/cuda) */
    ROLES = 32,      /* one stream per role (stream.h); unset: one stream per device, if the kind has streams */
    MULTIPLIES = 64, /* a library may compute matrix products (kernels/cuda) */
    COLLECTS = 128,  /* a library runs collectives among its devices (communicator.h); implies ROLES */
    CONVOLVES = 256, /* a library may compute convolutions (kernels/cuda) */
};

struct stream;
struct stream_work;
struct communicator;
struct communicator_post;
struct collective_call;
struct view_rows;

/* Events of a device that launches work. A thread records an event (note); the event then stands for all work that
 * the thread has launched on the device so far. E_KERNEL: the device is broken. */
struct device_events {
    int (*make)(int device, void **event);
    void (*drop)(int device, void *event);
    int (*note)(int device, void *event);
    int (*await)(int device, void *event);  /* blocks until that work is done; any thread may call */
    int (*follow)(int device, void *event); /* makes later launches of this thread wait for that work */
    /* Lets launches of this thread be deferred from now on, until it notes, follows or settles; NULL: launches are
     * never deferred. */
    void (*gather)(bool on);
};

/* All functions except those of streams are called by the session's thread, between runs. */
struct device_kind {
    int number; /* of enum DEV_CPU.. (device_kinds.h) */
    unsigned flags;
    int variants;        /* the kind whose kernel variants it uses */
    const char *missing; /* reason why there are no devices of this kind; NULL: there may be devices */
    /* Allocates 64-byte aligned memory; NULL if there is none, or after E_KERNEL: the device is broken. */
    void *(*take)(int device, size_t bytes);
    void (*give)(int device, void *p, size_t bytes);
    /* Both functions block. E_KERNEL: the device is broken. */
    int (*copy)(void *dst, const void *src, size_t bytes); /* between its memory and the host's, or in it */
    int (*fill)(void *p, int byte, size_t bytes);
    /* ---- streams (stream.h); NULL: an act's work ends before the act returns ---- */
    /* role: enum stream_role. driven: the stream works only when step is called (the simulator). E_MEMORY, E_KERNEL. */
    int (*stream_new)(int device, int role, bool driven, struct stream **out);
    void (*stream_free)(struct stream **s); /* the stream must be drained */
    int (*enqueue)(struct stream *s, const struct stream_work *w);
    int64_t (*mark)(const struct stream *s);
    bool (*passed)(const struct stream *s, int64_t mark);
    void (*wait)(struct stream *s, const struct stream *other, int64_t mark);
    void (*show)(struct stream *s); /* NULL: the completion of each work item is visible at once */
    int (*trouble)(struct stream *s, int64_t mark);
    bool (*step)(struct stream *s);
    /* Host streams that launch work on a device: waits until all work is done that this thread has launched on the
     * device. */
    int (*settle)(int device);          /* NULL: nothing is launched. E_KERNEL */
    const struct device_events *events; /* set if settle is set */
    /* Called by stream work: begins a copy between spaces, for which settle waits. *begun false: host code must
     * copy, because the host memory is not pinned. NULL: host code always copies. E_KERNEL. */
    int (*carry)(int device, void *to, const void *from, const struct view_rows *rows, bool *begun);
    /* Sets a callback: fn(of) is called when work is done; NULL: the stream's owner must poll. */
    void (*tell)(struct stream *s, void (*fn)(void *of), void *of);
    void *(*reach)(void *p); /* the address by which its work, in host code, accesses p */
    /* ---- collectives; used only with COLLECTS, but for connect ---- */
    /* Returns the communicator of these devices, by rank, owned by the kind and created by connect. edge: it is an
     * edge. */
    struct communicator *(*communicator)(bool edge, int32_t n, const int32_t *device);
    /* Prepares collectives before a run: makes communicators usable again after a cut, and creates those of the n
     * that do not exist yet, in order. Blocks until all processes with ranks have called. post NULL: no missing
     * communicator has ranks in other processes. E_KERNEL; E_CANCEL: cut meanwhile. NULL: the kind has no library. */
    int (*connect)(int n, struct communicator *const *c, const struct communicator_post *post);
    /* Called by stream work: begins the part of a rank. The sender of an edge has no `out`, the receiver no `in`.
     * E_KERNEL, E_CANCEL: cut. STREAM_HELD. */
    int (*collect)(struct communicator *c, int32_t comm_rank, const struct collective_call *call,
                   const struct stream *s, const void *in, void *out);
    /* Cuts communicators after a run has failed, because some ranks will not begin their parts: the parts of others
     * end, and connect returns, with E_CANCEL, until the next run. Any thread. */
    void (*cut)(void);
};
const struct device_kind *device_kind(int kind);
/* Returns the memory space of a device; devices in one space read each other's bytes in place. 0: the host's space. */
int32_t device_space(int kind, int32_t device);
/* Returns the kind whose streams copy bytes from a device of one kind to a device of another in a different space:
 * they reach both. Within one kind the reader's streams copy. -1: neither kind's. */
int device_carrier(int from, int to);
/* Tests clear ONE_SPACE to imitate GPUs without access to each other, and ROLES to imitate work without overlap. */
extern struct device_kind device_late;
/* Minimum size of pinned cpu blocks, bytes: they are copied to and from GPUs during computation, if there are GPUs. */
enum { PINNED = 128 << 10 };

/* Unfinished work on streams may still access bytes of pools. The owner of a work order numbers the work in order of
 * completion. Each buffer stores the number of the last work that accesses the buffer, and of the last that writes
 * it. Work for which a buffer is created is ordered after all of these; host code waits, in the functions below.
 * Session's thread; any thread reads `done`. */
struct work_order {
    uint64_t begun;        /* number of the last work */
    _Atomic uint64_t done; /* work with numbers up to this one is done */
    /* Waits until the work with this number is done. must: waits in any case, and a failure is reported later.
     * Otherwise a failure is reported now, and E_CANCEL means that the work is not done. */
    int (*await)(void *of, uint64_t number, bool must);
    void *of;
    uint64_t *failed; /* numbers of failed work, whose results are invalid */
    int32_t nfailed, failed_capacity;
};

struct pool;
struct buffer {
    struct pool *pool;
    void *data; /* 64-byte aligned */
    size_t bytes;
    int32_t nref;
    uint32_t generation;       /* generation of the pool's memory at buffer_new */
    uint64_t touched, written; /* numbers of the last work that accesses, and of the last that writes, the buffer
                                  (work_order); 0: none */
};

/* Creates the pool of a device, owned by the session. limit_bytes 0: no limit except the host's. */
struct pool *pool_new(int kind, int device, size_t limit_bytes);
/* Makes a new pool allocate from this source from now on. take: 64-byte aligned, or NULL. */
struct pool_source {
    void *(*take)(void *of, size_t bytes);
    void (*give)(void *of, void *p);
    /* Read and write bytes of another host, by addresses of this process that are never dereferenced. Any thread.
     * NULL: the bytes are local. */
    int (*read)(void *of, void *to, const void *from, size_t bytes);
    int (*write)(void *of, void *to, const void *from, size_t bytes);
    /* Copies bytes here from another source of a pool of the same cluster; NULL: use read and write. */
    int (*bring)(void *of, void *to, void *source_of, const void *from, size_t bytes);
    void *of;
    const uint32_t *generation; /* changes when all content is lost; NULL: never lost */
};
void pool_from(struct pool *p, const struct pool_source *source);
/* Declares that work of this order, which outlives the pool, may access the pool's bytes. */
void pool_order(struct pool *p, const struct work_order *order);
void pool_free(struct pool **p); /* call after the last buffer_drop */
void pool_limit(struct pool *p, size_t limit_bytes);
/* Allocates a buffer. E_MEMORY: "cpu:1 wanted 2.1 GB, 0.4 GB of its limit free". bytes 0: a buffer without data. The
 * pool keeps freed blocks for requests of the same size class, and returns them to the host if many are idle. */
int buffer_new(struct pool *p, size_t bytes, struct buffer **out);
/* Allocates a buffer that host code may write at once: prefers blocks that no unfinished work accesses. */
int buffer_new_for_host(struct pool *p, size_t bytes, struct buffer **out);
void buffer_hold(struct buffer *b);
void buffer_drop(struct buffer **b);
void buffer_retire(struct buffer **b); /* drops the buffer and returns the memory to the host */
/* Waits until host code may read (writes: write) the bytes by the functions of the kind. The functions below call
 * buffer_await. E_KERNEL, E_CANCEL: see work_order.await. */
int buffer_await(const struct buffer *b, bool writes);
/* Returns true if the work that wrote the buffer failed after it was begun. */
bool buffer_failed(const struct buffer *b);
/* Returns the bytes in host memory: in place (*copy NULL), or in a copy that the caller frees, also after a failure.
 * Between runs. Other threads than the session's only if no unfinished work writes the bytes. */
int buffer_on_host(const struct buffer *b, void **data, void **copy);
/* Returns true if the content was lost with the host that stored it. Reading it is E_LOST. */
bool buffer_is_lost(const struct buffer *b);
/* Returns true if host code may access the bytes in place. Otherwise use buffer_write, which writes all bytes, or
 * buffer_copy. */
bool buffer_host_reads(const struct buffer *b);
/* Returns true if the functions of the kind reach the bytes; otherwise a source does. */
bool buffer_is_here(const struct buffer *b);
int buffer_write(const struct buffer *b, const void *from);
int buffer_copy(const struct buffer *to, const struct buffer *from); /* equal size and kind */
/* Copies a part likewise. Any thread, for buffers that the session holds meanwhile. */
int buffer_copy_part(const struct buffer *to, const struct buffer *from, size_t at, size_t bytes);
/* Returns the device's arena block, of at least this many bytes. It grows only between runs, when all work is done,
 * and its content is then lost. E_MEMORY. */
int pool_arena(struct pool *p, size_t bytes, void **out);

struct pool_count {
    size_t live_bytes; /* bytes of allocated buffers */
    size_t arena_bytes;
    size_t peak_bytes;
    int64_t nbuffer, nalloc; /* allocated buffers; requests passed on to the host */
};
struct pool_count pool_count(const struct pool *p);

#endif
