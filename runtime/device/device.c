/* device.c - memory pools of devices.
 *
 * A request is rounded up to a size class, 64 classes per power of two, so a new block wastes at most 1/64. A
 * freed block is idle: it stays in the list of its class until a request of this class or of one of the eight classes
 * below uses the block again. Idle blocks are returned to the system if they exceed recent needs, or if an allocation
 * would exceed the pool's limit or the host's memory. So a program that allocates and frees the same sizes in every
 * step makes no system calls. (The first write to a new page costs ten times as much as later writes.) Under
 * AddressSanitizer, idle bytes and the tail of a block are poisoned. */
#include "runtime/device/device.h"

#include "runtime/data/arena.h"
#include "runtime/device/device_cuda.h"
#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "runtime/data/pages.h"
#include "runtime/device/stream.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   (UNUSED(p), UNUSED(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) (UNUSED(p), UNUSED(n))
#endif

#ifndef FAULT /* t/lib/plan/faults.h compiles this file once more with deliberate faults, for a test */
#define FAULT(mistake) false
#endif

enum { ALIGN = 64, ALIGN_BITS = 6, STEPS = 64, STEP_BITS = 6, NCLASS = 64 * STEPS };
static const size_t idle_floor = (size_t)64 << 20; /* number of idle bytes that a pool may always keep */
/* With each freed block, the recent peak of live bytes (crest) decreases by 1 / CREST_FADES of its distance to the
 * current live bytes. A pool keeps idle bytes up to the peak plus 1 / CREST_SLACK of it. */
enum { CREST_FADES = 4096, CREST_SLACK = 4 };

/* ---- defining the device kinds ---- */

/* Blocks of at least `mapped` bytes are allocated in regions (pages.h) instead of by malloc, which leaves more
 * memory unused between allocations. Measured with tensors of 40,000 sizes up to 160 KB, allocated one after
 * another:
 *
 *     malloc    1.3 GB unused
 *     regions   0.2 GB unused
 *
 * Builds with sanitizers use malloc, because sanitizers can only check malloc's heap. */
#if defined(__SANITIZE_ADDRESS__)
static const size_t mapped = SIZE_MAX;
#else
static const size_t mapped = PAGES_LEAST;
#endif

static void *
take_host(size_t bytes)
{
    void *p = NULL;
    if (bytes >= mapped) return pages_take(bytes);
    return posix_memalign(&p, ALIGN, bytes) ? NULL : p;
}

static void *
host_take(int device, size_t bytes)
{
    void *p = take_host(bytes);
    UNUSED(device);
    if (p && bytes >= PINNED) cuda_pin(p, bytes);
    return p;
}

static void
host_give(int device, void *p, size_t bytes)
{
    UNUSED(device);
    if (p && bytes >= PINNED) cuda_unpin(p);
    if (bytes < mapped)
        free(p);
    else
        pages_give(p, bytes);
}

static int
host_copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
    return 0;
}

static int
host_fill(void *p, int byte, size_t bytes)
{
    memset(p, byte, bytes);
    return 0;
}

static const struct device_kind device_cpu = {
    .number = DEV_CPU,
    .flags = HOST_READS | FUSES | ONE_SPACE,
    .variants = DEV_CPU,
    .take = host_take,
    .give = host_give,
    .copy = host_copy,
    .fill = host_fill,
};
/* The kind meta fuses like cpu and has the kernel variants of cpu, so that plans for both kinds are equal. */
static const struct device_kind device_meta = {.number = DEV_META, .flags = NO_BYTES | FUSES, .variants = DEV_CPU};

static const struct device_kind *const kinds[NDEVICE_KIND] = {
    [DEV_CPU] = &device_cpu,
    [DEV_META] = &device_meta,
    [DEV_ASYNC] = &device_late,
    [DEV_CUDA] = &device_cuda,
};

const struct device_kind *
device_kind(int kind)
{
    assert(kind >= 0 && kind < NDEVICE_KIND);
    return kinds[kind];
}

/* Returns the host's memory space for devices without bytes, too, so that their plans equal the plans for cpu
 * devices. */
int32_t
device_space(int kind, int32_t device)
{
    unsigned flags = device_kind(kind)->flags;
    if (flags & (HOST_READS | NO_BYTES)) return 0;
    return flags & ONE_SPACE ? kind : NDEVICE_KIND + device * NDEVICE_KIND + kind;
}

/* Returns the kind whose streams copy: the streams of a kind can access the bytes of the host, and of devices of
 * the same kind. */
int
device_carrier(int from, int to)
{
    bool from_host = device_space(from, 0) == 0, to_host = device_space(to, 0) == 0;
    if (device_kind(to)->stream_new && (from == to || from_host)) return to;
    return device_kind(from)->stream_new && to_host ? from : -1;
}

const char *
stream_role_text(int role)
{
    static const char *const text[NSTREAM] = {"compute", "in", "out", "move", "collect", "send", "recv"};
    assert(role >= 0 && role < NSTREAM);
    return text[role];
}

/* ---- allocating and reusing blocks ---- */

struct block {
    struct buffer buffer; /* must be the first member, because a buffer pointer is its block's pointer */
    struct block *next;   /* next idle block of the same size class */
    size_t capacity; /* size of the class, bytes; 0: the block has no data, or its memory belongs to another owner */
    void (*release)(void *arg); /* returns the memory to its owner; NULL: the pool owns the memory */
    void *release_arg;
};

struct pool {
    int device;
    const struct device_kind *kind;
    /* source from which the pool allocates; if source.take is NULL, the pool allocates memory of its device's kind */
    struct pool_source source;
    /* order of the work on streams that may access the pool's bytes between runs; NULL: no such work */
    const struct work_order *order;
    size_t limit_bytes; /* memory limit, bytes; 0: no limit */
    size_t idle_bytes;
    size_t crest; /* recent peak of live bytes */
    void *arena;
    struct pool_count count;
    /* true: the owner has given up the pool (pool_leave), so the drop of the pool's last buffer frees the pool */
    bool left;
    struct block *idle[NCLASS];
};

/* Returns the size class of a request, and sets *capacity to the bytes of a block of this class: the request,
 * rounded up to a multiple of ALIGN, and to six binary digits after the leading one. */
static int
pool_class(size_t bytes, size_t *capacity)
{
    bytes = MAX(bytes, (size_t)1);
    int shift = MAX(63 - __builtin_clzll(bytes) - STEP_BITS, (int)ALIGN_BITS);
    size_t units = (bytes + ((size_t)1 << shift) - 1) >> shift; /* at most 2 * STEPS */
    *capacity = units << shift;
    return (shift - ALIGN_BITS) * STEPS + (int)units;
}

static void *
pool_take(struct pool *p, size_t bytes)
{
    return p->source.take ? p->source.take(p->source.of, bytes) : p->kind->take(p->device, bytes);
}

static void
pool_give(struct pool *p, void *data, size_t bytes)
{
    if (p->source.take)
        p->source.give(p->source.of, data);
    else
        p->kind->give(p->device, data, bytes);
}

static size_t
used_bytes(const struct pool *p)
{
    return p->count.live_bytes + p->count.arena_bytes;
}

/* Returns true if the work with this number is not complete. */
static bool
is_number_open(const struct pool *p, uint64_t number)
{
    return p->order && number > atomic_load(&p->order->done);
}

/* Waits until the last work that accesses the memory is complete. number: number of this work. Ignores errors of
 * the work, which are reported elsewhere. */
static void
await_all(const struct pool *p, uint64_t number)
{
    if (is_number_open(p, number) && !FAULT(EARLY_GIVE)) p->order->await(p->order->of, number, true);
}

static void
block_release(struct pool *p, struct block *b)
{
    await_all(p, b->buffer.touched);
    ASAN_UNPOISON_MEMORY_REGION(b->buffer.data, b->capacity);
    pool_give(p, b->buffer.data, b->capacity);
    p->idle_bytes -= b->capacity;
    free(b);
}

/* Removes and returns the first block of the list that no running work accesses; NULL: none. any true: removes the
 * first block, even if running work accesses it. */
static struct block *
list_take(const struct pool *p, struct block **list, bool any)
{
    while (*list && !any && is_number_open(p, (*list)->buffer.touched)) list = &(*list)->next;
    struct block *b = *list;
    if (b) *list = b->next;
    return b;
}

/* Frees idle blocks, the largest size classes first, until at most `keep` bytes are idle. must true: also frees
 * blocks that running work accesses, after waiting for that work. */
static void
pool_trim(struct pool *p, size_t keep, bool must)
{
    struct block *b;
    for (int c = NCLASS - 1; c >= 0 && p->idle_bytes > keep; c--)
        while (p->idle_bytes > keep && (b = list_take(p, &p->idle[c], must))) block_release(p, b);
}

void
pool_shrink(struct pool *p)
{
    p->crest = p->count.live_bytes;
    pool_trim(p, p->count.live_bytes / 64, false);
}

/* Prints a size: "2.1 GB" */
static const char *
bytes_text(size_t bytes, char text[32])
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
    double n = (double)bytes;
    int k = 0;
    for (; n >= 1000 && k < (int)countof(unit) - 1; k++) n /= 1000;
    snprintf(text, 32, k ? "%.1f %s" : "%.0f %s", n, unit[k]);
    return text;
}

static int
refuse_allocation(const struct pool *p, size_t bytes)
{
    static const char remedy[] = "reduce the batch, or use micro_batches, recompute = true, or more devices";
    char wanted[32], free_text[32], limit[LIMIT_REASON];
    bytes_text(bytes, wanted);
    if (!p->limit_bytes)
        return fail(E_MEMORY, "out of memory on %s:%d: needs %s, more than the %s; %s",
                    device_kind_text(p->kind->number), p->device, wanted,
                    p->kind->flags & HOST_READS ? limits_refusal(limit) : "device has free", remedy);
    bytes_text(p->limit_bytes - MIN(p->limit_bytes, used_bytes(p)), free_text);
    return fail(E_MEMORY, "out of memory on %s:%d: needs %s, %s of its limit free; %s",
                device_kind_text(p->kind->number), p->device, wanted, free_text, remedy);
}

/* Allocates `capacity` bytes on the device within the limit. Frees idle blocks if necessary. */
static int
memory_take(struct pool *p, size_t bytes, size_t capacity, void **out)
{
    size_t limit = p->limit_bytes ? p->limit_bytes : SIZE_MAX / 4, used = used_bytes(p);
    if (capacity > limit || used > limit - capacity) return refuse_allocation(p, bytes);
    if (p->idle_bytes > limit - capacity - used) pool_trim(p, limit - capacity - used, true);
    err_clear();
    *out = pool_take(p, capacity);
    if (!*out) {
        pool_trim(p, 0, true);
        *out = pool_take(p, capacity);
    }
    /* true: the host that stores the bytes of the pool's source was lost, or the device is broken */
    bool gone = err_last() == E_LOST || err_last() == E_KERNEL;
    if (!*out) return gone ? (int)err_last() : refuse_allocation(p, bytes);
    p->count.nalloc++;
    return 0;
}

/* Removes and returns an idle block within the limit, of the size class or of the eight classes above; NULL: none. any
 * true: running work may access the block. */
static struct block *
idle_take(struct pool *p, int class, bool any)
{
    size_t limit = p->limit_bytes ? p->limit_bytes : SIZE_MAX, used = used_bytes(p);
    struct block *b = NULL;
    for (int c = class; !b && c <= class + 8; c++)
        if (p->idle[c] && used <= limit && p->idle[c]->capacity <= limit - used) b = list_take(p, &p->idle[c], any);
    if (b) p->idle_bytes -= b->capacity;
    return b;
}

/* Returns an idle block, or a new one of the size class. */
static int
block_find(struct pool *p, size_t bytes, bool for_host, struct block **out)
{
    size_t capacity;
    if (bytes > SIZE_MAX / 4) return refuse_allocation(p, bytes);
    int class = pool_class(bytes, &capacity);
    struct block *b = idle_take(p, class, !for_host || FAULT(EARLY_WRITE));
    if (b) {
        ASAN_UNPOISON_MEMORY_REGION(b->buffer.data, b->capacity);
    } else {
        void *data;
        TRY(memory_take(p, bytes, capacity, &data));
        b = must_alloc(sizeof *b);
        b->buffer.data = data;
        b->capacity = capacity;
    }
    ASAN_POISON_MEMORY_REGION((char *)b->buffer.data + bytes, b->capacity - bytes);
    *out = b;
    return 0;
}

static void
note_peak(struct pool *p)
{
    p->count.peak_bytes = MAX(p->count.peak_bytes, used_bytes(p));
}

/* ---- making and accessing buffers ---- */

static uint32_t
generation_of(const struct pool *p)
{
    return p->source.generation ? *p->source.generation : 0;
}

static int
new_buffer(struct pool *p, size_t bytes, bool for_host, struct buffer **out)
{
    struct block *b = NULL;
    if (bytes && p->kind->take) TRY(block_find(p, bytes, for_host, &b));
    if (!b) b = must_alloc(sizeof *b);
    b->next = NULL;
    b->buffer.pool = p;
    b->buffer.bytes = bytes;
    b->buffer.nref = 1;
    b->buffer.written = 0;
    b->buffer.generation = generation_of(p);
    p->count.live_bytes += b->capacity;
    p->crest = MAX(p->crest, p->count.live_bytes);
    p->count.nbuffer++;
    note_peak(p);
    *out = &b->buffer;
    return 0;
}

int
buffer_new(struct pool *p, size_t bytes, struct buffer **out)
{
    return new_buffer(p, bytes, false, out);
}

int
buffer_new_for_host(struct pool *p, size_t bytes, struct buffer **out)
{
    return new_buffer(p, bytes, true, out);
}

void
buffer_wrap(struct pool *p, void *data, size_t bytes, void (*release)(void *arg), void *arg, struct buffer **out)
{
    struct block *b = must_alloc(sizeof *b);
    assert(buffer_is_here(&(struct buffer){.pool = p}) && (uintptr_t)data % ALIGN == 0);
    b->release = release;
    b->release_arg = arg;
    b->buffer = (struct buffer){.pool = p, .data = data, .bytes = bytes, .nref = 1, .generation = generation_of(p)};
    p->count.nbuffer++;
    *out = &b->buffer;
}

bool
buffer_is_wrapped(const struct buffer *b)
{
    return b->data && !((const struct block *)b)->capacity;
}

void
buffer_hold(struct buffer *b)
{
    assert(b->nref > 0);
    b->nref++;
}

int
buffer_device(const struct buffer *b)
{
    return b->pool->device;
}

bool
buffer_is_lost(const struct buffer *b)
{
    return b->generation != generation_of(b->pool);
}

bool
buffer_is_here(const struct buffer *b)
{
    return !b->pool->source.read;
}

bool
buffer_host_reads(const struct buffer *b)
{
    return (b->pool->kind->flags & HOST_READS) && buffer_is_here(b);
}

int
buffer_await(const struct buffer *b, bool writes)
{
    const struct work_order *o = b->pool->order;
    uint64_t number = writes ? b->touched : b->written;
    if (!is_number_open(b->pool, number) || (writes ? FAULT(EARLY_WRITE) : FAULT(EARLY_LOOK))) return 0;
    return o->await(o->of, number, false);
}

bool
buffer_failed(const struct buffer *b)
{
    const struct work_order *o = b->pool->order;
    for (int32_t i = 0; o && i < o->nfailed; i++)
        if (o->failed[i] == b->written) return true;
    return false;
}

int
buffer_on_host(const struct buffer *b, void **data, void **copy)
{
    const struct pool *p = b->pool;
    *copy = NULL;
    *data = b->data;
    if (buffer_is_lost(b))
        return fail(E_LOST, "the value was on %s:%d and is lost", device_kind_text(p->kind->number), p->device);
    TRY(buffer_await(b, false));
    if (buffer_host_reads(b)) return 0;
    *data = *copy = must_alloc(b->bytes);
    return p->source.read ? p->source.read(p->source.of, *copy, b->data, b->bytes)
                          : p->kind->copy(*copy, b->data, b->bytes);
}

int
buffer_write(const struct buffer *b, const void *from)
{
    const struct pool *p = b->pool;
    TRY(buffer_await(b, true));
    return p->source.write ? p->source.write(p->source.of, b->data, from, b->bytes)
                           : p->kind->copy(b->data, from, b->bytes);
}

int
buffer_copy_part(const struct buffer *to, const struct buffer *from, size_t at, size_t bytes)
{
    const struct pool_source *in = &from->pool->source, *out = &to->pool->source;
    char *src = (char *)from->data + at, *dst = (char *)to->data + at;
    void *room = NULL;
    int status = 0;
    if (buffer_is_lost(from))
        return fail(E_LOST, "the value was on %s:%d and is lost", device_kind_text(from->pool->kind->number),
                    from->pool->device);
    TRY(buffer_await(from, false));
    TRY(buffer_await(to, true));
    if (in->read && out->bring) return out->bring(out->of, dst, in->of, src, bytes);
    if (in->read) status = in->read(in->of, room = must_alloc(bytes), src, bytes);
    if (!status && out->write)
        status = out->write(out->of, dst, room ? room : src, bytes);
    else if (!status)
        status = to->pool->kind->copy(dst, room ? room : src, bytes);
    free(room);
    return status;
}

int
buffer_copy(const struct buffer *to, const struct buffer *from)
{
    return buffer_copy_part(to, from, 0, to->bytes);
}

/* Puts a freed block on its idle list. If too many bytes would then be idle, first frees other idle blocks: the
 * next request usually has the size of the block that was just freed. */
static void
block_idle(struct pool *p, struct block *b)
{
    size_t capacity, live = p->count.live_bytes;
    struct block **list = &p->idle[pool_class(b->capacity, &capacity)];
    assert(capacity == b->capacity);
    p->crest -= (p->crest - live) / CREST_FADES;
    size_t keep = MAX(p->crest - live + p->crest / CREST_SLACK, idle_floor);
    pool_trim(p, keep - MIN(keep, capacity), false);
    if (!is_number_open(p, b->buffer.touched)) ASAN_POISON_MEMORY_REGION(b->buffer.data, b->capacity);
    b->next = *list;
    *list = b;
    p->idle_bytes += b->capacity;
}

/* Frees a block whose memory belongs to another owner (buffer_wrap). */
static void
block_end(struct pool *p, struct block *b)
{
    if (b->release) {
        await_all(p, b->buffer.touched);
        b->release(b->release_arg);
    }
    free(b);
}

void
buffer_drop(struct buffer **buffer)
{
    struct buffer *b = *buffer;
    *buffer = NULL;
    if (!b) return;
    assert(b->nref > 0);
    if (--b->nref > 0) return;

    struct pool *p = b->pool;
    struct block *block = (struct block *)b;
    p->count.live_bytes -= block->capacity;
    if (block->capacity)
        block_idle(p, block);
    else
        block_end(p, block);
    p->count.nbuffer--; /* last, because a release function may drop another buffer of the pool */
    if (p->left && p->count.nbuffer == 0) pool_free(&p);
}

void
buffer_retire(struct buffer **buffer)
{
    struct pool *p = (*buffer)->pool;
    buffer_drop(buffer);
    p->crest = p->count.live_bytes;
    pool_trim(p, idle_floor, false);
}

/* ---- making and freeing pools ---- */

struct pool *
pool_new(int kind, int device, size_t limit_bytes)
{
    assert(kind >= 0 && kind < NDEVICE_KIND);
    if (kinds[kind]->missing) {
        fail(E_PLACE, "%s:%d cannot be used: %s", device_kind_text(kind), device, kinds[kind]->missing);
        return NULL;
    }
    struct pool *p = must_alloc(sizeof *p);
    p->device = device;
    p->kind = kinds[kind];
    p->limit_bytes = limit_bytes;
    return p;
}

void
pool_from(struct pool *p, const struct pool_source *source)
{
    assert(p->count.nalloc == 0);
    if (p->kind->take) p->source = *source;
}

bool
pool_is_from(const struct pool *p, const struct pool_source *source)
{
    return p->source.of == source->of;
}

void
pool_order(struct pool *p, const struct work_order *order)
{
    p->order = order;
}

void
pool_free(struct pool **pool)
{
    struct pool *p = *pool;
    *pool = NULL;
    if (!p) return;
    assert(p->count.nbuffer == 0);
    pool_trim(p, 0, true);
    if (p->order) await_all(p, p->order->begun);
    if (p->arena) pool_give(p, p->arena, p->count.arena_bytes);
    free(p);
}

void
pool_leave(struct pool **pool)
{
    struct pool *p = *pool;
    if (!p || p->count.nbuffer == 0) {
        pool_free(pool);
        return;
    }
    *pool = NULL;
    pool_trim(p, 0, true);
    if (p->order) await_all(p, p->order->begun);
    p->order = NULL;
    p->left = true;
}

void
pool_limit(struct pool *p, size_t limit_bytes)
{
    p->limit_bytes = limit_bytes;
}

/* Enlarges the arena. Frees the old block before it allocates the new one: the content is not needed, and there
 * might not be memory for both. */
int
pool_arena(struct pool *p, size_t bytes, void **out)
{
    if (p->kind->take && bytes > p->count.arena_bytes) {
        size_t capacity = (bytes + ALIGN - 1) / ALIGN * ALIGN;
        if (bytes > SIZE_MAX / 4) return refuse_allocation(p, bytes);
        if (p->order) await_all(p, p->order->begun);
        if (p->arena) pool_give(p, p->arena, p->count.arena_bytes);
        p->arena = NULL;
        p->count.arena_bytes = 0;
        TRY(memory_take(p, bytes, capacity, &p->arena));
        p->count.arena_bytes = capacity;
        note_peak(p);
    }
    *out = p->arena;
    return 0;
}

struct pool_count
pool_count(const struct pool *p)
{
    return p->count;
}
