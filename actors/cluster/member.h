/* member.h - a worker's side of the cluster: a state machine.
 *
 *   JOIN     linked, HELLO said; it awaits WELCOME or REFUSE
 *   IN       a member; it hands work from the coordinator to the executor, one piece after the other
 *   LEFT     it ends: told to (0), or cut off (not 0)
 *
 * Like the coordinator it knows no clock, socket or thread: packets, ticks and what the executor answers come in,
 * packets and work go out. The executor does its work in the order in which it gets it - but STOP, CANCEL and UNITE,
 * which are about what it is at now. Owner: the worker's link thread. */
#ifndef RILLE_CLUSTER_MEMBER_H
#define RILLE_CLUSTER_MEMBER_H

#include "actors/cluster/wire.h"

enum work_kind {
    WORK_WELCOME, /* join the other links */
    WORK_MAKE,    /* the host's memory, a port; member_made() answers */
    WORK_FORM,    /* map the epoch's memory; member_ready() answers */
    WORK_PROGRAM, /* compile; member_have() answers */
    WORK_ROWS,    /* of a program: keep them */
    WORK_FORGET,
    WORK_START,  /* run; member_ended() answers */
    WORK_FILE,   /* write or read a file; member_filed() answers */
    WORK_CANCEL, /* that of this count is wanted no more */
    WORK_STOP,   /* the run in progress acts no more */
    WORK_UNITE,  /* an id that others have told: keep it for that run */
    WORK_LEAVE,  /* end, as status (a LEAVE_) says and, if it is not LEAVE_DONE, for this reason */
    /* What workers of other hosts say (carrier.h), in one line with the rest. */
    WORK_ASKED, /* one wants this one's list of channels */
    WORK_LISTED,
    WORK_PORTS, /* where some are whom member_meet() asked for */
    NWORK
};
enum { LEAVE_DONE, LEAVE_FAILED, LEAVE_ORPHAN /* nobody coordinates any more: another one may */ };
struct work {
    enum work_kind kind;
    const struct packet *packet; /* WELCOME, MAKE, FORM, PORTS, START, STOP, FORGET, FILE, CANCEL, UNITE */
    uint32_t epoch;
    uint64_t program;
    const void *bytes; /* of the program; of its rows; of a list */
    size_t n;
    int from; /* ASKED, LISTED: rank */
    int status;
    const char *text;
};

struct member_env {
    void *arg;
    void (*send)(void *arg, const struct packet *p); /* to the coordinator */
    void (*work)(void *arg, const struct work *w);   /* valid during the call */
    /* Where workers of this host leave a rank's heartbeats in this epoch's shared memory, and its speaker the
     * coordinator's for it (down); NULL: it is not there now. */
    _Atomic uint64_t *(*word)(void *arg, int rank, bool down);
};

enum { MEMBER_PROGRAM_MOST = 1 << 28 }; /* bytes of a program, or of its rows */

struct member_options {
    struct packet hello; /* what it says of this process; spans live as long as the member */
    int silence;         /* ticks without a heartbeat after which the coordinator is gone */
    int wait;            /* ticks until it must be let in; 0: it waits for ever */
};

struct worker_member;
struct worker_member *member_new(const struct member_options *o, const struct member_env *env);
void member_free(struct worker_member **m);
void member_linked(struct worker_member *m); /* says HELLO */
void member_receive(struct worker_member *m, const struct packet *p);
void member_tick(struct worker_member *m); /* a BEAT is due: member_beat() */
void member_cut(struct worker_member *m, const char *how);
/* A heartbeat: of the coordinator (in), of this worker (out, valid until the next one; false: it has no rank yet, or
 * another one of its host speaks for it, or none is due). */
void member_heard(struct worker_member *m, const struct packet *p);
bool member_beat(struct worker_member *m, struct packet *out);

/* The executor's answers. */
struct made {
    int status;
    const char *text; /* why not */
    const char *segment, *bus, *port;
    bool mpi; /* it has MPI */
};
void member_made(struct worker_member *m, uint32_t epoch, const struct made *made);
void member_ready(struct worker_member *m, uint32_t epoch, int status, const char *text);
/* Workers of a memory are to be reached: WORK_PORTS follows. */
void member_meet(struct worker_member *m, uint32_t epoch, uint32_t memory);
struct have {
    uint64_t program;
    int status;
    const char *text;                      /* why not */
    const unsigned char *digest, *outline; /* CLUSTER_ID bytes each */
    const uint64_t *arenas;                /* device, bytes; for each device of the part */
    int narena;                            /* numbers */
    const unsigned char *replaces;         /* by root */
    int nreplace;
    const void *seats; /* what the part says of its collectives */
    size_t nseat;      /* bytes */
};
void member_have(struct worker_member *m, uint32_t epoch, const struct have *h);
struct run_end {
    uint32_t epoch, run;
    int status, node;
    const char *text;
    uint64_t acts;
    const int32_t *begun; /* roots that updates had begun to write over their leaves, of a run that failed */
    int nbegun;
    const int32_t *acted; /* task, acts: of what had begun in it */
    int nacted;           /* numbers */
    const uint64_t *busy; /* device, nanoseconds; for each device of this worker */
    int nbusy;            /* numbers */
    const void *times;    /* of a timed run */
    size_t ntime;         /* bytes */
    int64_t began;        /* on their clock */
};
void member_ended(struct worker_member *m, const struct run_end *e);
/* digests: of the blocks of a file that was written. */
void member_filed(struct worker_member *m, uint32_t epoch, uint64_t count, int status, const char *text,
                  const struct str *digests);
/* Says farewell: the worker ends by itself. */
void member_leave(struct worker_member *m, const char *why);
/* Tells the id of a communicator that has seats in other memories, for a run. */
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
