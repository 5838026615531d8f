/* bus.h - carries messages between device threads, and decides when each thread runs.
 *
 * There are two kinds of bus. The zmq bus has one inproc PAIR of sockets per pair of threads. Each thread has a counter
 * (doorbell) per sender, and a word to sleep on. The sim bus has no threads: one caller drives the event loop of every
 * end. A seed selects the next end to run and the next channel to deliver from. As with zmq, only messages of one
 * channel keep their order. A simulator may hold the ends of several processes.
 *
 * A channel is a pair (source, destination). Messages of one channel arrive in the order sent; the bus promises no
 * other order. The doorbell's release and acquire also order the bytes of registers between threads. Each end is used
 * by its own thread only. Thread 0 of a process is the session's thread. */
#ifndef RILLE_ACT_BUS_H
#define RILLE_ACT_BUS_H

#include "actors/act/bus/message.h"

/* The common first member of every kind of bus. */
struct bus {
    const struct bus_kind *kind;
};

/* The event loop of an end, one turn at a time. The end's own thread calls these functions; on the simulator, the
 * driver does. */
struct bus_user {
    void *of;
    /* Receives the messages that have arrived and does one thing. If `wait` is true and the end has nothing to do,
     * sleeps until a message arrives. Returns false if there was nothing to do and no message arrived. */
    bool (*turn)(void *of, bool wait);
    /* returns true if the end can do something now, without a message; busy NULL: it never can */
    bool (*busy)(const void *of);
    /* Returns the time, ns, after which busy() becomes true without a message: the limit of a sleep. 0: no limit. If
     * `waits` is NULL, sleeps have no limit. */
    int64_t (*waits)(const void *of);
};

/* How a receive waits for a message: BUS_LOOK: not at all; BUS_WAIT: spins, then sleeps; BUS_SLEEP: sleeps at once. */
enum bus_wait { BUS_LOOK, BUS_WAIT, BUS_SLEEP };

struct bus_options {
    int process;      /* number of the process that opens the bus; its ends are threads 0 to nthread - 1 */
    int nthread;      /* number of ends, at most MOST_THREADS */
    int64_t spin_ns;  /* time that an idle end spins before it sleeps, ns; 0: sleeps at once */
    uint64_t seed;    /* simulator: seed of all random choices */
    struct bus *with; /* simulator: bus of another process, to be shared; NULL: a new bus */
};

struct bus_kind {
    const char *name;
    /* Opens a bus for the ends of one process. E_BUS, E_MEMORY. */
    int (*open)(const struct bus_options *o, struct bus **out);
    /* Closes the bus and drops undelivered messages; sets *b to NULL. A second call does nothing. Called on the
     * session's thread, after the other threads were joined. */
    void (*close)(struct bus **b);
    /* Opens further ends, up to end nthread - 1; closes none. Called on the session's thread, between runs. E_BUS. */
    int (*grow)(struct bus *b, int nthread);
    /* Sets or replaces the event loop of an end. Called on the session's thread, between runs. */
    void (*attach)(struct bus *b, uint32_t end, struct bus_user user);
    /* Sends a message from end m->from to another end, m->to; called on the thread of m->from. Never blocks and
     * never loses a message. E_BUS: the bus is broken. Allocates nothing, except that the simulator's queues grow. */
    int (*send)(struct bus *b, const struct msg *m);
    /* Receives at most max messages at end `self` and returns their number. Called on the end's thread. `wait` says
     * whether the call sleeps until a message arrives. A receive may return 0 messages even after a sleep, because of a
     * signal or a nudge; then the caller checks its flags and waits again. A receive also returns 0 if no thread can
     * ever send (single thread, simulator). */
    int (*recv)(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait);
    /* Wakes the thread of an end if it sleeps for a message, because busy() of the end has become true. Any thread.
     * NULL: no thread of this bus sleeps. */
    void (*nudge)(struct bus *b, uint32_t end);
    /* Makes progress on behalf of end `self`, whose thread waits for its run. The zmq bus takes a turn at end `self`
     * and may sleep; the simulator takes a turn at an end that the seed selects. Returns false if nothing can happen
     * any more (simulator only). */
    bool (*drive)(struct bus *b, uint32_t self);
    /* Selects one of n > 0 possible next events: zmq always the first, the simulator a random one by its seed. */
    uint64_t (*choose)(struct bus *b, uint64_t n);
    /* Lets ends receive messages of runs up to this number; called when the state that a starting thread reads is
     * complete. Called on the session's thread. NULL: the bus cannot deliver messages before the run they belong to. */
    void (*admit)(struct bus *b, uint32_t run);
    /* Returns true if all messages of this end have left; until then each receive goes on sending them. Called on
     * the end's thread. NULL: always true. */
    bool (*settled)(const struct bus *b, uint32_t self);
    bool threaded; /* each end runs on its own thread; false: one caller runs the loops of all ends (simulator) */
    int64_t (*sent)(const struct bus *b); /* returns the number of messages ever sent; any thread, does not block */
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

/* Parses the name of a bus, "zmq" or "sim:17", into kind and seed. E_ARG: the text names no bus; the error quotes the
 * text. */
int bus_parse(const char *text, const struct bus_kind **kind, uint64_t *seed);

#endif
