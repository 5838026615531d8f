/* cluster.c - messages between two processes of one host, beside what they are made of.
 *
 *   bench/cluster [round trips]
 *
 * A round trip is a message there and one back, 32 bytes each. Beside it stand the limits, in the same run: a word of
 * shared memory that both spin on, a futex that both sleep on, and a pair of pipes. Each is the best of ROUNDS. What a
 * core's distance and a virtual machine do to a wake-up is in all of them, so that ratios say more than times. */
#include "actors/cluster/bus_host.h"
#include "actors/cluster/segment.h"
#include "runtime/clock.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 5, SLOTS = 2, SPIN_NS = 1000000 };
static const uint32_t owner[SLOTS] = {0, 1};

struct words {
    _Alignas(64) _Atomic uint32_t ball;
    _Alignas(64) int to[2], back[2];
};

struct way {
    const char *name;
    int64_t spin_ns;
    void (*play)(struct segment *s, const struct way *w, int side, int n);
};

static void
spin(struct segment *s, const struct way *w, int side, int n)
{
    struct words *words = (void *)segment_base(s);
    (void)w;
    for (int i = 0; i < n; i++) {
        while (atomic_load(&words->ball) != (uint32_t)(2 * i + side)) continue;
        atomic_store(&words->ball, (uint32_t)(2 * i + side + 1));
    }
}

static void
sleep_on_futex(struct segment *s, const struct way *w, int side, int n)
{
    struct words *words = (void *)segment_base(s);
    (void)w;
    for (int i = 0; i < n; i++) {
        uint32_t is;
        while ((is = atomic_load(&words->ball)) != (uint32_t)(2 * i + side))
            syscall(SYS_futex, &words->ball, FUTEX_WAIT, is, NULL, NULL, 0);
        atomic_store(&words->ball, (uint32_t)(2 * i + side + 1));
        syscall(SYS_futex, &words->ball, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

static void
pipes(struct segment *s, const struct way *w, int side, int n)
{
    struct words *words = (void *)segment_base(s);
    char m[32] = {0};
    (void)w;
    for (int i = 0; i < n; i++) {
        if (side == 0 && write(words->to[1], m, sizeof m) < 0) exit(1);
        if (read(side ? words->to[0] : words->back[0], m, sizeof m) < 0) exit(1);
        if (side == 1 && write(words->back[1], m, sizeof m) < 0) exit(1);
    }
}

static void
bus(struct segment *s, const struct way *w, int side, int n)
{
    struct bus *b;
    struct msg got;
    uint32_t here = addr_of(side, 0), there = addr_of(!side, 0);
    if (bus_host_map(segment_base(s), segment_bytes(s), SLOTS, owner, &b)) exit(1);
    if (bus_host.open(&(struct bus_options){.process = side, .nthread = 1, .spin_ns = w->spin_ns, .with = b}, &b))
        exit(1);
    b->kind->admit(b, 1);
    for (int i = 0; i < n; i++) {
        struct msg m = {.kind = MSG_FULL, .run = 1, .from = here, .to = there, .piece = (uint32_t)i};
        if (side == 0) bus_send(b, &m);
        while (bus_recv(b, here, &got, 1, true) == 0) continue;
        if (side == 1) bus_send(b, &m);
    }
    b->kind->close(&b);
}

static double
round_trip_us(const struct way *w, int n)
{
    struct segment *s;
    double best = 1e30;
    for (int k = 0; k < ROUNDS; k++) {
        if (segment_new(bus_host_bytes(SLOTS), &s)) exit(1);
        struct words *words = (void *)segment_base(s);
        if (w->play == bus)
            bus_host_format(segment_base(s), SLOTS);
        else if (pipe(words->to) || pipe(words->back))
            exit(1);
        int to[4] = {words->to[0], words->to[1], words->back[0], words->back[1]};
        bool piped = w->play != bus;
        pid_t child = fork();
        if (child == 0) {
            w->play(s, w, 1, n);
            _exit(0);
        }
        int64_t begin = now_ns();
        w->play(s, w, 0, n);
        waitpid(child, NULL, 0);
        double us = (double)(now_ns() - begin) * 1e-3 / n;
        for (int i = 0; piped && i < 4; i++) close(to[i]);
        if (us < best) best = us;
        segment_free(&s);
    }
    return best;
}

int
main(int argc, char **argv)
{
    static const struct way ways[] = {
        {"a word, spinning (limit)", 0, spin},
        {"the bus, spinning", SPIN_NS, bus},
        {"a futex, sleeping (limit)", 0, sleep_on_futex},
        {"the bus, sleeping", 0, bus},
        {"two pipes", 0, pipes},
    };
    int n = argc > 1 ? atoi(argv[1]) : 20000;
    printf("%-28s %12s\n", "round trip, two processes", "us");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        printf("%-28s %12.2f\n", ways[i].name, round_trip_us(&ways[i], n));
    return 0;
}
