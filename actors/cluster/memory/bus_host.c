/* bus_host.c - messages between processes of a host: rings in shared memory, and futexes to sleep on.
 *
 * A ring has one writer and one reader. The writer fills an entry, then advances `sent` (release). The reader loads
 * `sent` (acquire), reads the entry, then advances `taken`. If a ring is full, the sender keeps further messages in
 * a private list, and moves them to the ring, in order, at its next send or wait. A full ring is rare, because the
 * plan's credits bound the messages in flight. Threads never block on a full ring.
 *
 * Sleeping follows waker.h: a thread sets the waker, checks the rings again, and sleeps; a sender advances `sent`,
 * then wakes the receiver.
 *
 * Data that another process may have written is checked before use. The counters of a ring are checked in this file
 * against the ring's length; indices in a message are checked where the plan is known. */
#include "actors/cluster/memory/bus_host.h"

#include "runtime/data/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/waker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, ENTRIES = 512, LOOK_UP_MS = 100, SPIN_BATCH = 64, MAGIC = 0x52624831 };

struct ring {
    _Alignas(LINE) _Atomic uint32_t sent;
    _Alignas(LINE) _Atomic uint32_t taken;
    _Alignas(LINE) struct msg entry[ENTRIES];
};

struct end_shared {
    _Alignas(LINE) struct waker waker;
    _Alignas(LINE) struct recorder recorder;
    _Alignas(LINE) _Atomic uint64_t beat[NBEAT_WORD];
};

struct head {
    _Alignas(LINE) uint32_t magic, nslot;
    _Alignas(LINE) _Atomic uint64_t gate;
};

/* Messages from one device thread to another that did not fit into the ring, in order. */
struct spill {
    struct msg *msg;
    int32_t n, capacity;
};

struct end { /* a device thread of this process on the bus; used only by this thread */
    int slot, first;
    struct spill *spill;  /* by slot (device thread) of the receiver: messages that did not fit into the ring */
    struct ring *brought; /* ring for messages from other hosts to this thread; an aligned part of `block` */
    char *block;
    int nspilled;
    int64_t sent;
};

struct host_bus {
    struct bus bus;
    struct head *head;
    struct end_shared *shared;
    struct ring *ring; /* nslot x nslot rings, by slot (device thread) of the receiver, then of the sender */
    int nslot, nthread, process;
    uint32_t addr[BUS_HOST_SLOTS]; /* bus address of each slot's thread */
    struct end end[MOST_THREADS];
    struct bus_user user[MOST_THREADS];
    struct bus_far far;
    int64_t spin_ns;
    _Atomic uint32_t run;
};

/* ---- the segment ---- */

static size_t
round_to_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

size_t
bus_host_bytes(int nslot)
{
    size_t n = (size_t)nslot;
    return round_to_lines(sizeof(struct head)) + round_to_lines(n * sizeof(struct end_shared)) +
           n * n * sizeof(struct ring);
}

void
bus_host_format(void *segment, int nslot)
{
    struct head *head = segment;
    head->magic = MAGIC;
    head->nslot = (uint32_t)nslot;
}

static struct end_shared *
segment_ends(void *segment)
{
    return (struct end_shared *)(void *)((char *)segment + round_to_lines(sizeof(struct head)));
}

_Atomic uint64_t *
bus_host_gate(void *segment)
{
    return &((struct head *)segment)->gate;
}

struct recorder *
bus_host_recorder(void *segment, int slot)
{
    return &segment_ends(segment)[slot].recorder;
}

_Atomic uint64_t *
bus_host_beat(void *segment, int slot, enum beat_word which)
{
    return &segment_ends(segment)[slot].beat[which];
}

int
bus_host_map(void *segment, size_t bytes, int nslot, const uint32_t *owner, struct bus **out)
{
    struct head *head = segment;
    if (nslot < 1 || nslot > BUS_HOST_SLOTS || bytes < bus_host_bytes(nslot) || head->magic != MAGIC ||
        head->nslot != (uint32_t)nslot)
        return fail(E_BUS, "host bus: expected a segment of %d slots, found another one", nslot);
    struct host_bus *h = must_alloc(sizeof *h);
    h->bus.kind = &bus_host;
    h->head = head;
    h->nslot = nslot;
    h->shared = segment_ends(segment);
    h->ring = (struct ring *)(void *)((char *)h->shared + round_to_lines((size_t)nslot * sizeof *h->shared));
    for (int s = 0; s < nslot; s++) {
        int thread = 0;
        for (int k = 0; k < s; k++) thread += owner[k] == owner[s];
        h->addr[s] = addr_of((int)owner[s], thread);
    }
    *out = &h->bus;
    return 0;
}

static int
segment_slot(const struct host_bus *h, uint32_t addr)
{
    for (int s = 0; s < h->nslot; s++)
        if (h->addr[s] == addr) return s;
    return -1;
}

static struct ring *
ring_of(const struct host_bus *h, int to, int from)
{
    return &h->ring[(size_t)to * (size_t)h->nslot + (size_t)from];
}

/* ---- opening and closing ---- */

static int
open_host(const struct bus_options *o, struct bus **out)
{
    struct host_bus *h = (struct host_bus *)o->with;
    assert(h && h->bus.kind == &bus_host);
    h->process = o->process;
    h->spin_ns = o->spin_ns;
    for (int s = 0; s < h->nslot; s++) {
        if (addr_process(h->addr[s]) != o->process) continue;
        if (h->nthread == MOST_THREADS)
            return fail(E_BUS, "host bus: a process can have at most %d device threads", MOST_THREADS);
        struct end *e = &h->end[h->nthread++];
        e->slot = s;
        e->spill = must_alloc(sizeof *e->spill * (size_t)h->nslot);
        e->block = must_alloc(sizeof *e->brought + LINE);
        e->brought = (struct ring *)(void *)(e->block + LINE - (uintptr_t)e->block % LINE);
    }
    *out = &h->bus;
    return 0;
}

static void
close_host(struct bus **b)
{
    struct host_bus *h = (struct host_bus *)*b;
    *b = NULL;
    if (!h) return;
    for (int t = 0; t < h->nthread; t++) {
        for (int s = 0; s < h->nslot; s++) free(h->end[t].spill[s].msg);
        free(h->end[t].spill);
        free(h->end[t].block);
    }
    free(h);
}

static int
grow_host(struct bus *b, int nthread)
{
    return nthread <= ((struct host_bus *)b)->nthread
               ? 0
               : fail(E_BUS, "host bus: this process has fewer than the %d threads that the plan needs", nthread);
}

static void
attach_host(struct bus *b, uint32_t end, struct bus_user user)
{
    ((struct host_bus *)b)->user[addr_thread(end)] = user;
}

/* ---- sending ---- */

static bool
ring_put(struct ring *r, const struct msg *m)
{
    uint32_t sent = atomic_load_explicit(&r->sent, memory_order_relaxed);
    if (sent - atomic_load_explicit(&r->taken, memory_order_acquire) >= ENTRIES) return false;
    r->entry[sent % ENTRIES] = *m;
    atomic_store(&r->sent, sent + 1);
    return true;
}

static void
spill_add(struct end *e, int to, const struct msg *m)
{
    struct spill *s = &e->spill[to];
    GROW(s->msg, s->n + 1, s->capacity);
    s->msg[s->n++] = *m;
    e->nspilled++;
}

/* Moves messages that had to wait into the ring, in order, as many as fit now. */
static void
spill_send(struct host_bus *h, struct end *e, int to)
{
    struct spill *s = &e->spill[to];
    int32_t k = 0;
    while (k < s->n && ring_put(ring_of(h, to, e->slot), &s->msg[k])) k++;
    if (k == 0) return;
    memmove(s->msg, s->msg + k, sizeof *s->msg * (size_t)(s->n - k));
    s->n -= k;
    e->nspilled -= k;
    waker_wake(&h->shared[to].waker);
}

static void
spill_all(struct host_bus *h, struct end *e)
{
    for (int to = 0; to < h->nslot && e->nspilled; to++)
        if (e->spill[to].n) spill_send(h, e, to);
}

static int
send_host(struct bus *b, const struct msg *m)
{
    struct host_bus *h = (struct host_bus *)b;
    struct end *e = &h->end[addr_thread(m->from)];
    int to = segment_slot(h, m->to);
    e->sent++;
    if (to < 0 && h->far.send) return h->far.send(h->far.of, m);
    if (to < 0) return fail(E_BUS, "host bus: a message was sent to address %x, which no thread has", m->to);
    if (e->spill[to].n) spill_send(h, e, to);
    if (e->spill[to].n || !ring_put(ring_of(h, to, e->slot), m))
        spill_add(e, to, m);
    else
        waker_wake(&h->shared[to].waker);
    return 0;
}

void
bus_host_far(struct bus *b, const struct bus_far *far)
{
    ((struct host_bus *)b)->far = *far;
}

/* Returns the device thread of this process that has this address; NULL: the address is of another process. */
static struct end *
host_end_of(struct host_bus *h, uint32_t addr)
{
    bool here = addr_process(addr) == h->process && addr_thread(addr) < h->nthread;
    return here ? &h->end[addr_thread(addr)] : NULL;
}

bool
bus_host_fetch_room(struct bus *b, const struct msg *m)
{
    const struct end *e = host_end_of((struct host_bus *)b, m->to);
    return !e || atomic_load(&e->brought->sent) - atomic_load(&e->brought->taken) < ENTRIES;
}

bool
bus_host_fetch(struct bus *b, const struct msg *m)
{
    struct host_bus *h = (struct host_bus *)b;
    struct end *e = host_end_of(h, m->to);
    if (!e) return true;
    if (!ring_put(e->brought, m)) return false;
    waker_wake(&h->shared[e->slot].waker);
    return true;
}

/* ---- receiving ---- */

/* Returns the oldest message of a ring; NULL: the ring is empty, or the message's run has not begun in this process. */
static const struct msg *
ring_peek(const struct host_bus *h, struct ring *r)
{
    uint32_t taken = atomic_load_explicit(&r->taken, memory_order_relaxed);
    uint32_t n = atomic_load(&r->sent) - taken;
    if (n == 0 || n > ENTRIES) return NULL;
    const struct msg *m = &r->entry[taken % ENTRIES];
    bool early = (m->kind == MSG_FULL || m->kind == MSG_FREE) &&
                 run_after(m->run, atomic_load_explicit(&h->run, memory_order_acquire));
    return early ? NULL : m;
}

static int
empty(const struct host_bus *h, struct ring *r, struct msg *m, int max)
{
    int n = 0;
    for (const struct msg *next; n < max && (next = ring_peek(h, r)) != NULL;) {
        m[n++] = *next;
        atomic_fetch_add(&r->taken, 1);
    }
    return n;
}

static int
bus_host_collect(const struct host_bus *h, struct end *e, struct msg *m, int max)
{
    int n = empty(h, e->brought, m, max);
    for (int k = 0; k < h->nslot && n < max; k++)
        n += empty(h, ring_of(h, e->slot, (e->first + k) % h->nslot), m + n, max - n);
    e->first = (e->first + 1) % h->nslot;
    return n;
}

static bool
bus_host_rung(const struct host_bus *h, const struct end *e)
{
    if (ring_peek(h, e->brought)) return true;
    for (int from = 0; from < h->nslot; from++)
        if (ring_peek(h, ring_of(h, e->slot, from))) return true;
    const struct bus_user *u = &h->user[e - h->end];
    return u->busy && u->busy(u->of);
}

static bool
bus_host_spin(const struct host_bus *h, const struct end *e)
{
    int64_t until = h->spin_ns > 0 ? now_ns() + h->spin_ns : 0;
    while (until && now_ns() < until)
        for (int i = 0; i < SPIN_BATCH; i++) {
            if (bus_host_rung(h, e)) return true;
            relax();
        }
    return false;
}

/* Sleeps until a message, a nudge or a signal arrives, but at most LOOK_UP_MS, and at most as long as the end's user
 * allows (bus_user.waits). */
static void
bus_host_doze(struct host_bus *h, struct end *e)
{
    struct waker *me = &h->shared[e->slot].waker;
    const struct bus_user *u = &h->user[e - h->end];
    int64_t look_up = e->nspilled ? 50000 : (int64_t)LOOK_UP_MS * 1000000, most = u->waits ? u->waits(u->of) : 0;
    waker_arm(me);
    if (bus_host_rung(h, e))
        waker_disarm(me);
    else
        waker_sleep_shared(me, most && most < look_up ? most : look_up);
}

static int
recv_host(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait)
{
    struct host_bus *h = (struct host_bus *)b;
    struct end *e = &h->end[addr_thread(self)];
    if (e->nspilled) spill_all(h, e);
    int n = bus_host_collect(h, e, m, max);
    if (n || wait == BUS_LOOK) return n;
    if (wait == BUS_SLEEP || !bus_host_spin(h, e)) bus_host_doze(h, e);
    return bus_host_collect(h, e, m, max);
}

static bool
drive_host(struct bus *b, uint32_t self)
{
    struct bus_user *u = &((struct host_bus *)b)->user[addr_thread(self)];
    u->turn(u->of, true);
    return true;
}

static uint64_t
choose_host(struct bus *b, uint64_t n)
{
    UNUSED(b);
    UNUSED(n);
    return 0;
}

static int64_t
sent_host(const struct bus *b)
{
    const struct host_bus *h = (const struct host_bus *)b;
    int64_t n = 0;
    for (int t = 0; t < h->nthread; t++) n += h->end[t].sent;
    return n;
}

static bool
settled_host(const struct bus *b, uint32_t self)
{
    return ((const struct host_bus *)b)->end[addr_thread(self)].nspilled == 0;
}

static void
admit_host(struct bus *b, uint32_t run)
{
    atomic_store(&((struct host_bus *)b)->run, run);
}

void
bus_host_nudge(struct bus *b)
{
    struct host_bus *h = (struct host_bus *)b;
    waker_wake(&h->shared[h->end[0].slot].waker);
}

static void
nudge_host(struct bus *b, uint32_t end)
{
    struct host_bus *h = (struct host_bus *)b;
    waker_wake(&h->shared[h->end[addr_thread(end)].slot].waker);
}

const struct bus_kind bus_host = {
    .name = "host",
    .open = open_host,
    .close = close_host,
    .grow = grow_host,
    .attach = attach_host,
    .send = send_host,
    .recv = recv_host,
    .nudge = nudge_host,
    .drive = drive_host,
    .choose = choose_host,
    .admit = admit_host,
    .settled = settled_host,
    .threaded = true,
    .sent = sent_host,
};
