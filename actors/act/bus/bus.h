/* bus.h - carries messages between device threads, and decides when each thread runs.
 *
 * Two kinds. zmq: one inproc PAIR per pair of threads, a doorbell counter per source, and a word per thread to sleep
 * on. sim: no threads; one caller drives the loop of every end. A seed selects the next end to run and the next
 * channel to deliver; only messages of one channel keep their order, as with zmq. A simulator may hold the ends of
 * several processes.
 *
 * The doorbell's release and acquire order the bytes of a register between threads. Messages of one (source,
 * destination) arrive in the order sent; the bus promises nothing else. Only its own thread uses an end. Thread 0 of
 * a process is the session's. */
#ifndef RILLE_ACT_BUS_H
#define RILLE_ACT_BUS_H

#include "actors/act/bus/message.h"

/* The head of every kind's bus. */
struct bus {
    const struct bus_kind *kind;
};

/* The event loop of an end, one turn at a time. Called by the end's own thread (sim: by the driver). */
struct bus_user {
    void *of;
    /* Takes the messages that have arrived and does one thing. wait: sleeps for a message if there is nothing to do.
     * Returns false if there was nothing to do and no message arrived. */
    bool (*turn)(void *of, bool wait);
    bool (*busy)(const void *of); /* returns true if the end can do something now, without a message; NULL: never */
    /* Returns how long to wait for a message, ns, until busy() becomes true; 0: no limit. NULL: always 0. */
    int64_t (*waits)(const void *of);
};

/* How to wait for a message: not at all; spin, then sleep; sleep at once. */
enum bus_wait { BUS_LOOK, BUS_WAIT, BUS_SLEEP };

struct bus_options {
    int process;      /* process number; the ends are threads 0 to nthread - 1 */
    int nthread;      /* at most MOST_THREADS */
    int64_t spin_ns;  /* time an idle end spins before sleeping (0: sleeps at once) */
    uint64_t seed;    /* sim: seed of all choices */
    struct bus *with; /* sim: bus of another process to share; NULL: a new bus */
};

struct bus_kind {
    const char *name;
    /* Opens a bus for the ends of one process. E_BUS, E_MEMORY. */
    int (*open)(const struct bus_options *o, struct bus **out);
    /* Closes the bus and drops undelivered messages. Session's thread, after the other threads were joined.
     * Idempotent: clears *b. */
    void (*close)(struct bus **b);
    /* Opens ends up to nthread - 1; never closes any. Session's thread, between runs. E_BUS. */
    int (*grow)(struct bus *b, int nthread);
    /* Sets or replaces the event loop of an end. Session's thread, between runs. */
    void (*attach)(struct bus *b, uint32_t end, struct bus_user user);
    /* Sends to m->to, on the thread of end m->from; the two ends differ. Never blocks and never loses a message;
     * E_BUS: the bus is broken. Allocates nothing (sim: its queues grow). */
    int (*send)(struct bus *b, const struct msg *m);
    /* Receives at most max messages at end `self` and returns how many. The end's thread. If `wait` says so, sleeps
     * until a message arrives. Even then 0 is possible: after a signal or a nudge (check the flags and wait again),
     * or if nobody can ever send (one thread, sim). */
    int (*recv)(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait);
    /* Wakes the thread of an end if it sleeps for a message, because its busy() has become true. Any thread. NULL:
     * no thread sleeps. */
    void (*nudge)(struct bus *b, uint32_t end);
    /* Makes progress on behalf of end `self`, whose thread waits for its run. zmq takes a turn at that end and may
     * sleep; sim takes a turn at an end that the seed selects. Returns false if nothing can happen any more (sim). */
    bool (*drive)(struct bus *b, uint32_t self);
    /* Selects one of n > 0 possible next events: zmq the first, sim by its seed. */
    uint64_t (*choose)(struct bus *b, uint64_t n);
    /* Lets ends receive messages of runs up to this one, because the state that a starting thread reads is in place.
     * Session's thread. NULL: the bus cannot deliver messages early (before the run they belong to). */
    void (*admit)(struct bus *b, uint32_t run);
    /* Returns true if all messages of this end have left; else recv goes on sending. The end's thread. NULL: always
     * true. */
    bool (*settled)(const struct bus *b, uint32_t self);
    bool threaded; /* each end runs on its own thread; false: one caller runs the loops of all ends (simulator) */
    int64_t (*sent)(const struct bus *b); /* messages ever sent; callable on any thread, does not block */
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

/* Parses "zmq" or "sim:17" into kind and seed; E_ARG quotes the text. */
int bus_parse(const char *text, const struct bus_kind **kind, uint64_t *seed);

#endif
