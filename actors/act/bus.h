/* bus.h - carries messages between the threads that own devices, and says when each of them goes on.
 *
 * Two kinds: zmq (one inproc PAIR per pair of threads, a doorbell counter per source, a word a thread to sleep on) and
 * sim (no threads at all: one caller drives every end's loop, a seed chooses whose turn it is and which channel
 * delivers next; only messages of one channel keep their order, as with zmq; ends of several processes may be on one
 * simulator).
 *
 * What orders the bytes of a register between threads is the doorbell's release and acquire. Messages of one (source,
 * destination) arrive in the order in which they left; the bus promises nothing else. Only its own thread uses an end.
 * Thread 0 of a process is the session's. */
#ifndef RILLE_ACT_BUS_H
#define RILLE_ACT_BUS_H

#include "actors/act/message.h"

/* What every kind's bus begins with. */
struct bus {
    const struct bus_kind *kind;
};

/* The loop behind an end, one turn at a time; the end's own thread calls it (sim: whoever drives). */
struct bus_user {
    void *of;
    /* Takes what has come and does one thing; with wait, sleeps for a message when there is nothing to do. False: there
     * was nothing, and nobody came. */
    bool (*turn)(void *of, bool wait);
    bool (*busy)(const void *of); /* it could do something now, without a message; NULL: it never can */
    /* How long it waits for a message at most, ns, as busy will be true then; 0: until one comes; NULL: always 0. */
    int64_t (*waits)(const void *of);
};

/* How one waits for a message: not at all; spinning for a while and then asleep; asleep at once. */
enum bus_wait { BUS_LOOK, BUS_WAIT, BUS_SLEEP };

struct bus_options {
    int process;      /* the ends are threads 0 to nthread - 1 of it */
    int nthread;      /* at most MOST_THREADS */
    int64_t spin_ns;  /* how long an idle end spins before it sleeps (0: at once) */
    uint64_t seed;    /* sim */
    struct bus *with; /* sim: the bus of another process, for this one's ends too; NULL: one of its own */
};

struct bus_kind {
    const char *name;
    /* A bus for the ends of one process. E_BUS, E_MEMORY. */
    int (*open)(const struct bus_options *o, struct bus **out);
    /* Drops what it has not delivered. The session's thread, after it has joined the others. Idempotent: clears *b. */
    void (*close)(struct bus **b);
    /* Opens ends up to nthread - 1; never closes any. The session's thread, between runs. E_BUS. */
    int (*grow)(struct bus *b, int nthread);
    /* Sets the loop behind an end, or replaces it, where this bus drives them. The session's thread, between runs. */
    void (*attach)(struct bus *b, uint32_t end, struct bus_user user);
    /* Sends to m->to, from the thread of end m->from; the two differ. Never blocks, never loses; E_BUS when the bus is
     * broken. Allocates nothing (sim: its queues grow). */
    int (*send)(struct bus *b, const struct msg *m);
    /* Takes what has arrived at end `self`, at most max messages; returns how many. The end's thread. Who waits sleeps
     * until there is at least one. 0 is possible then too: a signal or a nudge came (look at your flags and wait
     * again), or nobody could ever send (one thread, sim). */
    int (*recv)(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait);
    /* Wakes the thread of an end if it sleeps for a message: its busy() has become true. Any thread. NULL: nobody
     * sleeps. */
    void (*nudge)(struct bus *b, uint32_t end);
    /* Lets something happen for the thread of end `self`, which waits for its run: zmq takes a turn there and may
     * sleep; sim takes a turn at an end that the seed says. False: nothing can happen any more (sim). */
    bool (*drive)(struct bus *b, uint32_t self);
    /* Chooses which of n > 0 things that may come next does: zmq the first, sim by its seed. */
    uint64_t (*choose)(struct bus *b, uint64_t n);
    /* Lets ends take messages of runs up to this one: everything that a thread looks at when it begins the run is
     * there. The session's thread. NULL: nothing comes before its time. */
    void (*admit)(struct bus *b, uint32_t run);
    /* Has everything that this end sent left it? The end's thread; false: a recv goes on with it. NULL: always. */
    bool (*settled)(const struct bus *b, uint32_t self);
    bool threaded;                        /* each end has a thread of its own; false: who drives plays them all */
    int64_t (*sent)(const struct bus *b); /* messages ever; any thread, does not block */
};
extern const struct bus_kind bus_zmq, bus_sim;

static inline int
bus_send(struct bus *b, const struct msg *m)
{
    return b->kind->send(b, m);
}
static inline int
bus_recv(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait)
{
    return b->kind->recv(b, self, m, max, wait);
}
static inline uint64_t
bus_choose(struct bus *b, uint64_t n)
{
    return b->kind->choose(b, n);
}

/* Reads "zmq", "sim:17": kind and seed; E_ARG quotes what it cannot read. */
int bus_parse(const char *text, const struct bus_kind **kind, uint64_t *seed);

#endif
