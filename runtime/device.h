/* device.h - device kinds, devices and the memory they have.
 *
 * A device is a number within its kind. Its pool gives buffers: bytes that
 * outlive a run (values of variables, results), taken and given back on the
 * session thread, so no lock is needed; and one arena block, shared by all
 * plans, in which a plan's registers have fixed offsets. Bytes of a CPU device
 * are host memory, 64-byte aligned.
 *
 * Kinds: cpu; meta (as many ranks as are named, no values); late (tests: a
 * CPU device whose stream completes work after it was enqueued); cuda comes as
 * a plug-in row. */
#ifndef RILLE_RUNTIME_DEVICE_H
#define RILLE_RUNTIME_DEVICE_H

#include "runtime/base.h"

enum device_kind { DEV_CPU, DEV_META, DEV_LATE, DEV_CUDA, NDEVICE_KIND };
const char *device_kind_text(int kind);
/* -1 after fail(E_PLACE) naming the text. */
int device_kind_parse(const char *text);

struct pool;
struct buffer {
    struct pool *pool;
    void *data; /* 64-byte aligned */
    size_t bytes;
    int32_t nref;
};

/* limit_bytes 0: no limit but the host's. */
struct pool *pool_new(int kind, int device, size_t limit_bytes);
void pool_free(struct pool **p); /* all buffers must have been given back */
void pool_limit(struct pool *p, size_t limit_bytes);
/* E_MEMORY: "cpu:1 wanted 2.1 GB, 0.4 GB of its limit free". bytes 0 gives a buffer without data. Freed blocks are kept
 * for requests of the same size class, and returned to the host when much lies idle. */
int buffer_new(struct pool *p, size_t bytes, struct buffer **out);
void buffer_hold(struct buffer *b);
void buffer_drop(struct buffer **b);
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
