/* bus_sim.c - a bus without threads: a seed decides when what is delivered.
 *
 * One caller drives the loops of all threads. A message sent waits in the queue
 * of its (source, destination); each receive delivers a random number of heads
 * of random queues, possibly none, so that every delay and every order across
 * queues that real threads could show will come up, while order within a queue
 * holds. The same seed and the same calls give the same deliveries: a race
 * becomes a number. */
#include "actors/act/bus.h"
#include "runtime/arena.h"
#include "runtime/error.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_THREAD = 1 << ID_THREAD_BITS, FIRST_ROOM = 64 };

/* A ring of room (a power of two) messages; head and tail only grow. */
struct queue {
    struct msg *ring;
    uint64_t room, head, tail;
};

struct sim_bus {
    struct bus bus;
    int nthread;
    uint64_t random; /* state of the generator */
    int64_t sent, received;
    struct queue *queue; /* nthread x nthread, by destination, then source */
};

/* splitmix64: Steele, Lea & Flood 2014. */
static uint64_t
next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t
bus_sim_choose(struct bus *b, uint64_t n)
{
    assert(b->kind == &bus_sim && n > 0);
    struct sim_bus *s = (struct sim_bus *)b;
    uint64_t uneven = -n % n; /* 2^64 mod n: the lowest values, drawn again, would favour the first choices */
    uint64_t r;
    do r = next(&s->random);
    while (r < uneven);
    return r % n;
}

static void
grow(struct queue *q)
{
    uint64_t room = q->room ? 2 * q->room : FIRST_ROOM;
    struct msg *ring = must_alloc(room * sizeof *ring);
    for (uint64_t i = q->head; i != q->tail; i++) ring[i & (room - 1)] = q->ring[i & (q->room - 1)];
    free(q->ring);
    q->ring = ring;
    q->room = room;
}

static int
send_sim(struct bus *b, int from, int to, const struct msg *m)
{
    struct sim_bus *s = (struct sim_bus *)b;
    assert(from != to && from >= 0 && from < s->nthread && to >= 0 && to < s->nthread);
    struct queue *q = &s->queue[to * s->nthread + from];
    if (q->tail - q->head == q->room) grow(q);
    q->ring[q->tail++ & (q->room - 1)] = *m;
    s->sent++;
    return 0;
}

/* The queues to `self` that hold something; returns how many. */
static int
ready(const struct sim_bus *s, int self, struct queue **q)
{
    int n = 0;
    for (int from = 0; from < s->nthread; from++) {
        struct queue *each = &s->queue[self * s->nthread + from];
        if (each->head != each->tail) q[n++] = each;
    }
    return n;
}

/* Ending now is one choice among the heads; one who waits may not choose it first. */
static int
recv_sim(struct bus *b, int self, struct msg *m, int max, bool wait)
{
    struct sim_bus *s = (struct sim_bus *)b;
    assert(self >= 0 && self < s->nthread);
    struct queue *q[MAX_THREAD];
    int n = 0, nready;
    while (n < max && (nready = ready(s, self, q)) > 0) {
        bool may_end = n > 0 || !wait;
        int choice = (int)bus_sim_choose(b, (uint64_t)nready + may_end);
        if (choice == nready) break;
        m[n++] = q[choice]->ring[q[choice]->head++ & (q[choice]->room - 1)];
    }
    s->received += n;
    return n;
}

bool
bus_sim_quiet(const struct bus *b)
{
    assert(b->kind == &bus_sim);
    const struct sim_bus *s = (const struct sim_bus *)b;
    return s->sent == s->received;
}

static int64_t
sent_sim(const struct bus *b)
{
    return ((const struct sim_bus *)b)->sent;
}

static void
spin_sim(struct bus *b, int64_t spin_ns)
{
    UNUSED(b), UNUSED(spin_ns);
}

static int
open_sim(int nthread, int64_t spin_ns, uint64_t seed, struct bus **out)
{
    UNUSED(spin_ns);
    assert(nthread >= 1 && nthread <= MAX_THREAD);
    struct sim_bus *s = must_alloc(sizeof *s);
    *s = (struct sim_bus){.bus = {&bus_sim}, .nthread = nthread, .random = seed};
    s->queue = must_alloc((size_t)nthread * (size_t)nthread * sizeof *s->queue);
    *out = &s->bus;
    return 0;
}

static void
close_sim(struct bus **b)
{
    struct sim_bus *s = (struct sim_bus *)*b;
    if (!s) return;
    for (int i = 0; i < s->nthread * s->nthread; i++) free(s->queue[i].ring);
    free(s->queue);
    free(s);
    *b = NULL;
}

const struct bus_kind bus_sim = {
    .name = "sim",
    .open = open_sim,
    .close = close_sim,
    .send = send_sim,
    .recv = recv_sim,
    .threaded = false,
    .sent = sent_sim,
    .spin = spin_sim,
};
