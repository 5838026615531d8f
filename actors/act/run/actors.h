/* actors.h - the state of a plan's tasks: made and freed by the owner of the plan, used by one run at a time. */
#ifndef RILLE_ACT_ACTORS_H
#define RILLE_ACT_ACTORS_H

#include "actors/act/run/run.h"
#include "runtime/base/arena.h"

struct communicator;

struct in_state {
    int32_t tokens; /* full registers (control: signals) not yet consumed */
    int32_t used;   /* acts that have read the current register so far */
    int32_t read;   /* index of the current register */
    int32_t given;  /* streams: completed acts that have read register `give` */
    int32_t give;   /* streams: index of the register given back next */
    int32_t *left;  /* by producer's register: readers on this thread still holding the register */
};
struct out_state {
    int32_t write;       /* index of the register that the next act writes */
    int32_t publish_reg; /* streams: index of the next register to publish to readers that wait for completion */
    int32_t *readers;    /* by register: fans that hold the register */
};
struct actor {
    int32_t waits, begun, done;
    int64_t received; /* bytes read from other devices' memory in this run */
    struct in_state *in;
    struct out_state *out;
};

/* Stream work that fills a register: stream mark, and observed completion time. */
struct fill {
    int64_t mark, done_ns;
};

struct actors {
    const struct plan *plan;
    struct actor *actor; /* by task */
    int32_t *first_out;  /* by task: index of the first result */
    int32_t **left;      /* by result: [fan][register], readers still holding the register; owned by the fan's thread */
    struct fill **fill;  /* by result, then register; NULL: the device has no streams */
    int64_t *busy_ns;    /* by plan device: busy time of the last run, ns: periods from a first act until idle, summed;
                            owned by the device's thread */
    uint8_t *roles;      /* by plan device: bit mask of stream roles in use (sync.h) */
    int32_t *channel;    /* by channel: micro-batches the task may send or receive now; direct RECV: enqueued so far
                            (p2p.h); owned by the task's thread */
    int32_t *peer, npeer;               /* index of the first channel to each other host */
    struct communicator **communicator; /* communicators with ranks of this plan, in order of creation */
    int32_t ncommunicator;
    int32_t naddress;      /* maximum number of arguments and results of a task */
    struct poison *poison; /* state of runs that poison; NULL: none */
    struct arena arena;
};

/* Creates the actors of a plan; the owner keeps them and uses them for one run at a time. */
struct actors *actors_new(const struct plan *p);
void actors_free(struct actors **a);
size_t actors_bytes(const struct actors *a); /* bytes of host memory */
/* Returns true if the task acted at least once in the last run; after a failure its results may be half written. */
bool actors_acted(const struct actors *a, int task);
/* Record the acts of a run in another process: actors_clear resets all counts, actors_mark sets the count of a task. */
void actors_clear(struct actors *a);
void actors_mark(struct actors *a, int task, int32_t acts);

/* Returns a run of this plan with lists allocated in a; the caller binds addresses and numbers. */
struct run run_of(struct arena *a, const struct plan *p, struct actors *actors);

#endif
