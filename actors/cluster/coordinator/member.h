/* member.h - a worker's side of the cluster: a state machine.
 *
 *   JOIN     linked, HELLO sent; awaits WELCOME or REFUSE
 *   IN       a member; hands work from the coordinator to the executor, in order
 *   LEFT     ends: dismissed (0), or cut off (not 0)
 *
 * Like the coordinator, a member uses no clock, socket or thread: packets, ticks and the executor's answers come in,
 * packets and work go out. The executor works in the order of arrival, except for STOP, CANCEL and UNITE, which
 * concern the work in progress. Owner: the worker (worker_inner.h), under its lock. */
#ifndef RILLE_CLUSTER_MEMBER_H
#define RILLE_CLUSTER_MEMBER_H

#include "actors/cluster/wire/wire.h"

enum work_kind {
    WORK_WELCOME, /* connect the other links */
    WORK_MAKE,    /* make the host's memory, open a port; member_made() answers */
    WORK_FORM,    /* map the epoch's memory; member_ready() answers */
    WORK_PROGRAM, /* compile; member_have() answers */
    WORK_ROWS,    /* store the schedule rows of a program */
    WORK_FORGET,
    WORK_START,  /* run; member_ended() answers */
    WORK_FILE,   /* write or read a file; member_filed() answers */
    WORK_CANCEL, /* abandon the file of this count */
    WORK_STOP,   /* stop the run in progress */
    WORK_UNITE,  /* store the id of a communicator, from another worker, for its run */
    WORK_LEAVE,  /* end with `status` (a LEAVE_) and, unless LEAVE_DONE, `text` as reason */
    /* Messages from workers of other hosts (carrier.h), in the same order of arrival. */
    WORK_ASKED, /* a worker requests this worker's list of channels */
    WORK_LISTED,
    WORK_PORTS, /* addresses of workers after member_meet() */
    NWORK
};
enum { LEAVE_DONE, LEAVE_FAILED, LEAVE_ORPHAN /* the coordinator is gone; another one may follow */ };
struct work {
    enum work_kind kind;
    const struct packet *packet; /* WELCOME, MAKE, FORM, PORTS, START, STOP, FILE, CANCEL, UNITE */
    uint32_t epoch;
    uint64_t program;
    const void *bytes; /* of a program, its rows, or a list of channels */
    size_t n;
    int from; /* rank of the sender: ASKED, LISTED */
    int status;
    const char *text;
};

struct member_env {
    void *arg;
    void (*send)(void *arg, const struct packet *p); /* to the coordinator */
    void (*work)(void *arg, const struct work *w);   /* *w is valid during the call */
    /* Returns the word for a rank's heartbeats in this epoch's shared memory: up, from the rank to its speaker;
     * down, from the coordinator to the rank. NULL: unavailable now. */
    _Atomic uint64_t *(*word)(void *arg, int rank, bool down);
};

enum { MEMBER_PROGRAM_MOST = 1 << 28 }; /* maximum bytes of a program, or of its rows */

struct member_options {
    struct packet hello; /* describes this process; spans must outlive the member */
    int silence;         /* ticks without a heartbeat until the coordinator counts as gone */
    int wait;            /* ticks until it must be admitted; 0: no limit */
};

struct worker_member;
struct worker_member *member_new(const struct member_options *o, const struct member_env *env);
void member_free(struct worker_member **m);
void member_linked(struct worker_member *m); /* sends HELLO */
void member_receive(struct worker_member *m, const struct packet *p);
void member_tick(struct worker_member *m); /* a BEAT may be due: call member_beat() */
void member_cut(struct worker_member *m, const char *how);
/* member_heard handles a heartbeat of the coordinator. member_beat fills *out with this worker's, valid until the
 * next call; false: it has no rank yet, a speaker relays its heartbeat, or none is due. */
void member_heard(struct worker_member *m, const struct packet *p);
bool member_beat(struct worker_member *m, struct packet *out);

/* The executor's answers. */
struct made {
    int status;
    const char *text; /* reason of a failure */
    const char *segment, *bus, *port;
    bool mpi; /* the worker has MPI */
};
void member_made(struct worker_member *m, uint32_t epoch, const struct made *made);
void member_ready(struct worker_member *m, uint32_t epoch, int status, const char *text);
/* Requests the addresses of a memory's workers; WORK_PORTS follows. */
void member_meet(struct worker_member *m, uint32_t epoch, uint32_t memory);
struct have {
    uint64_t program;
    int status;
    const char *text;                      /* reason of a failure */
    const unsigned char *digest, *outline; /* CLUSTER_ID bytes each */
    const uint64_t *arenas;                /* pairs of device and bytes, for each device of the partition */
    int narena;                            /* numbers in arenas */
    const unsigned char *replaces;         /* by root: enum root_fate (channel.h) */
    int nreplace;
    const void *comm_ranks; /* collectives of the partition (comm_ranks.h) */
    size_t ncomm_ranks;     /* bytes of ranks */
};
void member_have(struct worker_member *m, uint32_t epoch, const struct have *h);
struct run_end {
    uint32_t epoch, run;
    int status, node;
    const char *text;
    uint64_t acts;
    const int32_t *begun; /* roots that updates of a failed run had begun to overwrite */
    int nbegun;
    const int32_t *acted; /* pairs of task and acts, for tasks begun in a failed run */
    int nacted;           /* numbers in acted */
    const uint64_t *busy; /* pairs of device and busy nanoseconds, for each device of this worker */
    int nbusy;            /* numbers in busy */
    const void *times;    /* acts of a timed run */
    size_t ntime;         /* bytes of times */
    int64_t began;        /* start time of the run, ns (CLOCK_MONOTONIC, as the times of acts) */
};
void member_ended(struct worker_member *m, const struct run_end *e);
/* Reports the outcome of a file. digests: of the blocks of a written file. */
void member_filed(struct worker_member *m, uint32_t epoch, uint64_t count, int status, const char *text,
                  const struct str *digests);
/* Sends LEAVE: the worker ends on its own. */
void member_leave(struct worker_member *m, const char *why);
/* Sends the id of a communicator with ranks in other memories, for a run. */
struct unite {
    uint32_t run;
    uint64_t name;
    const uint32_t *memory;
    int nmemory;
    const unsigned char *id; /* COMMUNICATOR_ID bytes */
};
void member_unite(struct worker_member *m, uint32_t epoch, const struct unite *u);
int member_rank(const struct worker_member *m); /* -1: none yet */

#endif
