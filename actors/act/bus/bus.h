/* bus.h - carries messages between device threads, and decides when each thread runs.
 *
 * There are two kinds of bus. The zmq bus has an inproc PAIR of sockets for every two threads. A thread has a
 * counter (doorbell) for each sender, and a word to sleep on. The sim bus has no threads: one caller drives the
 * event loops of all ends. A seed selects the next end to run and the next channel to deliver from. As with zmq,
 * only messages of the same channel keep their order. A simulator may hold the ends of several processes.
 *
 * An end is a thread's access to the bus. A channel is a pair (source end, destination end). Messages of a channel
 * arrive in the order sent; the bus promises no other order. The doorbell's release and acquire also make a
 * register's bytes visible to the thread that receives the message about the register. Only the thread of an
 * end uses the end. Thread 0 of a process is the session's thread. */
#ifndef RILLE_ACT_BUS_H
#define RILLE_ACT_BUS_H

#include "actors/act/bus/message.h"

/* First member of the struct of every kind of bus. */
struct bus {
    const struct bus_kind *kind;
};

/* Functions of the event loop of an end (one thread's access to the bus). The zmq bus calls them on the end's
 * thread; the simulator calls them on the thread that drives the simulator. */
struct bus_user {
    void *of;
    /* Receives the messages that have arrived and does one unit of work. If `wait` is true and the end has nothing
     * to do, sleeps until a message arrives. Returns false if there was nothing to do and no message arrived. */
    bool (*turn)(void *of, bool wait);
    /* Returns true if the end can do something now, without a message. NULL: an end without a message has nothing to
     * do. */
    bool (*busy)(const void *of);
    /* Returns the time from now, ns (CLOCK_MONOTONIC), after which busy() becomes true without a message. A sleep
     * ends then. 0: no limit. NULL: sleeps have no limit. */
    int64_t (*waits)(const void *of);
};

/* Says how a receive waits for a message. BUS_LOOK: it does not wait; BUS_WAIT: it spins, then sleeps; BUS_SLEEP: it
 * sleeps at once. */
enum bus_wait { BUS_LOOK, BUS_WAIT, BUS_SLEEP };

struct bus_options {
    int process;     /* number of the process that opens the bus and runs its threads 0 to nthread - 1 */
    int nthread;     /* number of ends (one per thread), at most MOST_THREADS */
    int64_t spin_ns; /* time that an idle end spins before it sleeps, ns; 0: sleeps at once */
    uint64_t seed;   /* simulator: seed of all random choices */
    /* simulator: an open bus of another process, to which the new threads' ends are added; NULL: a new bus */
    struct bus *with;
};

struct bus_kind {
    const char *name;
    /* Opens a bus for the ends of one process. E_BUS, E_MEMORY. */
    int (*open)(const struct bus_options *o, struct bus **out);
    /* Closes the bus and drops undelivered messages; sets *b to NULL. A second call does nothing. Called on the
     * session's thread, after the other threads were joined. */
    void (*close)(struct bus **b);
    /* Opens further ends (one per thread), up to end nthread - 1. Opens nothing if there are that many. Called on
     * the session's thread, between runs. E_BUS. */
    int (*grow)(struct bus *b, int nthread);
    /* Sets or replaces the event loop of an end (one thread's access to the bus). Called on the session's thread,
     * between runs. */
    void (*attach)(struct bus *b, uint32_t end, struct bus_user user);
    /* Sends a message from end m->from to end m->to, which must differ; called on the thread of m->from. Never
     * blocks and never loses a message. Allocates no memory, but the simulator's queues may grow. E_BUS: the bus is
     * broken. */
    int (*send)(struct bus *b, const struct msg *m);
    /* Receives at most max messages at end `self` and returns their number. Called on the end's thread. `wait` says
     * whether the call sleeps until a message arrives. A receive may return 0 messages even after a sleep, because of a
     * signal or a nudge; then the caller checks its flags and waits again. A receive also returns 0 if no thread can
     * ever send (single thread, simulator). */
    int (*recv)(struct bus *b, uint32_t self, struct msg *m, int max, enum bus_wait wait);
    /* Wakes the thread of an end if it sleeps for a message. Called when busy() of the end has become true. Any
     * thread. NULL: no thread of this bus sleeps. */
    void (*nudge)(struct bus *b, uint32_t end);
    /* Lets the event loops make progress while the thread of end `self` waits for its run. The zmq bus calls turn()
     * of end `self`, which may sleep. The simulator calls turn() of an end that its seed selects, and returns false
     * if nothing can happen any more. */
    bool (*drive)(struct bus *b, uint32_t self);
    /* Returns which of n > 0 possible next events happens, as an index. The zmq bus selects the first event; the
     * simulator selects an event at random. */
    uint64_t (*choose)(struct bus *b, uint64_t n);
    /* Lets threads receive messages of runs up to this number. Called on the session's thread, after it has
     * written the run's state that other threads read. NULL: the bus cannot deliver messages before the run they
     * belong to. */
    void (*admit)(struct bus *b, uint32_t run);
    /* Returns true if this end has no unsent messages. If it has, its next receives send them. Called on the end's
     * thread. NULL: always true. */
    bool (*settled)(const struct bus *b, uint32_t self);
    bool threaded;                        /* true: an end has a thread; false: the caller runs all event loops */
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

/* Parses the name of a bus, "zmq" or "sim:SEED", into kind and seed. E_ARG: the text names no bus. */
int bus_parse(const char *text, const struct bus_kind **kind, uint64_t *seed);

#endif
