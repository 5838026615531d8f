/* device.h - device kinds, devices and the memory they have.
 *
 * A device is a number within its kind; a kind is a record. A device's pool gives
 * buffers: bytes that outlive a run (values of variables, results), taken and
 * given back on the session thread, so no lock is needed; and one arena block,
 * shared by all plans, in which a plan's registers have fixed offsets. Host code
 * touches bytes of a device through its kind alone, but where it has HOST_READS.
 *
 * Kinds: cpu (work is done when it is begun); meta (as many ranks as are named, no
 * values); late (tests: work is enqueued on streams and done later, and its memory
 * faults when host code touches it); cuda (GPUs, by a plug-in: device_cuda.h). */
#ifndef RILLE_RUNTIME_DEVICE_H
#define RILLE_RUNTIME_DEVICE_H

#include "runtime/base.h"

enum { DEV_CPU, DEV_META, DEV_LATE, DEV_CUDA, NDEVICE_KIND };

enum device_flags {
    HOST_READS = 1, /* host code may touch its bytes */
    NO_BYTES = 2,   /* values have a layout and no bytes: plans of it are read, not run */
    FUSES = 4,      /* chains of element-wise operators are computed in one pass */
    ONE_SPACE = 8,  /* the devices of the kind are of one space: they read each other's bytes in place */
    COMPILES = 16,  /* calls may be computed by kernels that are compiled for it (kernels/cuda) */
};

struct stream;
struct stream_work;

/* All functions but those of streams: the session's thread, between runs. */
struct device_kind {
    const char *name;
    unsigned flags;
    int variants;                            /* the kind whose kernel variants compute for it */
    const char *missing;                     /* why there are no devices of this kind; NULL: there may be */
    void *(*take)(int device, size_t bytes); /* 64-byte aligned; NULL when there is no memory */
    void (*give)(int device, void *p, size_t bytes);
    /* Both block. E_KERNEL: the device is broken. */
    int (*copy)(void *dst, const void *src, size_t bytes); /* between its memory and the host's, or in it */
    int (*fill)(void *p, int byte, size_t bytes);
    /* ---- streams (stream.h); NULL: the work of an act is done when it was begun ---- */
    /* driven: work is done when somebody calls step (the simulator), not by itself. E_MEMORY. */
    int (*stream_new)(int device, bool driven, struct stream **out);
    void (*stream_free)(struct stream **s); /* drained */
    int (*enqueue)(struct stream *s, const struct stream_work *w);
    int64_t (*mark)(const struct stream *s);
    bool (*passed)(const struct stream *s, int64_t mark);
    void (*wait)(struct stream *s, const struct stream *other, int64_t mark);
    int (*trouble)(struct stream *s, int64_t mark);
    bool (*step)(struct stream *s);
    /* From now on fn(of) is called when work is done, by whom it is done; NULL: its owner has to look. */
    void (*tell)(struct stream *s, void (*fn)(void *of), void *of);
    void *(*reach)(void *p); /* the address by which its work, in host code, touches p */
};
const struct device_kind *device_kind(int kind);
const char *device_kind_text(int kind);
/* The space in which the bytes of a device lie: devices of one space read each other's in place. 0: the host's. */
int32_t device_space(int kind, int32_t device);
/* Bytes go from a device of one kind to one of another space: the kind whose streams reach both; of one kind the reader
 * is meant. -1: neither does. */
int device_carrier(int from, int to);
/* -1 after fail(E_PLACE) naming the text. */
int device_kind_parse(const char *text);
extern struct device_kind device_late; /* a test takes ONE_SPACE away, for GPUs that do not reach each other */

struct pool;
struct buffer {
    struct pool *pool;
    void *data; /* 64-byte aligned */
    size_t bytes;
    int32_t nref;
    uint32_t generation; /* of the pool's memory when it was made */
};

/* limit_bytes 0: no limit but the host's. */
struct pool *pool_new(int kind, int device, size_t limit_bytes);
/* Memory of another kind's making, for a kind whose bytes the host can read: from now on the pool's comes from there. A
 * fresh pool. take: 64-byte aligned, or NULL. */
struct pool_source {
    void *(*take)(void *of, size_t bytes);
    void (*give)(void *of, void *p);
    /* Bytes that are another host's: by address here, which nobody touches. Any thread. NULL: they lie here. */
    int (*read)(void *of, void *to, const void *from, size_t bytes);
    int (*write)(void *of, void *to, const void *from, size_t bytes);
    void *of;
    const uint32_t *generation; /* another number: all that lay there is lost; NULL: that does not happen */
};
void pool_from(struct pool *p, const struct pool_source *source);
void pool_free(struct pool **p); /* all buffers must have been given back */
void pool_limit(struct pool *p, size_t limit_bytes);
/* E_MEMORY: "cpu:1 wanted 2.1 GB, 0.4 GB of its limit free". bytes 0 gives a buffer without data. Freed blocks are kept
 * for requests of the same size class, and returned to the host when much lies idle. */
int buffer_new(struct pool *p, size_t bytes, struct buffer **out);
void buffer_hold(struct buffer *b);
void buffer_drop(struct buffer **b);
/* Its bytes where host code reads them: as they lie (*copy NULL), or in a copy that the caller frees, also after a
 * failure. Between runs. */
int buffer_on_host(const struct buffer *b, void **data, void **copy);
/* Is what it held lost, with the host that it was on? Reading it is E_LOST. */
bool buffer_is_lost(const struct buffer *b);
/* May host code touch its bytes as they lie? Else they are written by buffer_write, all of them; or copied. */
bool buffer_host_reads(const struct buffer *b);
int buffer_write(const struct buffer *b, const void *from);
int buffer_copy(const struct buffer *to, const struct buffer *from); /* of as many bytes, and one kind */
/* The arena block of the device, at least bytes long; grows between runs only (content is lost). E_MEMORY. */
int pool_arena(struct pool *p, size_t bytes, void **out);

struct pool_count {
    size_t live_bytes; /* in buffers handed out */
    size_t arena_bytes;
    size_t peak_bytes;
    int64_t nbuffer, nalloc; /* handed out now; requests that went to the host */
};
struct pool_count pool_count(const struct pool *p);

#endif
