/* bus.h - carries messages between the threads that own devices.
 *
 * Two kinds: zmq (one inproc PAIR per pair of threads, a doorbell counter per
 * source, one wake socket a thread) and sim (no threads at all: one caller
 * drives every thread's loop, a seed chooses whose turn it is and which channel
 * delivers next; order is kept only within a channel, as with zmq).
 *
 * What orders the bytes of a register between threads is the doorbell's release
 * and acquire. Messages of one (source, destination) arrive in the order sent;
 * nothing else is promised. Thread t's end is used by thread t alone. Thread 0
 * is the session's. */
#ifndef RILLE_ACT_BUS_H
#define RILLE_ACT_BUS_H

#include "actors/act/message.h"

/* What every kind's bus begins with. */
struct bus {
    const struct bus_kind *kind;
};

struct bus_kind {
    const char *name;
    /* nthread ends; spin_ns: how long an idle end spins before it sleeps (0: at once). seed: for sim. E_BUS.
     * Other threads may use their ends once they are started after this. */
    int (*open)(int nthread, int64_t spin_ns, uint64_t seed, struct bus **out);
    /* After the other threads have been joined. What was not delivered is dropped. */
    void (*close)(struct bus **b);
    /* From thread `from` (its own end) to thread `to` != from. Never blocks, never loses; E_BUS when the bus is
     * broken. Allocates nothing (sim: its queues grow). */
    int (*send)(struct bus *b, int from, int to, const struct msg *m);
    /* Takes what has arrived at `self`, at most max messages; returns how many. With wait, sleeps until there is at
     * least one. 0 is possible then too: a signal came (look at your flags and wait again), or nobody could ever send
     * (one thread, sim). */
    int (*recv)(struct bus *b, int self, struct msg *m, int max, bool wait);
    /* Threads beyond this many use the end? false: somebody else drives the loops (sim). */
    bool threaded;
    int64_t (*sent)(const struct bus *b);
    void (*spin)(struct bus *b, int64_t spin_ns);
};
extern const struct bus_kind bus_zmq, bus_sim;

/* sim: which of n > 0 choices happens next, 0 to n - 1 (uniform by the bus's seed). */
uint64_t bus_sim_choose(struct bus *b, uint64_t n);
bool bus_sim_quiet(const struct bus *b); /* sim: no message waits to be delivered */
int64_t bus_sent(const struct bus *b);   /* messages between threads, ever; any thread */
/* "zmq", "sim:17": kind and seed; E_ARG quotes what it cannot read. */
int bus_parse(const char *text, const struct bus_kind **kind, uint64_t *seed);

/* Whether ends should spin, when the number of busy threads or cores changes; any thread. */
void bus_spin(struct bus *b, int64_t spin_ns);

#endif
