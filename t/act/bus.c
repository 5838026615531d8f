/* Tests of actors/act/bus: messages arrive complete and in order, sleeping threads are woken, the simulator delivers
 * all channels fairly, and a seed repeats its order. */
#include "actors/act/bus/bus.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { NTHREAD = 4, NEACH = 6000, NROUND = 3000, NTOKEN = 2, NHOP = 4000, SPIN_NS = 20000 };

static int
open_bus(const struct bus_kind *kind, int nthread, int64_t spin_ns, uint64_t seed, struct bus **b)
{
    struct bus_options o = {.nthread = nthread, .spin_ns = spin_ns, .seed = seed};
    int status = kind->open(&o, b);
    return status ? status : kind->grow(*b, nthread);
}

static struct msg
message(int from, int to, uint32_t seq)
{
    return (struct msg){.kind = MSG_FULL,
                        .status = (uint8_t)seq,
                        .fan = (uint16_t)from,
                        .from = addr_of(0, from),
                        .to = addr_of(0, to),
                        .task = seq,
                        .piece = ~seq};
}

static int
say(struct bus *b, int from, int to, struct msg m)
{
    m.from = addr_of(0, from);
    m.to = addr_of(0, to);
    return bus_send(b, &m);
}

/* Returns true if m is message number seq from its sender to thread `to`, with unchanged content. */
static bool
genuine(const struct msg *m, int to, uint32_t seq)
{
    struct msg want = message(addr_thread(m->from), to, seq);
    return !memcmp(m, &want, sizeof want);
}

static void
nap(int64_t ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

/* ---- names of bus kinds ---- */

static void
test_parse(void)
{
    const struct bus_kind *kind = NULL;
    uint64_t seed = 1;
    ok(!bus_parse("zmq", &kind, &seed) && kind == &bus_zmq, "\"zmq\" selects the bus between threads");
    ok(!bus_parse("sim:17", &kind, &seed) && kind == &bus_sim && seed == 17,
       "\"sim:17\" selects the simulator with seed 17");
    ok(!bus_parse("sim:18446744073709551615", &kind, &seed) && seed == UINT64_MAX, "a seed may have 64 bits");
    const char *bad[] = {"", "sim", "sim:", "sim:-1", "sim: 1", "sim:1x", "zmq:1", "ZMQ", "sim:18446744073709551616"};
    for (size_t i = 0; i < countof(bad); i++) {
        char quoted[64];
        snprintf(quoted, sizeof quoted, "'%s'", bad[i]);
        ok(bus_parse(bad[i], &kind, &seed) == E_ARG && strstr(err_text(), quoted), "%s is refused and quoted", quoted);
    }
}

/* ---- the real bus and the simulated bus, used by a single thread ---- */

/* Sends and receives at random threads, then receives until no message is left. Returns the number of errors: failed
 * sends, and messages that arrive with changed content or out of order. */
static int64_t
drive(const struct bus_kind *kind, int nthread, uint64_t seed, int nsend, int64_t *delivered)
{
    struct bus *b;
    uint32_t sent[NTHREAD][NTHREAD] = {0}, taken[NTHREAD][NTHREAD] = {0};
    int64_t wrong = open_bus(kind, nthread, 0, seed, &b), total = 0;
    *delivered = 0;
    for (int idle = 0; total < nsend || *delivered < total;) {
        int self = (int)(next_random(&seed) % (uint64_t)nthread), to = (int)(next_random(&seed) % (uint64_t)nthread);
        if (total < nsend && self != to) {
            struct msg m = message(self, to, sent[self][to]++);
            wrong += say(b, self, to, m) != 0;
            total++;
        }
        struct msg in[3];
        int n = bus_recv(b, to, in, 1 + (int)(next_random(&seed) % 3), false);
        for (int i = 0; i < n; i++) wrong += !genuine(&in[i], to, taken[addr_thread(in[i].from)][to]++);
        *delivered += n;
        idle = n ? 0 : idle + 1;
        if (idle > 10000) break;
    }
    wrong += b->kind->sent(b) != total;
    kind->close(&b);
    return wrong + (b != NULL);
}

static void
test_driven(const struct bus_kind *kind, uint64_t seed)
{
    for (int nthread = 2; nthread <= NTHREAD; nthread++) {
        int64_t delivered;
        is_int(drive(kind, nthread, seed, 5000, &delivered), 0, "messages of a channel arrive unchanged and in order");
        is_int(delivered, 5000, "all messages arrive");
    }
}

static void
test_alone(const struct bus_kind *kind)
{
    struct bus *b;
    struct msg m;
    is_int(open_bus(kind, 1, SPIN_NS, 1, &b), 0, "one thread opens a bus");
    is_int(bus_recv(b, 0, &m, 1, false), 0, "a thread alone on a bus receives no message");
    is_int(bus_recv(b, 0, &m, 1, true), 0, "a wait for a message ends when no other thread can send");
    kind->close(&b);
    kind->close(&b);
    ok(!b, "close clears the pointer and may be repeated");
}

static void
test_undelivered(const struct bus_kind *kind)
{
    struct bus *b;
    struct msg m = message(0, 1, 0);
    int bad = open_bus(kind, 3, 0, 1, &b);
    for (int i = 0; i < 100000; i++) bad += say(b, 0, 1 + i % 2, m);
    is_int(bad, 0, "sending never blocks, however slow the receiver");
    kind->close(&b);
    ok(!b, "closing with 100000 undelivered messages does not hang");
}

/* ---- the simulator ---- */

/* Sends two messages on two channels and receives once. Returns 0 if no message arrives, 1 if only the first one
 * does, 2 if only the second, 3 if both arrive in order, 4 if both arrive in reverse order. */
static int
outcome(uint64_t seed)
{
    struct bus *b;
    struct msg m[4], a = message(1, 0, 0), c = message(2, 0, 0);
    open_bus(&bus_sim, 3, 0, seed, &b);
    say(b, 1, 0, a);
    say(b, 2, 0, c);
    int n = bus_recv(b, 0, m, 4, false);
    bus_sim.close(&b);
    return n == 0 ? 0 : 2 * (n - 1) + addr_thread(m[0].from);
}

static void
test_sim_reaches(uint64_t seed)
{
    int seen[5] = {0};
    for (int i = 0; i < 3000; i++) seen[outcome(seed + (uint64_t)i)]++;
    for (int i = 0; i < 5; i++)
        ok(seen[i] > 300, "of two pending messages the simulator delivers %s (%d of 3000)",
           ((const char *[]){"none", "only the first", "only the second", "first, then second",
                             "second, then first"})[i],
           seen[i]);
}

/* Returns a hash of the order of 2000 deliveries. */
static uint64_t
fingerprint(uint64_t seed)
{
    struct bus *b;
    struct msg m[8];
    uint64_t hash = 0;
    open_bus(&bus_sim, 4, 0, seed, &b);
    for (uint32_t i = 0; i < 2000; i++) {
        int to = (int)(i % 4), from = (int)(i * 7 % 3);
        struct msg out = message(from == to ? 3 : from, to, i);
        say(b, from == to ? 3 : from, to, out);
        int n = bus_recv(b, (to + 1) % 4, m, 8, i % 5 == 0);
        for (int k = 0; k < n; k++) hash = hash * 31 + m[k].task;
    }
    bus_sim.close(&b);
    return hash;
}

static void
test_sim_repeats(uint64_t seed)
{
    int same = 0, changed = 0;
    for (uint64_t i = 0; i < 20; i++) {
        same += fingerprint(seed + i) == fingerprint(seed + i);
        changed += fingerprint(seed + i) != fingerprint(seed + i + 1);
    }
    is_int(same, 20, "equal seeds give the same deliveries");
    is_int(changed, 20, "different seeds give different deliveries");
}

static void
test_sim_waits(void)
{
    struct bus *b;
    struct msg m = message(1, 0, 0);
    int got = 0;
    open_bus(&bus_sim, 2, 0, 5, &b);
    for (int i = 0; i < 200; i++) {
        say(b, 1, 0, m);
        got += bus_recv(b, 0, &m, 1, true);
    }
    is_int(got, 200, "a waiting receive returns a message if one is pending");
    bus_sim.close(&b);
}

static void
test_sim_chooses(uint64_t seed)
{
    struct bus *b;
    int count[7] = {0};
    bool within = true;
    open_bus(&bus_sim, 2, 0, seed, &b);
    for (int i = 0; i < 70000; i++) {
        uint64_t c = bus_choose(b, 7);
        within &= c < 7;
        if (c < 7) count[c]++;
    }
    ok(within && bus_choose(b, 1) == 0, "bus_choose(n) returns less than n");
    for (int i = 0; i < 7; i++) ok(abs(count[i] - 10000) < 500, "choice %d of 7 is as frequent as the others", i);
    bus_sim.close(&b);
}

/* ---- many threads on one bus ---- */

struct crowd {
    struct bus *bus;
    uint64_t seed;
    int *shared; /* numbers in ordinary memory, NEACH for each pair of threads; a message announces each number */
};
struct member {
    struct crowd *crowd;
    int self;
    int64_t wrong;
    pthread_t thread;
};

static int *
passed_on(const struct crowd *c, int from, int to, uint32_t seq)
{
    return &c->shared[((size_t)from * NTHREAD + (size_t)to) * NEACH + seq];
}

/* Receives pending messages, adds the number of wrong messages to me->wrong, and returns how many arrived. */
static int
listen(struct member *me, uint32_t *taken, bool wait)
{
    struct msg in[16];
    int n = bus_recv(me->crowd->bus, me->self, in, 16, wait);
    for (int i = 0; i < n; i++) {
        int from = addr_thread(in[i].from);
        uint32_t seq = taken[from]++;
        me->wrong += !genuine(&in[i], me->self, seq) || *passed_on(me->crowd, from, me->self, seq) != (int)seq + 1;
    }
    return n;
}

static void *
chatter(void *arg)
{
    struct member *me = arg;
    uint32_t sent[NTHREAD] = {0}, taken[NTHREAD] = {0};
    uint64_t random = me->crowd->seed + (uint64_t)me->self;
    int to_send = (NTHREAD - 1) * NEACH, to_take = to_send;
    while (to_send || to_take) {
        int to = (int)(next_random(&random) % NTHREAD), burst = (int)(next_random(&random) % 40);
        for (; to != me->self && burst && sent[to] < NEACH; burst--, to_send--) {
            uint32_t seq = sent[to]++;
            *passed_on(me->crowd, me->self, to, seq) = (int)seq + 1;
            struct msg m = message(me->self, to, seq);
            me->wrong += say(me->crowd->bus, me->self, to, m) != 0;
        }
        if (next_random(&random) % 64 == 0) nap((int64_t)(next_random(&random) % 50000));
        to_take -= listen(me, taken, to_take && !to_send);
    }
    return NULL;
}

/* Waits for messages that carry tokens. Passes each token to a random other thread, as many times as the field
 * `piece` of its message says. The last receiver of a token tells thread 0 that the token has ended. */
static void *
relay(void *arg)
{
    struct member *me = arg;
    struct bus *b = me->crowd->bus;
    uint64_t random = me->crowd->seed + (uint64_t)me->self;
    for (int ended = 0; ended < NTOKEN;) {
        struct msg m;
        if (!bus_recv(b, me->self, &m, 1, true)) continue;
        if (m.kind == MSG_QUIT) break;
        me->wrong += *passed_on(me->crowd, 0, 0, m.reg) != (int)m.piece;
        if (m.piece == 0) m.kind = MSG_END;
        if (m.kind == MSG_END && me->self == 0) ended++;
        if (m.kind == MSG_END && me->self != 0) say(b, me->self, 0, m);
        if (m.kind == MSG_END) continue;
        *passed_on(me->crowd, 0, 0, m.reg) = (int)--m.piece;
        int to = (me->self + 1 + (int)(next_random(&random) % (NTHREAD - 1))) % NTHREAD;
        me->wrong += say(b, me->self, to, m) != 0;
    }
    for (int to = 1; me->self == 0 && to < NTHREAD; to++) say(b, 0, to, (struct msg){.kind = MSG_QUIT});
    return NULL;
}

/* Runs body on NTHREAD threads, including the calling thread. Returns the number of errors that the threads found. */
static int64_t
together(struct crowd *c, void *(*body)(void *))
{
    struct member m[NTHREAD];
    int64_t wrong = 0;
    for (int i = 0; i < NTHREAD; i++) m[i] = (struct member){.crowd = c, .self = i};
    for (int i = 1; i < NTHREAD; i++) pthread_create(&m[i].thread, NULL, body, &m[i]);
    body(&m[0]);
    for (int i = 1; i < NTHREAD; i++) pthread_join(m[i].thread, NULL);
    for (int i = 0; i < NTHREAD; i++) wrong += m[i].wrong;
    return wrong;
}

static void
test_crowd(int64_t spin_ns, uint64_t seed)
{
    const char *how = spin_ns ? "spinning" : "sleeping";
    struct crowd c = {.seed = seed, .shared = calloc((size_t)NTHREAD * NTHREAD * NEACH, sizeof(int))};
    int64_t wrong = open_bus(&bus_zmq, NTHREAD, spin_ns, 0, &c.bus);
    wrong += together(&c, chatter);
    ok(wrong == 0, "%d %s threads that all send to each other lose no message", NTHREAD, how);
    is_int(bus_zmq.sent(c.bus), NTHREAD * (NTHREAD - 1) * NEACH, "the bus counts every message between threads");
    for (uint32_t i = 0; i < NTOKEN; i++) {
        struct msg m = {.kind = MSG_FULL, .reg = i, .piece = NHOP};
        *passed_on(&c, 0, 0, i) = NHOP;
        say(c.bus, 0, 1 + (int)i % (NTHREAD - 1), m);
    }
    ok(together(&c, relay) == 0, "tokens passed at random between %s threads arrive, and publish plain memory", how);
    bus_zmq.close(&c.bus);
    free(c.shared);
}

/* ---- waking sleeping threads ---- */

/* State shared by two players, of whom one at a time may write. ball: in ordinary memory; a message tells a player
 * that it may write. */
struct table {
    struct bus *bus;
    int64_t ball;
    atomic_int interrupted;
};

static struct msg
receive(struct table *t, int self)
{
    struct msg m;
    while (!bus_recv(t->bus, self, &m, 1, true)) atomic_fetch_add(&t->interrupted, 1);
    return m;
}

static void *
player(void *arg)
{
    struct table *t = arg;
    for (;;) {
        struct msg m = receive(t, 1);
        if (m.kind == MSG_QUIT) return NULL;
        t->ball += m.task;
        say(t->bus, 1, 0, m);
    }
}

static void
start_player(struct table *t, int64_t spin_ns, pthread_t *thread)
{
    *t = (struct table){0};
    open_bus(&bus_zmq, 2, spin_ns, 0, &t->bus);
    pthread_create(thread, NULL, player, t);
}

static void
stop_player(struct table *t, pthread_t thread)
{
    say(t->bus, 0, 1, (struct msg){.kind = MSG_QUIT});
    pthread_join(thread, NULL);
    bus_zmq.close(&t->bus);
}

static int64_t
play(struct table *t, int nround)
{
    int64_t wrong = 0, ball = t->ball;
    for (uint32_t i = 0; i < (uint32_t)nround; i++) {
        struct msg m = message(0, 1, i);
        say(t->bus, 0, 1, m);
        m = receive(t, 0);
        ball += i;
        wrong += m.task != i || t->ball != ball;
    }
    return wrong;
}

static void
test_wakes(void)
{
    struct table t;
    pthread_t thread;
    start_player(&t, 0, &thread);
    is_int(play(&t, NROUND), 0,
           "each message wakes a sleeping thread, which sees all that was written before the send");
    stop_player(&t, thread);
    start_player(&t, SPIN_NS, &thread);
    is_int(play(&t, NROUND), 0, "each message wakes a thread that spins before it sleeps");
    nap(5000000);
    is_int(play(&t, 1), 0, "a message wakes a thread that slept for 5 ms");
    stop_player(&t, thread);
}

static void
on_signal(int sig)
{
    UNUSED(sig);
}

/* Checks that a signal ends a wait without messages, and that later messages still wake the thread. */
static void
test_signals(void)
{
    struct table t;
    pthread_t thread;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    start_player(&t, 0, &thread);
    int64_t wrong = 0;
    for (int i = 0; i < 200; i++) {
        pthread_kill(thread, SIGUSR1);
        if (i % 2) nap(100000);
        wrong += play(&t, 3);
    }
    is_int(wrong, 0, "signals lose no message");
    int before = atomic_load(&t.interrupted);
    for (int i = 0; i < 1000 && atomic_load(&t.interrupted) == before; i++) {
        nap(1000000);
        pthread_kill(thread, SIGUSR1);
    }
    ok(atomic_load(&t.interrupted) > before, "a signal ends a wait without a message");
    stop_player(&t, thread);
}

static void
test_many(void)
{
    struct bus *b;
    struct msg m;
    int64_t wrong = 0;
    if (!ok(!open_bus(&bus_zmq, 16, 0, 0, &b), "16 threads open a bus")) diag("%s", err_text());
    for (int from = 0; from < 16; from++) {
        for (int to = 0; to < 16; to++) {
            if (from == to) continue;
            struct msg out = message(from, to, 1);
            wrong += say(b, from, to, out) != 0;
            wrong += bus_recv(b, to, &m, 1, true) != 1 || !genuine(&m, to, 1) || addr_thread(m.from) != from;
        }
    }
    is_int(wrong, 0, "each of 16 threads reaches every other");
    bus_zmq.close(&b);
}

int
main(void)
{
    uint64_t seed = seed_of(20);
    test_parse();
    const struct bus_kind *kind[] = {&bus_zmq, &bus_sim};
    for (size_t i = 0; i < countof(kind); i++) {
        diag("%s", kind[i]->name);
        test_alone(kind[i]);
        test_driven(kind[i], seed);
        test_undelivered(kind[i]);
    }
    test_sim_reaches(seed);
    test_sim_repeats(seed);
    test_sim_waits();
    test_sim_chooses(seed);
    test_crowd(0, seed);
    test_crowd(SPIN_NS, seed);
    test_wakes();
    test_signals();
    test_many();
    return done();
}
