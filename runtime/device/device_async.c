/* device_async.c - a device kind for tests: work is done some time after it is enqueued, and accesses by host code
 * to the device's memory fault.
 *
 * The kind stands for a GPU on machines without GPUs. Buffers have addresses in a range that is not accessible.
 * The byte of address p is stored at p + LATE_BYTES, where the kind's work accesses it (reach). Streams are host
 * streams (stream_host.h). */
#include "runtime/data/arena.h"
#include "runtime/data/pages.h"
#include "runtime/base/system.h"
#include "runtime/device/stream_host.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- allocating memory that faults for host code ---- */

static const size_t LATE_BYTES = (size_t)1 << 38;

/* A freed address range of any device. Allocation takes the first range that is large enough. */
struct range {
    struct range *next;
    char *at;
    size_t bytes;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* start of two address ranges of LATE_BYTES each: accesses to the first fault, and the second stores the bytes */
static char *base;
static size_t used;
static struct range *idle;

static bool
is_async_address(const char *p)
{
    return base && p >= base && p < base + LATE_BYTES;
}

static void *
async_reach(void *p)
{
    return is_async_address(p) ? (char *)p + LATE_BYTES : p;
}

static char *
take_idle(size_t bytes)
{
    for (struct range **r = &idle; *r; r = &(*r)->next) {
        struct range *found = *r;
        if (found->bytes < bytes) continue;
        char *at = found->at;
        found->at += bytes;
        found->bytes -= bytes;
        if (found->bytes == 0) {
            *r = found->next;
            free(found);
        }
        return at;
    }
    return NULL;
}

static char *
take_locked(size_t bytes)
{
    if (!base) {
        void *p = mmap(NULL, 2 * LATE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return NULL;
        base = p;
    }
    char *at = take_idle(bytes);
    if (at || bytes > LATE_BYTES - used) return at;
    at = base + used;
    used += bytes;
    return at;
}

static void
put_idle(char *at, size_t bytes)
{
    struct range *r = must_alloc(sizeof *r);
    pthread_mutex_lock(&lock);
    *r = (struct range){idle, at, bytes};
    idle = r;
    pthread_mutex_unlock(&lock);
}

static void *
async_take(int device, size_t bytes)
{
    UNUSED(device);
    bytes = pages_whole(bytes);
    pthread_mutex_lock(&lock);
    char *p = take_locked(bytes);
    pthread_mutex_unlock(&lock);
    if (!p || mprotect(async_reach(p), bytes, PROT_READ | PROT_WRITE) == 0) return p;
    put_idle(p, bytes);
    return NULL;
}

/* Discards the bytes of a range, and protects its addresses. Accesses after the release then fault, and the next
 * owner of the range reads zeros, as in new memory. */
static void
async_give(int device, void *p, size_t bytes)
{
    UNUSED(device);
    if (!p) return;
    bytes = pages_whole(bytes);
    madvise(async_reach(p), bytes, MADV_DONTNEED);
    mprotect(async_reach(p), bytes, PROT_NONE);
    put_idle(p, bytes);
}

static int
async_copy(void *dst, const void *src, size_t bytes)
{
    memcpy(async_reach(dst), async_reach((void *)(uintptr_t)src), bytes);
    return 0;
}

static int
async_fill(void *p, int byte, size_t bytes)
{
    memset(async_reach(p), byte, bytes);
    return 0;
}

/* ---- making streams ---- */

static int
async_stream_new(int device, int role, bool driven, struct stream **out)
{
    return host_stream_new(&device_late, device, role, driven, out);
}

struct device_kind device_late = {
    .flags = FUSES | ONE_SPACE | ROLES,
    .variants = DEV_CPU,
    .take = async_take,
    .give = async_give,
    .copy = async_copy,
    .fill = async_fill,
    .stream_new = async_stream_new,
    .stream_free = host_stream_free,
    .enqueue = host_stream_enqueue,
    .mark = host_stream_mark,
    .passed = host_stream_passed,
    .wait = host_stream_wait,
    .trouble = host_stream_trouble,
    .step = host_stream_step,
    .tell = host_stream_tell,
    .reach = async_reach,
};
