/* bus_sim.c - a bus without threads: a seed decides in which order messages are delivered and threads run.
 *
 * The caller drives the event loops of all ends (simulated threads), of one or several processes. A sent message
 * waits in the queue of its (source, destination) pair. A receive delivers the first messages of a random number of
 * random queues, possibly of none. So every delay, and every order across queues that threads could show, can occur,
 * but the order within a queue is kept. The same seed and the same calls give the same deliveries, so a race is
 * reproduced by its seed. */
#include "actors/act/bus/bus.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

/* A ring buffer of messages. capacity: a power of two; head and tail count messages and never decrease. */
struct queue {
    struct msg *ring;
    uint64_t capacity, head, tail;
};

struct sim_end {
    uint32_t addr;
    struct bus_user user; /* event loop of the end; its `turn` is NULL until attach() sets the loop */
    struct queue *from;   /* queues of messages to this end, by index of the sending end */
};

struct sim_bus {
    struct bus bus;
    int nopen;       /* number of processes that have opened the bus */
    uint64_t random; /* state of the random generator */
    int64_t sent, received;
    struct sim_end *end;
    int nend;
    int *used, nused; /* indices of the ends that have an event loop */
};

/* Returns the next number of splitmix64 (Steele, Lea & Flood 2014). */
static uint64_t
sim_bus_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t
choose_sim(struct bus *b, uint64_t n)
{
    assert(!b->kind->threaded && n > 0);
    struct sim_bus *s = (struct sim_bus *)b;
    /* 2^64 mod n. A draw below it is repeated, because keeping it would make small results more likely */
    uint64_t uneven = -n % n;
    uint64_t r;
    do r = sim_bus_random(&s->random);
    while (r < uneven);
    return r % n;
}

/* Returns the index, among all simulated threads, of the thread with this bus address. The threads of a process have
 * adjacent indices. */
static int
sim_end_of(const struct sim_bus *s, uint32_t addr)
{
    for (int i = 0; i < s->nend; i++)
        if (addr_process(s->end[i].addr) == addr_process(addr)) {
            i += addr_thread(addr);
            assert(i < s->nend && s->end[i].addr == addr);
            return i;
        }
    assert(!"unknown bus address");
    return -1;
}

static void
grow_queue(struct queue *q)
{
    uint64_t capacity = q->capacity ? 2 * q->capacity : FIRST_CAPACITY;
    struct msg *ring = must_alloc(capacity * sizeof *ring);
    for (uint64_t i = q->head; i != q->tail; i++) ring[i & (capacity - 1)] = q->ring[i & (q->capacity - 1)];
    free(q->ring);
    q->ring = ring;
    q->capacity = capacity;
}

static int
send_sim(struct bus *b, const struct msg *m)
{
    struct sim_bus *s = (struct sim_bus *)b;
    assert(m->from != m->to);
    struct queue *q = &s->end[sim_end_of(s, m->to)].from[sim_end_of(s, m->from)];
    if (q->tail - q->head == q->capacity) grow_queue(q);
    q->ring[q->tail++ & (q->capacity - 1)] = *m;
    s->sent++;
    return 0;
}

/* Returns the number of non-empty queues to this end, and sets *q to the non-empty queue with index `number`. */
static int
ready(const struct sim_bus *s, const struct sim_end *e, int number, struct queue **q)
{
    int n = 0;
    for (int from = 0; from < s->nend; from++) {
        struct queue *each = &e->from[from];
        if (each->head == each->tail) continue;
        if (n++ == number) *q = each;
    }
    return n;
}

/* Delivers the first messages of random queues. Each random choice selects a queue, or ends the receive. If `wait`
 * is set, at least one message is delivered. */
static int
recv_sim(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait)
{
    struct sim_bus *s = (struct sim_bus *)b;
    const struct sim_end *e = &s->end[sim_end_of(s, self)];
    struct queue *q = NULL;
    int n = 0, nready;
    while (n < max && (nready = ready(s, e, -1, NULL)) > 0) {
        bool may_end = n > 0 || !wait;
        int choice = (int)choose_sim(b, (uint64_t)nready + may_end);
        if (choice == nready) break;
        ready(s, e, choice, &q);
        m[n++] = q->ring[q->head++ & (q->capacity - 1)];
    }
    s->received += n;
    return n;
}

/* Returns true if no end has anything to do and no message is queued, so the run is deadlocked or over. */
static bool
quiet(const struct sim_bus *s)
{
    for (int i = 0; i < s->nused; i++) {
        const struct bus_user *u = &s->end[s->used[i]].user;
        if (u->busy(u->of)) return false;
    }
    return s->sent == s->received;
}

static bool
drive_sim(struct bus *b, uint32_t self)
{
    struct sim_bus *s = (struct sim_bus *)b;
    UNUSED(self);
    const struct bus_user *u = &s->end[s->used[choose_sim(b, (uint64_t)s->nused)]].user;
    return u->turn(u->of, false) || !quiet(s);
}

static void
attach_sim(struct bus *b, uint32_t end, struct bus_user user)
{
    struct sim_bus *s = (struct sim_bus *)b;
    int i = sim_end_of(s, end);
    if (!s->end[i].user.turn) s->used[s->nused++] = i;
    s->end[i].user = user;
}

static int
grow_sim(struct bus *b, int nthread)
{
    UNUSED(b), UNUSED(nthread);
    return 0;
}

static int64_t
sent_sim(const struct bus *b)
{
    return ((const struct sim_bus *)b)->sent;
}

/* Adds the ends of one process, with queues from and to all ends. */
static void
add_process(struct sim_bus *s, int process, int nthread)
{
    int n = s->nend + nthread;
    s->end = must_realloc(s->end, sizeof *s->end * (size_t)n);
    s->used = must_realloc(s->used, sizeof *s->used * (size_t)n);
    for (int i = 0; i < n; i++) {
        struct queue *from = must_alloc(sizeof *from * (size_t)n);
        if (i < s->nend) {
            memcpy(from, s->end[i].from, sizeof *from * (size_t)s->nend);
            free(s->end[i].from);
        } else {
            s->end[i] = (struct sim_end){.addr = addr_of(process, i - s->nend)};
        }
        s->end[i].from = from;
    }
    s->nend = n;
}

static int
open_sim(const struct bus_options *o, struct bus **out)
{
    assert(o->nthread >= 1 && o->nthread <= MOST_THREADS);
    struct sim_bus *s = (struct sim_bus *)o->with;
    if (!s) {
        s = must_alloc(sizeof *s);
        *s = (struct sim_bus){.bus = {&bus_sim}, .random = o->seed};
    }
    s->nopen++;
    add_process(s, o->process, o->nthread);
    *out = &s->bus;
    return 0;
}

static void
close_sim(struct bus **b)
{
    struct sim_bus *s = (struct sim_bus *)*b;
    *b = NULL;
    if (!s || --s->nopen > 0) return;
    for (int i = 0; i < s->nend; i++) {
        for (int k = 0; k < s->nend; k++) free(s->end[i].from[k].ring);
        free(s->end[i].from);
    }
    free(s->end);
    free(s->used);
    free(s);
}

const struct bus_kind bus_sim = {
    .name = "sim",
    .open = open_sim,
    .close = close_sim,
    .grow = grow_sim,
    .attach = attach_sim,
    .send = send_sim,
    .recv = recv_sim,
    .drive = drive_sim,
    .choose = choose_sim,
    .threaded = false,
    .sent = sent_sim,
};
