/* member.h - a worker's membership in a cluster: a state machine.
 *
 *   JOIN     HELLO sent as soon as there is a connection; waits for WELCOME or REFUSE
 *   IN       a member; passes work from the coordinator to the executor, in order
 *   LEFT     the membership has ended: dismissed (status 0), or failed (not 0)
 *
 * After a new connection the member sends HELLO again, then the packets that the coordinator has not acknowledged.
 *
 * Like the coordinator, a member uses no clock, socket or thread. The owner passes in packets, ticks and the
 * executor's answers; the member sends packets and work through callbacks. The executor does work in the order of
 * arrival, except for STOP, CANCEL, ASK, UNITE and CONNECT, which are done at once. Owner: the worker
 * (worker_inner.h), under the worker's lock. */
#ifndef RILLE_CLUSTER_MEMBER_H
#define RILLE_CLUSTER_MEMBER_H

#include "actors/cluster/wire/wire.h"

enum work_kind {
    WORK_WELCOME, /* connect the links for heartbeats and values */
    WORK_MAKE,    /* make the host's memory, open a port; the answer is member_made() */
    WORK_FORM,    /* map the epoch's memory; the answer is member_ready() */
    WORK_PROGRAM, /* compile a program; the answer is member_have() */
    WORK_ROWS,    /* store the schedule rows (planned order of acts) of a program */
    WORK_FORGET,
    WORK_START,   /* run a program; the answer is member_ended() */
    WORK_FILE,    /* write or read a file; the answer is member_filed() */
    WORK_CANCEL,  /* abandon the file request that has the same `count` */
    WORK_STOP,    /* stop the run in progress */
    WORK_ASK,     /* report at once what the worker does; the answer is member_report() */
    WORK_UNITE,   /* for the current run, store a communicator's id that another worker created */
    WORK_CONNECT, /* replace a connection, as a CONNECT packet says */
    WORK_LEAVE,   /* end the worker. status: a LEAVE_ constant; text: the reason (not for LEAVE_DONE) */
    /* Requests and answers of workers of other hosts (carrier.h), queued with the coordinator's work in order of
     * arrival. */
    WORK_ASKED, /* another worker requests this worker's list of a program's channels */
    WORK_LISTED,
    WORK_PORTS, /* addresses of other workers, requested by member_meet() */
    NWORK
};
/* LEAVE_ORPHAN: the coordinator is gone; another coordinator may follow */
enum { LEAVE_DONE, LEAVE_FAILED, LEAVE_ORPHAN };
struct work {
    enum work_kind kind;
    const struct packet
        /* packet that requested the work: WELCOME, MAKE, FORM, PORTS, START, STOP, FILE, CANCEL, UNITE or CONNECT */
        *packet;
    uint32_t epoch;
    uint64_t program;
    const void *bytes; /* content of a program, of its schedule rows, or of a list of channels */
    size_t n;
    int from; /* rank of the worker that sent the request ASKED or the list LISTED */
    int status;
    uint32_t code; /* (LEAVE) with LEAVE_DONE: exit code of the job */
    const char *text;
};

struct member_env {
    void *arg;
    void (*send)(void *arg, const struct packet *p); /* sends a packet to the coordinator */
    void (*work)(void *arg, const struct work *w);   /* passes work to the executor; *w is valid during the call */
    /* Returns a word of a rank in this epoch's shared memory; NULL: the word is not available now. */
    _Atomic uint64_t *(*word)(void *arg, int rank, enum beat_word which);
};

enum { MEMBER_PROGRAM_MOST = 1 << 28 }; /* maximum size of a program, and of a program's schedule rows, bytes */

struct member_options {
    struct packet hello; /* HELLO packet that describes this process; its spans must outlive the member */
    int silence;         /* ticks without a heartbeat after which the coordinator is considered gone */
    /* ticks without a connection, or with a missing packet, after which the membership ends; 0: LINK_TICKS */
    int link;
    int wait; /* ticks within which the worker must be admitted; 0: no limit */
};

struct worker_member;
struct worker_member *member_new(const struct member_options *o, const struct member_env *env);
void member_free(struct worker_member **m);
void member_linked(struct worker_member *m); /* called at each new connection: sends HELLO */
void member_down(struct worker_member *m);   /* called when the connection has ended; a new connection may follow */
void member_receive(struct worker_member *m, const struct packet *p);
/* counts a tick; the caller then calls member_beat(), because a heartbeat may be due */
void member_tick(struct worker_member *m);
/* Ends the membership, because the coordinator is gone. */
void member_cut(struct worker_member *m, const char *how);
/* member_heard handles a heartbeat of the coordinator. member_beat fills *out with this worker's next heartbeat,
 * valid until the next call. member_beat returns false if no heartbeat is due: the worker has no rank yet, a speaker
 * relays its heartbeats, or the interval is not over. */
void member_heard(struct worker_member *m, const struct packet *p);
bool member_beat(struct worker_member *m, struct packet *out);
/* Sets the progress that the next heartbeats report. done: a number that changes with each completed piece of work;
 * node: the program node whose act runs, -1: none. */
void member_progress(struct worker_member *m, uint32_t done, int32_t node);

/* Answers of the executor to work. */
struct made {
    int status;
    const char *text; /* reason of the failure, if status is not 0 */
    const char *segment, *bus, *port;
    bool mpi; /* the worker can use MPI */
};
void member_made(struct worker_member *m, uint32_t epoch, const struct made *made);
void member_ready(struct worker_member *m, uint32_t epoch, int status, const char *text);
/* Requests the addresses of a memory's workers. The answer arrives as WORK_PORTS. */
void member_meet(struct worker_member *m, uint32_t epoch, uint32_t memory);
struct have {
    uint64_t program;
    int status;
    const char *text; /* reason of the failure, if status is not 0 */
    /* digests of the plan partition and of the outline, CLUSTER_ID bytes each */
    const unsigned char *digest, *outline;
    const uint64_t *arenas;        /* pairs: number of a device of the partition, and bytes of the device's arena */
    int narena;                    /* number of entries in `arenas`, two per device */
    const unsigned char *replaces; /* for each root, the way in which it is stored: enum root_fate (channel.h) */
    int nreplace;
    const void *comm_ranks; /* collectives of the partition (comm_ranks.h) */
    size_t ncomm_ranks;     /* size of `comm_ranks` in bytes */
};
void member_have(struct worker_member *m, uint32_t epoch, const struct have *h);
struct run_end {
    uint32_t epoch, run;
    int status, node;
    const char *text;
    uint64_t acts;
    const int32_t *begun; /* roots (output shards) that updates of a failed run had begun to overwrite */
    int nbegun;
    const int32_t *acted; /* pairs: index of a task that began in a failed run, and its number of acts */
    int nacted;           /* number of entries in `acted`, two per task */
    const uint64_t *busy; /* pairs: number of a device of this worker, and its busy time, ns */
    int nbusy;            /* number of entries in `busy`, two per device */
    const void *times;    /* begin and end times of the acts of a timed run */
    size_t ntime;         /* size of `times` in bytes */
    int64_t began;        /* start time of the run, ns (CLOCK_MONOTONIC, like the act times in `times`) */
};
void member_ended(struct worker_member *m, const struct run_end *e);
/* Reports the outcome of a file request. digests: digests of the blocks of the file, if the request wrote a file. */
void member_filed(struct worker_member *m, uint32_t epoch, uint64_t count, int status, const char *text,
                  const struct str *digests);
/* Reports that this worker has no connection to worker `rank`. how: a description for the user. */
void member_unreached(struct worker_member *m, int rank, const char *how);
/* Answers WORK_ASK. works: the worker does work; rank: the worker for which it waits, -1: none; lines: what each
 * thread does, for the user. */
void member_report(struct worker_member *m, bool works, int32_t rank, const struct str *lines);
/* Reports to the coordinator a signal that this process has received. The coordinator decides whether the worker
 * stays. Without a coordinator the worker leaves. */
void member_signal(struct worker_member *m, int number);
/* Sends LEAVE, because the worker ends by itself; why: the reason. */
void member_leave(struct worker_member *m, const char *why);
/* Sends, for one run, the id of a communicator that has ranks in other memories (hosts). */
struct unite {
    uint32_t run;
    uint64_t name;
    const uint32_t *memory;
    int nmemory;
    const unsigned char *id; /* id of the communicator, COMMUNICATOR_ID bytes */
};
void member_unite(struct worker_member *m, uint32_t epoch, const struct unite *u);
int member_rank(const struct worker_member *m); /* returns the rank of this worker; -1: none yet */

#endif
