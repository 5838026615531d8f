/* bus_zmq.c - messages between the threads of one process, by ZeroMQ inproc.
 *
 * ZeroMQ carries and orders all messages. The receiver never reads an empty socket: a failed zmq_recv costs a
 * poll(2) and puts the pipe to sleep, so the next send pays for an eventfd, 1.5 us instead of 0.2. Three parts of
 * the bus avoid such reads:
 *
 * - link: a PAIR of sockets for every two threads; carries messages in both directions.
 * - doorbell: counts the messages sent from one thread to another. The sender increments the counter after the send,
 *   and the receiver receives exactly as many messages as were counted. Release and acquire on the counter also make
 *   the data that a message is about visible to the receiver.
 * - waker: the word on which a thread sleeps (waker.h). Threads never block on a socket, so streams can wake them, too.
 *
 * Queues have no limit: the credits of a verified plan bound the messages. The session's thread creates, connects
 * and closes sockets between runs; it creates a thread's sockets when a run first needs the thread. During a run
 * a socket is used only by its thread, which learns of a new socket by a later message. (libzmq 4.3.4:
 * socket_base.cpp process_commands, pipe.cpp check_read.) */
#include "actors/act/bus/bus.h"
#include "actors/act/bus/context.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/limits.h"
#include "runtime/base/system.h"
#include "runtime/base/waker.h"

#include <zmq.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sched.h>

enum { CACHE_LINE = 64, SPIN_BATCH = 64, LOOK_UP_NS = 100000000, CROWD_NS = 6000 };

struct doorbell {
    _Alignas(CACHE_LINE) _Atomic uint64_t sent;
};

struct end {
    _Alignas(CACHE_LINE) struct waker waker;
    atomic_int core; /* processor core on which the thread last waited; may be out of date */
    /* Fields used by the end's thread only. The doorbells are also incremented by the senders. */
    /* counters of the messages sent to this thread (doorbells), by sending thread */
    _Alignas(CACHE_LINE) struct doorbell *bell;
    uint64_t taken[MOST_THREADS]; /* number of messages received, by sending thread */
    void *link[MOST_THREADS];     /* PAIR socket to the thread with this index; NULL: not linked */
    int first; /* number of the thread whose messages are received first; rotates, so that no thread waits for ever */
    struct bus_user user;
};

struct zmq_bus {
    struct bus bus;
    int process, most;   /* most: maximum number of threads */
    _Atomic int nthread; /* number of ends; read by all threads */
    int64_t spin_ns;
    void *context;
    struct end *end;
    /* array of most * most doorbells (counters of messages), by destination thread, then source thread */
    struct doorbell *bell;
};

/* ---- messages ---- */

static int
bus_broken(const char *what)
{
    return fail(E_BUS, "zmq bus: %s: %s", what, zmq_strerror(errno));
}

/* Sends without blocking. EAGAIN counts as an error, too, because a socket without a queue limit never returns it. */
static int
send_frame(void *socket, const void *bytes, size_t n)
{
    while (zmq_send(socket, bytes, n, ZMQ_DONTWAIT) < 0)
        if (errno != EINTR) return bus_broken("send");
    return 0;
}

/* Receives a message of n bytes, which has arrived or whose doorbell was rung. Waits if the message has not arrived
 * yet. */
static void
recv_frame(void *socket, void *bytes, size_t n)
{
    int got;
    do got = zmq_recv(socket, bytes, n, 0);
    while (got < 0 && (errno == EINTR || errno == EAGAIN));
    assert(got == (int)n);
}

/* Returns the number of threads with sockets, as the calling thread sees it. The number may be out of date. That is
 * harmless: a thread that does not see the newest thread yet has received no message from it. */
static inline int
bus_has_threads(const struct zmq_bus *z)
{
    return atomic_load_explicit(&z->nthread, memory_order_relaxed);
}

static int
bus_send_zmq(struct bus *b, const struct msg *m)
{
    struct zmq_bus *z = (struct zmq_bus *)b;
    int from = addr_thread(m->from), to = addr_thread(m->to);
    assert(from != to && from < bus_has_threads(z) && to < bus_has_threads(z) && addr_process(m->to) == z->process);
    struct end *me = &z->end[from], *peer = &z->end[to];
    TRY(send_frame(me->link[to], m, sizeof *m));
    atomic_fetch_add(&peer->bell[from].sent, 1);
    waker_wake(&peer->waker);
    return 0;
}

static void
nudge_zmq(struct bus *b, uint32_t end)
{
    waker_wake(&((struct zmq_bus *)b)->end[addr_thread(end)].waker);
}

/* Returns true if a message has arrived for the thread, or if it can do something without a message. */
static bool
bus_zmq_rung(const struct zmq_bus *z, const struct end *e)
{
    for (int from = 0, n = bus_has_threads(z); from < n; from++)
        if (atomic_load(&e->bell[from].sent) != e->taken[from]) return true;
    return e->user.busy && e->user.busy(e->user.of);
}

static int
bus_zmq_collect(const struct zmq_bus *z, struct end *e, struct msg *m, int max)
{
    int n = 0, nend = bus_has_threads(z);
    for (int k = 0; k < nend && n < max; k++) {
        int from = e->first + k < nend ? e->first + k : e->first + k - nend;
        uint64_t sent = atomic_load_explicit(&e->bell[from].sent, memory_order_acquire);
        for (; e->taken[from] != sent && n < max; e->taken[from]++) recv_frame(e->link[from], &m[n++], sizeof *m);
    }
    e->first = e->first + 1 < nend ? e->first + 1 : 0;
    return n;
}

/* ---- waiting ---- */

/* Returns true if another awake thread last waited on the caller's core: that thread cannot work while the caller
 * spins. */
static bool
crowded(const struct zmq_bus *z, const struct end *e, int core)
{
    for (int i = 0, n = bus_has_threads(z); i < n; i++) {
        const struct end *other = &z->end[i];
        if (other != e && atomic_load_explicit(&other->core, memory_order_relaxed) == core &&
            !atomic_load_explicit(&other->waker.asleep, memory_order_relaxed))
            return true;
    }
    return false;
}

static bool
rings_soon(const struct zmq_bus *z, const struct end *e)
{
    for (int i = 0; i < SPIN_BATCH; i++, relax())
        if (bus_zmq_rung(z, e)) return true;
    return false;
}

/* Spins until a doorbell is rung, and returns true. Returns false after spin_ns, or after CROWD_NS if spinning keeps
 * another thread from working. CROWD_NS is long enough for a thread that was just woken to record its core. */
static bool
bus_zmq_spin(const struct zmq_bus *z, struct end *e)
{
    int64_t budget = z->spin_ns, begin, now;
    if (budget <= 0) return false;
    if (rings_soon(z, e)) return true; /* a short look without the clock, because reading the clock costs time */
    int core = system_core();
    begin = now_ns();
    atomic_store_explicit(&e->core, core, memory_order_relaxed);
    do {
        if (rings_soon(z, e)) return true;
        now = now_ns();
        if (now - begin > CROWD_NS && crowded(z, e, core)) return false;
    } while (now - begin < budget);
    return false;
}

/* Sleeps until a doorbell is rung, until a nudge or a signal, or until the end's time limit. The session's thread
 * sleeps for at most LOOK_UP_NS, because an interrupt may arrive on another thread, or just before the sleep begins. */
static void
bus_zmq_doze(const struct zmq_bus *z, struct end *e)
{
    int64_t most = e->user.waits ? e->user.waits(e->user.of) : 0;
    if (e == z->end && (most == 0 || most > LOOK_UP_NS)) most = LOOK_UP_NS;
    waker_arm(&e->waker);
    if (bus_zmq_rung(z, e))
        waker_disarm(&e->waker);
    else
        waker_sleep(&e->waker, most);
    atomic_store_explicit(&e->core, system_core(), memory_order_relaxed);
}

static int
recv_zmq(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait)
{
    struct zmq_bus *z = (struct zmq_bus *)b;
    assert(addr_thread(self) < bus_has_threads(z));
    struct end *e = &z->end[addr_thread(self)];
    int n = bus_zmq_collect(z, e, m, max);
    if (n || wait == BUS_LOOK || bus_has_threads(z) == 1) return n;
    if (wait == BUS_SLEEP || !bus_zmq_spin(z, e)) bus_zmq_doze(z, e);
    return bus_zmq_collect(z, e, m, max);
}

/* Runs one turn of the event loop of the session's thread. The other device threads run their own loops. */
static bool
drive_zmq(struct bus *b, uint32_t self)
{
    const struct bus_user *u = &((struct zmq_bus *)b)->end[addr_thread(self)].user;
    u->turn(u->of, true);
    return true;
}

static uint64_t
choose_zmq(struct bus *b, uint64_t n)
{
    UNUSED(b), UNUSED(n);
    return 0;
}

static void
attach_zmq(struct bus *b, uint32_t end, struct bus_user user)
{
    ((struct zmq_bus *)b)->end[addr_thread(end)].user = user;
}

static int64_t
sent_zmq(const struct bus *b)
{
    const struct zmq_bus *z = (const struct zmq_bus *)b;
    uint64_t sum = 0;
    for (int i = 0; i < z->most * z->most; i++) sum += atomic_load_explicit(&z->bell[i].sent, memory_order_relaxed);
    return (int64_t)sum;
}

/* ---- opening and closing ---- */

static int
socket_new(struct zmq_bus *z, void **out)
{
    static const int zero = 0;
    *out = zmq_socket(z->context, ZMQ_PAIR);
    if (!*out) return bus_broken("socket");
    static const int option[] = {ZMQ_LINGER, ZMQ_SNDHWM, ZMQ_RCVHWM};
    for (size_t i = 0; i < countof(option); i++)
        if (zmq_setsockopt(*out, option[i], &zero, sizeof zero)) return bus_broken("option");
    return 0;
}

/* Connects threads i and j, i < j, by a pair of sockets. The binding socket cannot send before it has read its
 * mailbox and learned of its peer. A query of ZMQ_EVENTS makes the socket read its mailbox. */
static int
connect_ends(struct zmq_bus *z, int i, int j)
{
    void **binds = &z->end[i].link[j], **connects = &z->end[j].link[i];
    char name[48];
    int events;
    size_t n = sizeof events;
    snprintf(name, sizeof name, "inproc://link-%d-%d", i, j);
    TRY(socket_new(z, binds));
    if (zmq_bind(*binds, name)) return bus_broken(name);
    TRY(socket_new(z, connects));
    if (zmq_connect(*connects, name)) return bus_broken(name);
    return zmq_getsockopt(*binds, ZMQ_EVENTS, &events, &n) ? bus_broken(name) : 0;
}

static int
sockets_of(int nthread)
{
    return nthread * (nthread - 1);
}

static void
close_socket(void **socket)
{
    if (*socket) zmq_close(*socket);
    *socket = NULL;
}

/* Closes the sockets between thread j and the threads before it. */
static void
disconnect_ends(struct zmq_bus *z, int j)
{
    for (int i = 0; i < j; i++) {
        close_socket(&z->end[i].link[j]);
        close_socket(&z->end[j].link[i]);
    }
}

/* Creates the sockets of new threads, so that the bus has nthread threads: one pair of sockets between each new
 * thread and every other thread. The existing threads sleep meanwhile. They use the new sockets only after their next
 * message. */
static int
grow_zmq(struct bus *b, int nthread)
{
    struct zmq_bus *z = (struct zmq_bus *)b;
    assert(nthread <= z->most);
    if (!z->context && nthread > 1) TRY(context_new(0, sockets_of(z->most) + 1, &z->context));
    /* the sockets of 32 or more threads need more than the usual 1024 files; if that fails, a socket fails below */
    if (nthread > bus_has_threads(z) && limits_open_files((size_t)sockets_of(nthread) + 512)) err_clear();
    for (int j = bus_has_threads(z); j < nthread; j++) {
        int status = 0;
        for (int i = 0; !status && i < j; i++) status = connect_ends(z, i, j);
        if (status) {
            disconnect_ends(z, j);
            err_note("the zmq bus needs %d sockets for %d threads (if too many, set RILLE_THREADS or ulimit -n)",
                     sockets_of(nthread), nthread);
            return status;
        }
        atomic_store(&z->nthread, j + 1);
    }
    return 0;
}

static void
bus_close_zmq(struct bus **b)
{
    struct zmq_bus *z = (struct zmq_bus *)*b;
    if (!z) return;
    for (int j = z->context ? bus_has_threads(z) - 1 : 0; j > 0; j--) disconnect_ends(z, j);
    while (z->context && zmq_ctx_term(z->context) && errno == EINTR) continue;
    free(z->bell);
    free(z->end);
    free(z);
    *b = NULL;
}

/* Returns zeroed memory that shares no cache line with other memory; NULL: out of memory. bytes: size, a multiple of
 * CACHE_LINE. */
static void *
lines_new(size_t bytes)
{
    void *p = aligned_alloc(CACHE_LINE, bytes);
    return p ? memset(p, 0, bytes) : NULL;
}

static int
open_zmq(const struct bus_options *o, struct bus **out)
{
    assert(o->nthread >= 1 && o->nthread <= MOST_THREADS);
    size_t n = (size_t)o->nthread;
    *out = NULL;
    struct zmq_bus *z = calloc(1, sizeof *z);
    if (!z) return fail(E_MEMORY, "zmq bus: out of memory for %d threads", o->nthread);
    *z = (struct zmq_bus){
        .bus = {&bus_zmq}, .process = o->process, .most = o->nthread, .nthread = 1, .spin_ns = o->spin_ns};
    z->end = lines_new(n * sizeof *z->end);
    z->bell = lines_new(n * n * sizeof *z->bell);
    struct bus *b = &z->bus;
    int status =
        z->end && z->bell ? 0 : fail(E_MEMORY, "zmq bus: out of memory for the sockets of %d threads", o->nthread);
    for (int i = 0; !status && i < o->nthread; i++) {
        z->end[i].bell = z->bell + (size_t)i * n;
        atomic_init(&z->end[i].core, -1); /* -1: the thread's core is not known yet */
    }
    if (status) bus_close_zmq(&b);
    *out = b;
    return status;
}

const struct bus_kind bus_zmq = {
    .name = "zmq",
    .open = open_zmq,
    .close = bus_close_zmq,
    .grow = grow_zmq,
    .attach = attach_zmq,
    .send = bus_send_zmq,
    .recv = recv_zmq,
    .nudge = nudge_zmq,
    .drive = drive_zmq,
    .choose = choose_zmq,
    .threaded = true,
    .sent = sent_zmq,
};
