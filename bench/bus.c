/* bus.c - time of a message between two threads by the bus and by other carriers.
 *
 * Two threads on two cores send a 32-byte message back and forth; a one-way time is half a round trip. A run
 * measures the limit (a spinning ring in shared memory), the bus with spinning and with sleeping receivers, and
 * ZeroMQ inproc sockets with polling and with blocking receivers. A virtual machine may move its threads to cores
 * that are nearer to each other or farther apart. So the time that a cache line takes between the two cores is
 * printed before and after the table. */
#include "actors/act/bus/bus.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { ROUNDS = 200000, SLEEP_ROUNDS = 10000, WARM = 2000, RING = 256, SPIN_NS = 50000 };

static void
pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/* ---- the limit: a ring with one writer and one reader, by loads and stores alone ---- */

struct ring {
    _Alignas(64) _Atomic uint64_t head;
    _Alignas(64) _Atomic uint64_t tail;
    _Alignas(64) struct msg slot[RING];
};

static inline void
ring_put(struct ring *r, const struct msg *m)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    while (tail - atomic_load_explicit(&r->head, memory_order_acquire) == RING) continue;
    r->slot[tail % RING] = *m;
    atomic_store_explicit(&r->tail, tail + 1, memory_order_release);
}

static inline void
ring_take(struct ring *r, struct msg *m)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    while (atomic_load_explicit(&r->tail, memory_order_acquire) == head) continue;
    *m = r->slot[head % RING];
    atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

/* ---- the carriers of a message ---- */

struct wire {
    struct ring *ring[2]; /* by side: ring that this side receives from */
    struct bus *bus;
    void *context, *socket[2]; /* socket[side] is the socket that this side owns */
};

static void
open_ring(struct wire *w)
{
    for (int i = 0; i < 2; i++) w->ring[i] = memset(aligned_alloc(64, sizeof **w->ring), 0, sizeof **w->ring);
}

static void
close_ring(struct wire *w)
{
    for (int i = 0; i < 2; i++) free(w->ring[i]);
}

static void
send_ring(struct wire *w, int self, const struct msg *m)
{
    ring_put(w->ring[1 - self], m);
}

static void
recv_ring(struct wire *w, int self, struct msg *m)
{
    ring_take(w->ring[self], m);
}

static void
open_bus(struct wire *w, int64_t spin_ns)
{
    struct bus_options o = {.nthread = 2, .spin_ns = spin_ns};
    if (!bus_zmq.open(&o, &w->bus) && !bus_zmq.grow(w->bus, 2)) return;
    fprintf(stderr, "%s\n", err_text());
    exit(1);
}

static void
open_spinning(struct wire *w)
{
    open_bus(w, INT64_C(1000000000));
}

static void
open_short(struct wire *w)
{
    open_bus(w, SPIN_NS);
}

static void
open_sleeping(struct wire *w)
{
    open_bus(w, 0);
}

static void
close_bus(struct wire *w)
{
    bus_zmq.close(&w->bus);
}

static void
send_bus(struct wire *w, int self, const struct msg *m)
{
    struct msg out = *m;
    out.from = addr_of(0, self);
    out.to = addr_of(0, 1 - self);
    bus_send(w->bus, &out);
}

static void
recv_bus(struct wire *w, int self, struct msg *m)
{
    while (!bus_recv(w->bus, (uint32_t)self, m, 1, true)) continue;
}

static void
open_pair(struct wire *w)
{
    w->context = zmq_ctx_new();
    for (int i = 0; i < 2; i++) w->socket[i] = zmq_socket(w->context, ZMQ_PAIR);
    zmq_bind(w->socket[0], "inproc://plain");
    zmq_connect(w->socket[1], "inproc://plain");
}

static void
close_pair(struct wire *w)
{
    for (int i = 0; i < 2; i++) zmq_close(w->socket[i]);
    zmq_ctx_term(w->context);
}

static void
send_pair(struct wire *w, int self, const struct msg *m)
{
    zmq_send(w->socket[self], m, sizeof *m, 0);
}

static void
recv_polling(struct wire *w, int self, struct msg *m)
{
    while (zmq_recv(w->socket[self], m, sizeof *m, ZMQ_DONTWAIT) < 0) continue;
}

static void
recv_blocking(struct wire *w, int self, struct msg *m)
{
    zmq_recv(w->socket[self], m, sizeof *m, 0);
}

static const struct method {
    const char *name;
    void (*open)(struct wire *w);
    void (*close)(struct wire *w);
    void (*send)(struct wire *w, int self, const struct msg *m);
    void (*recv)(struct wire *w, int self, struct msg *m);
    int rounds;
} methods[] = {
    {"ring in shared memory, spinning (limit)", open_ring, close_ring, send_ring, recv_ring, ROUNDS},
    {"bus, spinning", open_spinning, close_bus, send_bus, recv_bus, ROUNDS},
    {"bus, spinning 50 us, then asleep", open_short, close_bus, send_bus, recv_bus, ROUNDS},
    {"bus, asleep at once", open_sleeping, close_bus, send_bus, recv_bus, SLEEP_ROUNDS},
    {"plain inproc PAIR, polling (peer)", open_pair, close_pair, send_pair, recv_polling, SLEEP_ROUNDS},
    {"plain inproc PAIR, blocking (peer)", open_pair, close_pair, send_pair, recv_blocking, SLEEP_ROUNDS},
};

/* ---- measuring ---- */

struct game {
    const struct method *method;
    struct wire wire;
    int core;
};

static void *
echo(void *arg)
{
    struct game *g = arg;
    pin(g->core);
    struct msg m = {0};
    do {
        g->method->recv(&g->wire, 1, &m);
        g->method->send(&g->wire, 1, &m);
    } while (m.kind != MSG_QUIT);
    return NULL;
}

static int
by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void
report(const char *name, int64_t *round_ns, int n)
{
    qsort(round_ns, (size_t)n, sizeof *round_ns, by_size);
    printf("%-42s %9.2f %9.2f %9.2f\n", name, (double)round_ns[n / 2] / 2e3, (double)round_ns[(int)(n * 0.99)] / 2e3,
           (double)round_ns[(int)(n * 0.999)] / 2e3);
    fflush(stdout);
}

static void
measure(const struct method *method, int core)
{
    struct game g = {.method = method, .core = core};
    int64_t *round_ns = malloc(ROUNDS * sizeof *round_ns);
    method->open(&g.wire);
    pthread_t thread;
    pthread_create(&thread, NULL, echo, &g);
    for (int i = -WARM; i < method->rounds; i++) {
        struct msg m = {.kind = i + 1 < method->rounds ? MSG_FULL : MSG_QUIT};
        int64_t start = now_ns();
        method->send(&g.wire, 0, &m);
        method->recv(&g.wire, 0, &m);
        if (i >= 0) round_ns[i] = now_ns() - start;
    }
    pthread_join(thread, NULL);
    method->close(&g.wire);
    report(method->name, round_ns, method->rounds);
    free(round_ns);
}

struct line {
    _Alignas(64) _Atomic int turn;
    int core;
};

static void *
line_echo(void *arg)
{
    struct line *l = arg;
    pin(l->core);
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_load_explicit(&l->turn, memory_order_acquire) != 1) continue;
        atomic_store_explicit(&l->turn, 0, memory_order_release);
    }
    return NULL;
}

/* Measures the one-way time of a cache line between two cores, ns. */
static double
probe(int core)
{
    struct line l = {.core = core};
    pthread_t thread;
    pthread_create(&thread, NULL, line_echo, &l);
    int64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_load_explicit(&l.turn, memory_order_acquire) != 0) continue;
        atomic_store_explicit(&l.turn, 1, memory_order_release);
    }
    pthread_join(thread, NULL);
    return (double)(now_ns() - start) / ROUNDS / 2;
}

/* Times the messages that a thread sends to itself through a ring: the least cost of a hop within a thread. */
static double
same_thread(void)
{
    struct wire w = {0};
    struct msg m = {.kind = MSG_FULL};
    open_ring(&w);
    int64_t start = now_ns();
    for (int i = 0; i < 100 * ROUNDS; i++) {
        m.piece++;
        ring_put(w.ring[0], &m);
        ring_take(w.ring[0], &m);
    }
    double ns = (double)(now_ns() - start) / (100.0 * ROUNDS);
    close_ring(&w);
    return ns;
}

/* Times a send and a receive without waiting, ns: sends a burst of messages, and then receives all of them. */
static void
burst(double *send_ns, double *recv_ns)
{
    enum { N = 100000, AT_ONCE = 64 };
    struct bus *b;
    struct bus_options o = {.nthread = 2};
    struct msg m[AT_ONCE];
    int64_t sending = 0, taking = 0;
    for (int i = 0; i < AT_ONCE; i++) m[i] = (struct msg){.kind = MSG_FULL, .from = addr_of(0, 0), .to = addr_of(0, 1)};
    if (bus_zmq.open(&o, &b) || bus_zmq.grow(b, 2)) exit(1);
    for (int k = 0; k < N / AT_ONCE; k++) {
        int64_t start = now_ns();
        for (int i = 0; i < AT_ONCE; i++) bus_send(b, &m[i]);
        int64_t middle = now_ns();
        for (int n = 0; n < AT_ONCE;) n += bus_recv(b, 1, m + n, AT_ONCE - n, false);
        sending += middle - start, taking += now_ns() - middle;
    }
    bus_zmq.close(&b);
    *send_ns = (double)sending / N;
    *recv_ns = (double)taking / N;
}

int
main(void)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    int core[2], n = 0;
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &set)) core[n++] = i;
    if (n < 2) return fprintf(stderr, "two cores are needed\n"), 1;
    pin(core[0]);
    printf("cores %d and %d: a cache line takes %.0f ns one way\n\n", core[0], core[1], probe(core[1]));
    printf("%-42s %9s %9s %9s\n", "32 bytes, one way, microseconds", "p50", "p99", "p99.9");
    for (size_t i = 0; i < countof(methods); i++) measure(&methods[i], core[1]);
    double send_ns, recv_ns;
    burst(&send_ns, &recv_ns);
    printf("\nwithin a thread: a ring's hop %.1f ns; the bus, in bursts: a send %.0f ns, a receive %.0f ns\n",
           same_thread(), send_ns, recv_ns);
    printf("cores %d and %d afterwards: %.0f ns\n", core[0], core[1], probe(core[1]));
    return 0;
}
