/* Tests of actors/cluster/memory/segment.c and bus_host.c: shared memory that two processes map, and messages
 * between processes. */
#include "actors/cluster/memory/bus_host.h"
#include "actors/cluster/memory/segment.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <pthread.h>
#include <sys/wait.h>

enum { BYTES = 1 << 24, PIECES = 400, SLOTS = 4, MESSAGES = 20000 };

/* ---- shared memory segments ---- */

struct piece {
    unsigned char *p;
    size_t bytes;
    unsigned char mark;
};

static bool
is_intact(const struct piece *a)
{
    for (size_t i = 0; i < a->bytes; i++)
        if (a->p[i] != a->mark) return false;
    return true;
}

static void
test_take(void)
{
    struct segment *s;
    struct piece piece[PIECES] = {{0}};
    uint64_t state = seed_of(5);
    int torn = 0, crooked = 0, full = 0;
    if (segment_new(BYTES, &s)) {
        ok(false, "a segment: %s", err_text());
        return;
    }
    for (int i = 0; i < 20000; i++) {
        struct piece *a = &piece[next_random(&state) % PIECES];
        if (a->p) {
            torn += !is_intact(a);
            segment_give(s, a->p);
            a->p = NULL;
            continue;
        }
        a->bytes = 1 + next_random(&state) % (next_random(&state) % 8 ? 3000 : 300000);
        a->p = segment_take(s, a->bytes);
        a->mark = (unsigned char)i;
        full += !a->p;
        if (!a->p) continue;
        crooked += (uintptr_t)a->p % 64 != 0;
        memset(a->p, a->mark, a->bytes);
    }
    ok(!torn && !crooked, "allocations are aligned and never overlap (%d failed for lack of space)", full);
    for (int i = 0; i < PIECES; i++) segment_give(s, piece[i].p);
    is_int((int64_t)segment_used(s), 0, "all bytes are free after all allocations are freed");
    void *all = segment_take(s, BYTES / 2);
    ok(all != NULL, "free bytes are joined: half of the segment can be allocated");
    segment_give(s, all);
    ok(segment_take(s, BYTES + 1) == NULL, "an allocation larger than the segment fails");
    segment_free(&s);
}

static void
test_open(void)
{
    struct segment *a, *b, *c;
    char path[SEGMENT_PATH];
    if (segment_new(BYTES, &a)) return;
    segment_path(a, path);
    char *p = segment_take(a, 100000);
    strcpy(p, "seen");
    size_t at = (size_t)(p - segment_base(a));
    ok(!segment_open(path, segment_bytes(a), &b) && !strcmp(segment_base(b) + at, "seen"),
       "another mapping sees the same bytes at the same offset");
    segment_free(&b);
    ok(segment_open(path, segment_bytes(a) + 4096, &b) == E_IO, "a segment of another size is refused");
    ok(segment_open("/proc/self/exe", 4096, &b) == E_IO, "a regular file is refused as a segment");
    ok(segment_open("/dev/null", 4096, &b) == E_IO, "a device file is refused as a segment");
    /* Opens the segment a second time and gets the path of this mapping. Other processes must be able to open the
     * segment by this path after the process that made the segment has ended. */
    if (segment_open(path, segment_bytes(a), &b)) return;
    segment_path(b, path);
    segment_free(&a);
    ok(!segment_open(path, BYTES, &c) && !strcmp(segment_base(c) + at, "seen"),
       "a segment is opened through any process that maps it");
    segment_free(&c);
    segment_free(&b);
    ok(segment_open(path, BYTES, &b) == E_IO, "a freed segment cannot be opened");
}

/* ---- messages between processes ---- */

/* Owners of the slots: process 0 has slots 0 and 2, process 1 has slots 1 and 3. Every slot sends messages to every
 * other slot. The receiver checks the order of arrival. */
static const uint32_t owner[SLOTS] = {0, 1, 0, 1};
static const uint32_t addr[SLOTS] = {0, 1 << ADDR_THREAD_BITS, 1, 1 << ADDR_THREAD_BITS | 1};

struct talker {
    struct bus *bus;
    int slot, wrong;
};

static void *
talk(void *arg)
{
    struct talker *t = arg;
    uint32_t next[SLOTS] = {0};
    int got = 0, want = (SLOTS - 1) * MESSAGES, sent = 0;
    struct msg m[16];
    while (got < want || sent < MESSAGES) {
        for (int to = 0; to < SLOTS && sent < MESSAGES; to++) {
            if (to == t->slot) continue;
            struct msg out = {.kind = MSG_FULL,
                              .run = 1,
                              .from = addr[t->slot],
                              .to = addr[to],
                              .task = (uint32_t)sent,
                              .piece = ~0u};
            if (bus_send(t->bus, &out)) t->wrong++;
        }
        if (sent < MESSAGES) sent++;
        int n = bus_recv(t->bus, addr[t->slot], m, 16, sent == MESSAGES && got < want);
        for (int i = 0; i < n; i++) {
            int from = 0;
            while (addr[from] != m[i].from) from++;
            t->wrong += m[i].task != next[from]++ || m[i].to != addr[t->slot];
        }
        got += n;
    }
    while (!t->bus->kind->settled(t->bus, addr[t->slot])) t->wrong += bus_recv(t->bus, addr[t->slot], m, 16, true);
    t->wrong += bus_recv(t->bus, addr[t->slot], m, 16, false);
    return NULL;
}

static int
process(struct segment *s, int which)
{
    struct bus *b;
    struct bus_options o = {.process = which, .nthread = 2};
    struct talker t[2];
    pthread_t thread;
    if (bus_host_map(segment_base(s), segment_bytes(s), SLOTS, owner, &b)) return 1;
    o.with = b;
    if (bus_host.open(&o, &b)) return 1;
    b->kind->admit(b, 1);
    for (int i = 0; i < 2; i++) t[i] = (struct talker){.bus = b, .slot = which + 2 * i};
    pthread_create(&thread, NULL, talk, &t[1]);
    talk(&t[0]);
    pthread_join(thread, NULL);
    int wrong = t[0].wrong + t[1].wrong;
    b->kind->close(&b);
    return wrong != 0;
}

static void
test_processes(void)
{
    struct segment *s;
    int status = 1;
    if (segment_new(bus_host_bytes(SLOTS), &s)) return;
    bus_host_format(segment_base(s), SLOTS);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(process(s, 1));
    int own = process(s, 0);
    waitpid(child, &status, 0);
    ok(!own && !status, "two processes, two threads each: %d messages each way, in order, none lost",
       MESSAGES * SLOTS * (SLOTS - 1));
    segment_free(&s);
}

static void
test_admit(void)
{
    struct segment *s;
    struct bus *a, *b;
    struct msg got[4], early = {.kind = MSG_FULL, .run = 8, .from = addr[1], .to = addr[0]};
    if (segment_new(bus_host_bytes(SLOTS), &s)) return;
    bus_host_format(segment_base(s), SLOTS);
    ok(bus_host_map(segment_base(s), segment_bytes(s), SLOTS + 1, owner, &a) == E_BUS,
       "a segment with another number of slots is refused");
    bus_host_map(segment_base(s), segment_bytes(s), SLOTS, owner, &a);
    bus_host_map(segment_base(s), segment_bytes(s), SLOTS, owner, &b);
    bus_host.open(&(struct bus_options){.process = 0, .with = a}, &a);
    bus_host.open(&(struct bus_options){.process = 1, .with = b}, &b);
    a->kind->admit(a, 7);
    bus_send(b, &early);
    is_int(bus_recv(a, addr[0], got, 4, false), 0, "a message of a later run is held until the run begins here");
    a->kind->admit(a, 8);
    is_int(bus_recv(a, addr[0], got, 4, false), 1, "the message arrives when its run begins");
    early.to = 77u << ADDR_THREAD_BITS;
    is_int(bus_send(b, &early), E_BUS, "sending to an unknown address is an error");
    a->kind->close(&a);
    b->kind->close(&b);
    segment_free(&s);
}

int
main(void)
{
    test_take();
    test_open();
    test_processes();
    test_admit();
    return done();
}
