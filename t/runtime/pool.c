/* pool.c - tests of the buffer pool: ownership, counts, and limits. */
#include "runtime/device/device.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <sys/mman.h>
#include <sys/syscall.h>

enum { KB = 1000, MB = 1000 * 1000, GB = 1000 * MB };

static void
test_kinds(void)
{
    int wrong = 0;
    for (int k = 0; k < NDEVICE_KIND; k++) wrong += device_kind_parse(device_kind_text(k)) != k;
    is_int(wrong, 0, "every kind is found by its name");
    ok(device_kind_parse("tpu") == -1 && err_last() == E_PLACE && strstr(err_text(), "\"tpu\""),
       "an unknown kind is refused, and the message quotes it");
    ok(!pool_new(DEV_CUDA, 0, 0) && err_last() == E_PLACE && strstr(err_text(), "no CUDA plug-in"),
       "cuda needs its plug-in");
}

static void
test_sizes(void)
{
    struct pool *p = pool_new(DEV_CPU, 0, 0);
    int wrong = 0, waste = 0;
    for (size_t n = 1; n < 3 * MB; n += n / 7 + 1) {
        struct buffer *b;
        if (buffer_new(p, n, &b)) {
            wrong++;
            continue;
        }
        wrong += b->bytes != n || (uintptr_t)b->data % 64 != 0 || b->nref != 1;
        /* writes all bytes; AddressSanitizer checks that the bytes belong to the buffer */
        memset(b->data, 0xab, n);
        waste += pool_count(p).live_bytes > MAX(n + n / 8, (size_t)512);
        buffer_drop(&b);
        wrong += b != NULL;
    }
    is_int(wrong, 0, "a buffer of any size is aligned to 64 bytes and has the bytes asked for");
    is_int(waste, 0, "a block is at most an eighth larger than what was asked for");
    ok(pool_count(p).live_bytes == 0 && pool_count(p).nbuffer == 0,
       "no bytes are counted after all buffers are dropped");
    pool_free(&p);
    ok(p == NULL, "a freed pool's pointer is cleared");
}

static void
test_reuse(void)
{
    struct pool *p = pool_new(DEV_CPU, 1, 0);
    struct buffer *b, *held;
    buffer_new(p, 100 * KB, &b);
    void *data = b->data;
    int64_t before = pool_count(p).nalloc;
    for (int i = 0; i < 100; i++) {
        buffer_drop(&b);
        buffer_new(p, 100 * KB - (size_t)i, &b);
    }
    ok(b->data == data && pool_count(p).nalloc == before, "a freed block serves the next request of its size class");

    held = b;
    buffer_hold(held);
    buffer_drop(&b);
    ok(b == NULL && held->nref == 1 && pool_count(p).nbuffer == 1, "a buffer lives until its last holder drops it");
    size_t peak = pool_count(p).peak_bytes;
    buffer_drop(&held);
    ok(pool_count(p).peak_bytes == peak && peak >= 100 * KB, "the peak stays after buffers are dropped");
    pool_free(&p);
}

/* Allocates and frees n buffers. Returns the number of allocations from the host. */
static int64_t
take_and_give(struct pool *p, int n, size_t bytes)
{
    enum { MOST = 40 };
    struct buffer *b[MOST];
    int64_t before = pool_count(p).nalloc;
    for (int i = 0; i < n; i++) buffer_new(p, bytes, &b[i]);
    for (int i = 0; i < n; i++) buffer_drop(&b[i]);
    return pool_count(p).nalloc - before;
}

/* Checks the limit of idle memory with 160 MB of large blocks, more than a pool may keep idle for long. */
static void
test_idle(void)
{
    enum { N = 40, STEPS = 100, LONG = 20000 };
    struct pool *p = pool_new(DEV_CPU, 0, 0);
    is_int(take_and_give(p, N, 4 * MB), N, "the first blocks are allocated from the host");
    int64_t asked = 0;
    for (int i = 0; i < STEPS; i++) asked += take_and_give(p, N, 4 * MB);
    is_int(asked, 0, "blocks that every step uses stay in the pool");
    for (int i = 0; i < LONG; i++) take_and_give(p, 1, KB);
    asked = take_and_give(p, N, 4 * MB);
    ok(asked > 0 && asked < N, "blocks unused for long return to the host, except for some");
    pool_free(&p);
}

static void
test_limit(void)
{
    struct pool *p = pool_new(DEV_CPU, 1, 2 * MB);
    struct buffer *a, *b = NULL, *c = NULL;
    is_int(buffer_new(p, 1500 * KB, &a), 0, "a request below the limit is served");
    is_int(buffer_new(p, 1500 * KB, &b), E_MEMORY, "a request beyond the limit is refused");
    ok(strstr(err_text(), "cpu:1") && strstr(err_text(), "1.5 MB"), "the message names the device and the bytes");
    diag("%s", err_text());
    buffer_drop(&a);
    is_int(buffer_new(p, 1800 * KB, &b), 0, "idle blocks of another size class are freed for a request");
    pool_limit(p, 8 * MB);
    is_int(buffer_new(p, 1800 * KB, &c), 0, "a raised limit applies at once");
    buffer_drop(&b);
    buffer_drop(&c);
    is_int(buffer_new(p, SIZE_MAX - 10, &b), E_MEMORY, "a huge request does not overflow");
    pool_limit(p, 0);
    is_int(buffer_new(p, SIZE_MAX / 2, &b), E_MEMORY, "a huge request is refused without a limit, too");
    pool_free(&p);
}

static void
test_arena(void)
{
    struct pool *p = pool_new(DEV_ASYNC, 0, MB);
    struct buffer *b;
    void *small, *large, *again;
    is_int(pool_arena(p, 1000, &small), 0, "an arena is allocated");
    ok((uintptr_t)small % 64 == 0, "an arena is aligned to 64 bytes");
    is_int(pool_arena(p, 500 * KB, &large), 0, "an arena grows");
    pool_arena(p, 2000, &again);
    ok(again == large && pool_count(p).arena_bytes >= 500 * KB, "an arena does not shrink");
    device_kind(DEV_ASYNC)->fill(large, 1, 500 * KB);
    is_int(buffer_new(p, 600 * KB, &b), E_MEMORY, "an arena counts towards the limit");
    is_int(pool_arena(p, 2 * MB, &again), E_MEMORY, "an arena beyond the limit is refused");
    pool_free(&p);
}

static void
test_without_bytes(void)
{
    struct pool *cpu = pool_new(DEV_CPU, 0, 0), *meta = pool_new(DEV_META, 4000, 1);
    struct buffer *a, *b;
    void *arena;
    buffer_new(cpu, 0, &a);
    ok(!a->data && a->bytes == 0 && pool_count(cpu).nalloc == 0, "a buffer of no bytes has no data");
    is_int(buffer_new(meta, (size_t)1 << 60, &b), 0, "a meta device has room for anything");
    ok(!b->data && b->bytes == (size_t)1 << 60 && pool_count(meta).live_bytes == 0,
       "a buffer of a meta device has no memory");
    ok(pool_arena(meta, (size_t)1 << 60, &arena) == 0 && !arena, "an arena of a meta device has no memory");
    buffer_drop(&a);
    buffer_drop(&b);
    buffer_drop(&b);
    pool_free(&cpu);
    pool_free(&meta);
    pool_free(&meta);
    ok(!b && !meta, "dropping NULL is allowed");
}

/* Makes random requests. Checks that no two buffers share a byte, and that the counts are right. */
static void
test_random(void)
{
    enum { N = 64, TURNS = 5000 };
    uint64_t state = seed_of(1);
    struct pool *p = pool_new(DEV_CPU, 0, MB);
    struct buffer *b[N] = {0};
    int spoilt = 0, miscounted = 0, refused = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        int i = (int)(next_random(&state) % N), live = 0;
        size_t n = next_random(&state) % (1u << next_random(&state) % 20);
        if (b[i])
            for (size_t k = 0; k < b[i]->bytes; k++) spoilt += ((uint8_t *)b[i]->data)[k] != i;
        buffer_drop(&b[i]);
        if (next_random(&state) % 3 && buffer_new(p, n, &b[i])) refused++;
        if (b[i] && n) memset(b[i]->data, i, n);
        for (int k = 0; k < N; k++) live += b[k] != NULL;
        miscounted += pool_count(p).nbuffer != live || pool_count(p).live_bytes > MB;
    }
    diag("%d requests refused by the limit", refused);
    ok(refused > 0, "the limit refused some requests");
    is_int(spoilt, 0, "no two buffers share a byte");
    is_int(miscounted, 0, "buffer counts are right, and the limit holds");
    for (int i = 0; i < N; i++) buffer_drop(&b[i]);
    pool_free(&p);
}

static long
resident_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

#if defined(__SANITIZE_ADDRESS__)
enum { QUARANTINE = 256 << 20 }; /* bytes of freed memory that AddressSanitizer keeps in quarantine */
#else
enum { QUARANTINE = 0 };
#endif

/* Allocates growing sizes, with small host allocations between them. So the hole that a freed buffer leaves is too
 * small for the next one. */
static void
test_holes(void)
{
    enum { N = 2000, STEP = 2000, AFTER = 20 };
    struct pool *p = pool_new(DEV_CPU, 0, 0);
    struct buffer *b[AFTER] = {0};
    static char *own[N];
    long before = resident_bytes();
    for (int i = 0; i < N; i++) {
        buffer_drop(&b[i % AFTER]);
        if (buffer_new(p, (size_t)i * STEP + 1, &b[i % AFTER])) break;
        memset(b[i % AFTER]->data, 1, b[i % AFTER]->bytes);
        own[i] = strdup("a plan, a node, a name");
    }
    long most = AFTER * (long)N * STEP, grown = resident_bytes() - before;
    for (int i = 0; i < AFTER; i++) buffer_drop(&b[i]);
    ok(before > 0 && grown < 2 * most + (64 << 20) + QUARANTINE, "freed buffers leave no holes: %ld MB of %ld",
       grown >> 20, most >> 20);
    for (int i = 0; i < N; i++) free(own[i]);
    pool_free(&p);
}

/* true: mprotect() fails, as on a host without memory (the function below replaces the system's) */
static bool refuses;
int
mprotect(void *p, size_t bytes, int how)
{
    return refuses ? -1 : (int)syscall(SYS_mprotect, p, bytes, how);
}

static void
test_late(void)
{
    refuses = true;
    int got = 0;
    for (int i = 0; i < 300; i++) got += device_late.take(0, GB) != NULL;
    refuses = false;
    is_int(got, 0, "an async device refuses memory that its host does not have");
    void *p = device_late.take(0, GB);
    ok(p != NULL, "an async device allocates once its host has memory");
    device_late.give(0, p, GB);
}

int
main(void)
{
    test_kinds();
    test_sizes();
    test_reuse();
    test_idle();
    test_limit();
    test_arena();
    test_without_bytes();
    test_random();
    test_holes();
    test_late();
    return done();
}
