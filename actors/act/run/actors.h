/* actors.h - the state of a plan's actors: created and freed by the owner of the plan, used by one run at a time. */
#ifndef RILLE_ACT_ACTORS_H
#define RILLE_ACT_ACTORS_H

#include "actors/act/run/run.h"
#include "runtime/data/arena.h"

struct communicator;

struct in_state {
    int32_t tokens; /* number of full registers (of a control edge: signals) that this input has not read yet */
    int32_t used;   /* number of acts that have read the current register of the input */
    int32_t read;   /* index of the input's current register */
    int32_t given;  /* on streams: number of completed acts that have read register `give`, the next to return */
    int32_t give;   /* on streams: index of the register that the input returns next */
    int32_t *left;  /* by register of the producer: number of readers on this thread that still use the register */
};
struct out_state {
    int32_t write;       /* index of the register that the next act writes */
    int32_t publish_reg; /* on streams: index of the register whose readers are notified at the next completion */
    int32_t *readers;    /* by register: number of threads whose readers still use the register */
};
struct actor {
    int32_t waits, begun, done;
    int64_t received; /* bytes that the actor read from other devices' memory in this run */
    struct in_state *in;
    struct out_state *out;
};

/* Stream work that writes a register: its stream mark, and the time, ns, at which it was found complete. */
struct fill {
    int64_t mark, done_ns;
};

struct actors {
    const struct plan *plan;
    struct actor *actor; /* actor of each task */
    int32_t *first_out;  /* index of the first result of each task, among the results of all tasks */
    /* by result, then [fan][register]: number of readers that have not returned the register. A fan is the result's
     * readers on one thread, and that thread writes the numbers */
    int32_t **left;
    /* by result, then register: the stream work that wrote the register; NULL: the device has no streams */
    struct fill **fill;
    /* by plan device: busy time in the last run, ns. A busy period lasts from the first act until the device is
     * idle; the time is the sum of these periods. Written by the device's thread */
    int64_t *busy_ns;
    uint8_t *roles; /* bit mask of the stream roles that each plan device needs (sync.h) */
    /* by channel: number of micro-batches that the channel's task may send or receive now. For the RECV of a direct
     * channel (p2p.h): number of acts enqueued so far. Written by the task's thread */
    int32_t *channel;
    /* peer: for each other host, index of the first channel to it; npeer: number of other hosts */
    int32_t *peer, npeer;
    struct communicator **communicator; /* communicators in which this plan has ranks, in order of creation */
    int32_t ncommunicator;
    int32_t naddress;      /* largest number of arguments and results of a task */
    struct poison *poison; /* state of runs that poison free registers (poison.h); NULL: none yet */
    struct arena arena;
};

/* Creates the actors of a plan. The plan's owner keeps the actors and uses them for one run at a time. */
struct actors *actors_new(const struct plan *p);
void actors_free(struct actors **a);
size_t actors_bytes(const struct actors *a); /* returns the bytes of host memory that the actors use */
/* Returns true if the task began an act in the last run. If that run failed, the task's results may be half written. */
bool actors_acted(const struct actors *a, int task);
/* Record which tasks acted in a run of another process. actors_clear resets the act counts of all tasks; actors_mark
 * sets the count of a task. */
void actors_clear(struct actors *a);
void actors_mark(struct actors *a, int task, int32_t acts);

/* Returns a run of this plan with empty lists, allocated in arena a; the caller fills in addresses and numbers. */
struct run run_of(struct arena *a, const struct plan *p, struct actors *actors);

#endif
