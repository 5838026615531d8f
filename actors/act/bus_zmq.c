/* bus_zmq.c - messages between the threads of one process, by ZeroMQ inproc.
 *
 * ZeroMQ carries and orders every message; what this file adds is never asking
 * it in vain. A failed zmq_recv costs a poll(2) and puts the pipe to sleep, so
 * that the next send pays for an eventfd: 1.5 us instead of 0.2. Hence:
 *
 *   link      one PAIR per two threads; both ends carry messages
 *   doorbell  counts the messages sent from one thread to another. It is rung after the send, and the receiver
 *             takes exactly as many as were counted. Its release and acquire also order what the messages are about.
 *   wake      one PULL a thread, the only socket a thread blocks on, with a PUSH in every other thread
 *
 * Going to sleep: set `sleeping`, look at the doorbells once more, block on
 * `wake`. Sending: ring, then look at `sleeping`. Both sides store first and load
 * second, sequentially consistent, so at least one sees the other. Whoever turns
 * `sleeping` from 1 to 0 decides: a sender that does owes one wake message, and
 * the sleeper that finds 0 takes that one. So at most one is ever under way.
 *
 * No limit on queued messages: the credits of a verified plan are the limit.
 * All sockets are made, joined and closed on the session's thread, while no
 * other thread runs; in between each is used by its own thread alone.
 * (libzmq 4.3.4: socket_base.cpp process_commands, pipe.cpp check_read.) */
#include "actors/act/bus.h"
#include "runtime/error.h"

#include <zmq.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

enum { CACHE_LINE = 64, MAX_THREAD = 1 << ID_THREAD_BITS, SPIN_BATCH = 64, LOOK_UP_MS = 100, CROWD_NS = 6000 };

struct doorbell {
    _Alignas(CACHE_LINE) _Atomic uint64_t sent;
};

struct end {
    _Alignas(CACHE_LINE) atomic_int sleeping; /* 1: this thread may be blocked on wake. Anybody may clear it. */
    atomic_int core;                          /* where this thread ran when it last waited; a hint */
    /* What follows is the thread's own, but for the doorbells, which the senders ring. */
    _Alignas(CACHE_LINE) struct doorbell *bell; /* by source */
    uint64_t taken[MAX_THREAD];                 /* by source: messages received */
    void *link[MAX_THREAD];                     /* PAIR, by the other thread */
    void *waker[MAX_THREAD];                    /* PUSH, by the thread it wakes */
    void *wake;                                 /* PULL */
    int first;                                  /* source to look at first, so that none waits for ever */
};

struct zmq_bus {
    struct bus bus;
    int nthread;
    _Atomic int64_t spin_ns;
    void *context;
    struct end *end;
    struct doorbell *bell; /* nthread x nthread, by destination, then source */
};

/* ---- messages ---- */

static int
broken(const char *what)
{
    return fail(E_BUS, "zmq bus: %s: %s", what, zmq_strerror(errno));
}

/* Sends without waiting: there is no limit to wait for, so EAGAIN too means that the bus is broken. */
static int
put(void *socket, const void *bytes, size_t n)
{
    while (zmq_send(socket, bytes, n, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR) return broken("send");
    return 0;
}

/* Takes a message that is there, or surely will be. */
static void
take(void *socket, void *bytes, size_t n)
{
    int got;
    do got = zmq_recv(socket, bytes, n, 0);
    while (got < 0 && (errno == EINTR || errno == EAGAIN));
    assert(got == (int)n);
}

static int
send_zmq(struct bus *b, int from, int to, const struct msg *m)
{
    struct zmq_bus *z = (struct zmq_bus *)b;
    assert(from != to && from >= 0 && from < z->nthread && to >= 0 && to < z->nthread);
    struct end *me = &z->end[from], *peer = &z->end[to];
    TRY(put(me->link[to], m, sizeof *m));
    atomic_fetch_add(&peer->bell[from].sent, 1);
    if (atomic_load(&peer->sleeping) && atomic_exchange(&peer->sleeping, 0)) return put(me->waker[to], "", 0);
    return 0;
}

static bool
rung(const struct zmq_bus *z, const struct end *e)
{
    for (int from = 0; from < z->nthread; from++)
        if (atomic_load(&e->bell[from].sent) != e->taken[from]) return true;
    return false;
}

static int
collect(const struct zmq_bus *z, struct end *e, struct msg *m, int max)
{
    int n = 0;
    for (int k = 0; k < z->nthread && n < max; k++) {
        int from = (e->first + k) % z->nthread;
        uint64_t sent = atomic_load_explicit(&e->bell[from].sent, memory_order_acquire);
        for (; e->taken[from] != sent && n < max; e->taken[from]++) take(e->link[from], &m[n++], sizeof *m);
    }
    e->first = (e->first + 1) % z->nthread;
    return n;
}

/* ---- waiting ---- */

static int64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Does a thread that is awake share this one's core? Then it cannot work while this one spins. */
static bool
crowded(const struct zmq_bus *z, const struct end *e, int core)
{
    for (int i = 0; i < z->nthread; i++) {
        const struct end *other = &z->end[i];
        if (other != e && atomic_load_explicit(&other->core, memory_order_relaxed) == core &&
            !atomic_load_explicit(&other->sleeping, memory_order_relaxed))
            return true;
    }
    return false;
}

/* True as soon as a doorbell rings, false when the budget is spent, or (after CROWD_NS, by when a thread that was just
 * woken has said where it is) when spinning keeps another from working. */
static bool
spin(const struct zmq_bus *z, struct end *e)
{
    int64_t budget = atomic_load_explicit(&z->spin_ns, memory_order_relaxed), begin = now_ns(), now;
    int core = sched_getcpu();
    if (budget <= 0) return false;
    atomic_store_explicit(&e->core, core, memory_order_relaxed);
    do {
        for (int i = 0; i < SPIN_BATCH; i++) {
            if (rung(z, e)) return true;
            relax();
        }
        now = now_ns();
        if (now - begin > CROWD_NS && crowded(z, e, core)) return false;
    } while (now - begin < budget);
    return false;
}

/* Returns when a doorbell has rung, a signal came, or (the session's end) LOOK_UP_MS went by. */
static void
doze(const struct zmq_bus *z, struct end *e)
{
    atomic_store(&e->sleeping, 1);
    bool woken = !rung(z, e) && zmq_recv(e->wake, NULL, 0, 0) == 0;
    if (!woken && !atomic_exchange(&e->sleeping, 0)) take(e->wake, NULL, 0);
    atomic_store_explicit(&e->core, sched_getcpu(), memory_order_relaxed);
}

static int
recv_zmq(struct bus *b, int self, struct msg *m, int max, bool wait)
{
    struct zmq_bus *z = (struct zmq_bus *)b;
    assert(self >= 0 && self < z->nthread);
    struct end *e = &z->end[self];
    int n = collect(z, e, m, max);
    if (n || !wait || z->nthread == 1) return n;
    if (!spin(z, e)) doze(z, e);
    return collect(z, e, m, max);
}

static int64_t
sent_zmq(const struct bus *b)
{
    const struct zmq_bus *z = (const struct zmq_bus *)b;
    uint64_t sum = 0;
    for (int i = 0; i < z->nthread * z->nthread; i++)
        sum += atomic_load_explicit(&z->bell[i].sent, memory_order_relaxed);
    return (int64_t)sum;
}

static void
spin_zmq(struct bus *b, int64_t spin_ns)
{
    atomic_store_explicit(&((struct zmq_bus *)b)->spin_ns, spin_ns, memory_order_relaxed);
}

/* ---- opening and closing ---- */

static int
socket_new(struct zmq_bus *z, int type, void **out)
{
    static const int zero = 0;
    *out = zmq_socket(z->context, type);
    if (!*out) return broken("socket");
    static const int option[] = {ZMQ_LINGER, ZMQ_SNDHWM, ZMQ_RCVHWM};
    for (size_t i = 0; i < countof(option); i++)
        if (zmq_setsockopt(*out, option[i], &zero, sizeof zero)) return broken("option");
    return 0;
}

/* Makes a socket at each side and joins them. The binding side learns of its peer when it next looks at its mailbox,
 * which reading ZMQ_EVENTS does: from then on its sends succeed. */
static int
join(struct zmq_bus *z, int type, void **binds, int peer_type, void **connects, const char *name)
{
    if (!*binds) {
        TRY(socket_new(z, type, binds));
        if (zmq_bind(*binds, name)) return broken(name);
    }
    TRY(socket_new(z, peer_type, connects));
    if (zmq_connect(*connects, name)) return broken(name);
    int events;
    size_t n = sizeof events;
    return zmq_getsockopt(*binds, ZMQ_EVENTS, &events, &n) ? broken(name) : 0;
}

/* The session must see an interrupt that came from another thread, or just before it fell asleep. */
static int
look_up(void *wake)
{
    static const int ms = LOOK_UP_MS;
    return zmq_setsockopt(wake, ZMQ_RCVTIMEO, &ms, sizeof ms) ? broken("option") : 0;
}

static int
join_all(struct zmq_bus *z)
{
    char name[48];
    for (int i = 0; i < z->nthread; i++) {
        for (int j = 0; j < z->nthread; j++) {
            if (i == j) continue;
            snprintf(name, sizeof name, "inproc://wake-%d", i);
            TRY(join(z, ZMQ_PULL, &z->end[i].wake, ZMQ_PUSH, &z->end[j].waker[i], name));
            if (i > j) continue;
            snprintf(name, sizeof name, "inproc://link-%d-%d", i, j);
            TRY(join(z, ZMQ_PAIR, &z->end[i].link[j], ZMQ_PAIR, &z->end[j].link[i], name));
        }
    }
    return look_up(z->end[0].wake);
}

/* Each socket has a file descriptor: with 24 threads more than the usual soft limit of 1024. */
static void
allow_files(int n)
{
    struct rlimit limit;
    rlim_t want = (rlim_t)n + 512;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= want) return;
    limit.rlim_cur = MIN(want, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int
start(struct zmq_bus *z)
{
    int nsocket = z->nthread * (2 * z->nthread - 1);
    allow_files(nsocket);
    z->context = zmq_ctx_new();
    if (!z->context) return broken("context");
    zmq_ctx_set(z->context, ZMQ_IO_THREADS, 0);
    zmq_ctx_set(z->context, ZMQ_BLOCKY, 0);
    zmq_ctx_set(z->context, ZMQ_MAX_SOCKETS, nsocket + 1);
    int status = join_all(z);
    if (status) err_note("%d threads need %d sockets", z->nthread, nsocket);
    return status;
}

static void
close_socket(void *socket)
{
    if (socket) zmq_close(socket);
}

static void
close_zmq(struct bus **b)
{
    struct zmq_bus *z = (struct zmq_bus *)*b;
    if (!z) return;
    for (int i = 0; z->context && i < z->nthread; i++) {
        close_socket(z->end[i].wake);
        for (int j = 0; j < z->nthread; j++) {
            close_socket(z->end[i].link[j]);
            close_socket(z->end[i].waker[j]);
        }
    }
    while (z->context && zmq_ctx_term(z->context) && errno == EINTR) continue;
    free(z->bell);
    free(z->end);
    free(z);
    *b = NULL;
}

/* Zeroed, on cache lines of its own; NULL when there is no memory. bytes: a multiple of a line. */
static void *
lines_new(size_t bytes)
{
    void *p = aligned_alloc(CACHE_LINE, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

static int
open_zmq(int nthread, int64_t spin_ns, uint64_t seed, struct bus **out)
{
    UNUSED(seed);
    assert(nthread >= 1 && nthread <= MAX_THREAD);
    size_t n = (size_t)nthread;
    *out = NULL;
    struct zmq_bus *z = calloc(1, sizeof *z);
    if (!z) return fail(E_MEMORY, "zmq bus: no memory");
    *z = (struct zmq_bus){.bus = {&bus_zmq}, .nthread = nthread};
    spin_zmq(&z->bus, spin_ns);
    z->end = lines_new(n * sizeof *z->end);
    z->bell = lines_new(n * n * sizeof *z->bell);
    struct bus *b = &z->bus;
    int status = z->end && z->bell ? 0 : fail(E_MEMORY, "zmq bus: no memory for %d ends", nthread);
    for (int i = 0; !status && i < nthread; i++) {
        z->end[i].bell = z->bell + (size_t)i * n;
        atomic_init(&z->end[i].core, -1); /* nowhere yet */
    }
    if (!status && nthread > 1) status = start(z);
    if (status) close_zmq(&b);
    *out = b;
    return status;
}

const struct bus_kind bus_zmq = {
    .name = "zmq",
    .open = open_zmq,
    .close = close_zmq,
    .send = send_zmq,
    .recv = recv_zmq,
    .threaded = true,
    .sent = sent_zmq,
    .spin = spin_zmq,
};
