/* coordinator.h - who belongs to a cluster, what it is doing and what it lost: a state machine.
 *
 *   GATHER   workers say HELLO; it lets each in (WELCOME) or not (REFUSE)
 *   MAKE     every rank is there: the first worker of each other host makes its memory, each its port (MAKE -> MADE)
 *   FORM     FORM tells where devices live; each maps the epoch's memory and says READY
 *   IDLE     it ships programs (PROGRAM -> HAVE) and runs begin
 *   RUN      START to all; END from all; to the first failure in between it answers STOP to all. Before they begin,
 *            ids of communicators go through it from worker to worker (UNITE)
 *   BROKEN   a member is lost: the epoch is over, and nothing runs until coordinator_recover() begins the next one
 *
 * No clock, no socket, no thread: packets and ticks come in, packets and notices go out through the functions given at
 * the start. ZeroMQ (controller.c) and the simulator (t/cluster-sim.c) drive it alike. What it needs of a link: packets
 * of one direction arrive in order or not at all. A gap in their numbers is the end of that member; it drops what comes
 * twice, and what belongs to another epoch.
 *
 * A member is lost when its process or link ends (coordinator_gone) or when no heartbeat came for so many ticks. Ticks,
 * not time: a controller that itself stood still for a while has counted none.
 *
 * A **memory** is what the devices of one host lie in; memories have numbers, in the order of their first ranks. The
 * memory of the coordinator's own host is the coordinator's to make, that of another host its first worker's. It
 * outlives a worker as long as one is there that has said that it has it mapped; when none has, it is made afresh
 * (coordinator_memory()), and who has the old one after all - its READY came too late - lets go of it.
 *
 * Where there are many members one of each host, its **speaker**, carries the heartbeats of its neighbours, which leave
 * theirs in the host's memory: from when the epoch stands until a member is lost. Then each speaks for itself until the
 * next epoch. While a speaker is silent nothing is known of the others, so that it alone is lost for it. Speakers are
 * still many on a cluster of thousands of hosts: then heartbeats come less often, and losses are seen later.
 *
 * Communicators of a library of collectives are the workers' own. START says which run failed last: those that were
 * made by then are made anew, by all that have seats, since some of them have cut theirs. Before a program runs first,
 * what its parts say of their collectives is compared.
 *
 * A **slot** is a device thread of the cluster. Plans name slots of their memory, and the table that FORM sends says
 * which worker runs each: where workers are lost for good, others of that host take over their slots, and no plan
 * changes.
 *
 * Owner: the cluster (controller.h), under its lock. It copies texts that come in; what goes out is valid during the
 * call. */
#ifndef RILLE_CLUSTER_COORDINATOR_H
#define RILLE_CLUSTER_COORDINATOR_H

#include "actors/cluster/wire.h"

/* Heartbeats of who speaks for others hold of each: its rank, the count of its heartbeats, the number of its last
 * packet. */
enum { BEAT_RANK, BEAT_COUNT, BEAT_SEQ, NBEAT };

enum {
    CLUSTER_WORLD = 1 << 17,
    CLUSTER_SLOTS = 1 << 10,
    CLUSTER_ID = 16,
    COORDINATOR_IDLE = 32,
    LAG_TICKS = 20, /* a packet that a heartbeat tells of comes within so many, or is lost */
};

/* Devices first to first + n - 1 of a kind live in these slots of a memory, in turns. */
struct range {
    uint32_t kind, first, n, slot, nslot, memory;
};
/* Slots stand memory by memory; owner: the rank whose it is while that is there. */
struct slot {
    uint32_t memory, owner;
};

enum coordinator_phase {
    CLUSTER_GATHER,
    CLUSTER_MAKE,
    CLUSTER_FORM,
    CLUSTER_IDLE,
    CLUSTER_SHIP,
    CLUSTER_RUN,
    CLUSTER_BROKEN
};
const char *coordinator_phase_text(enum coordinator_phase phase);

enum member_state {
    MEMBER_ABSENT,  /* nobody has this rank yet */
    MEMBER_PRESENT, /* it is in */
    MEMBER_READY,   /* it has mapped the epoch's memory */
    MEMBER_BUSY,    /* it has a program to make, or a run to end */
    MEMBER_LOST,
    MEMBER_RETIRED, /* lost for good: others run its slots */
};
const char *member_state_text(enum member_state state);

struct member_info {
    enum member_state state;
    int peer;                    /* its link, -1 */
    int memory;                  /* -1: the world has not yet been full */
    char *host, *devices, *gpus; /* gpus: what it tells of them (gpus.h) */
    uint32_t pid, cores, abilities;
    uint64_t bytes, beats;  /* bytes: of its host's memory */
    int missed;             /* ticks since the last sign of life */
    uint64_t acts, busy_ns; /* in all runs: of all its devices */
    int lag;                /* ticks for which a packet that it sent has not come */
    bool stayed;            /* it was there before this epoch was begun */
};

enum notice_kind {
    NOTICE_FULL,    /* every rank is there: coordinator_form() is next */
    NOTICE_FORMED,  /* the epoch stands: runs may begin */
    NOTICE_REFUSED, /* the coordinator did not let in one that wanted to join; text */
    NOTICE_LOST,    /* rank, text */
    NOTICE_ACTS,    /* rank; the packet that brought them */
    NOTICE_SLOW,    /* rank, text: it computes slower than those who do the same; once */
    NOTICE_FILED,   /* rank; the packet that says what became of a file */
    NOTICE_HAVE,    /* rank; the packet that says what it made of a program */
    NOTICE_ENDED,   /* the run (or the making of its program) is over: status, rank of the first failure, text, node */
};
struct notice {
    enum notice_kind kind;
    int rank, status, node;
    uint32_t run;
    const char *text;
    const struct packet *packet; /* ACTS, FILED, HAVE; ENDED of a failure: the END */
};

struct coordinator_env {
    void *arg;
    void (*send)(void *arg, int peer, const struct packet *p);
    void (*cut)(void *arg, int peer); /* the coordinator uses the link no more */
    void (*tell)(void *arg, const struct notice *n);
};

struct coordinator_options {
    int world;           /* workers */
    int silence;         /* ticks without a heartbeat after which a member is lost */
    int direct;          /* more members than these have speakers */
    const char *version; /* of the program: a worker has the same */
    const char *machine; /* which host it is on */
    const char *beat;    /* address of the link of heartbeats */
    const char *bulk;    /* and of that of values */
    unsigned char job[CLUSTER_ID];
    /* By rank: what the worker that somebody started for it says in HELLO; NULL, or all zero: anybody may have the
     * rank. */
    const unsigned char (*secret)[CLUSTER_ID];
};

struct coordinator;
/* Texts and secrets of the options live as long as the coordinator. */
struct coordinator *coordinator_new(const struct coordinator_options *o, const struct coordinator_env *env);
void coordinator_free(struct coordinator **c);

/* Hears that link `peer` has the key of a rank: nothing that it says makes it another one. */
void coordinator_vouch(struct coordinator *c, int peer, int rank);
/* Takes a packet that came by link `peer`, whose first packet makes it known. */
void coordinator_receive(struct coordinator *c, int peer, const struct packet *p);
/* Hears that what came by link `peer` was of another protocol: whoever it is, it is of another version. */
void coordinator_foreign(struct coordinator *c, int peer, int protocol);
/* Takes a heartbeat, which names its rank; its link is another one, and proves nothing but life. False: it is of no
 * member. */
bool coordinator_beat(struct coordinator *c, const struct packet *p);
/* Hears that the link ended. */
void coordinator_cut(struct coordinator *c, int peer, const char *how);
/* Hears that the process that has the rank, or was to have it, ended: "was killed by signal 9". */
void coordinator_gone(struct coordinator *c, int rank, const char *how);
void coordinator_tick(struct coordinator *c);
/* Gives the heartbeat for a rank, valid until the next one; false: nobody has it, or hears by its speaker, or none is
 * due. */
bool coordinator_pulse(struct coordinator *c, int rank, struct packet *out);

/* After NOTICE_FULL: begins an epoch. What it points to stays until NOTICE_FORMED. */
struct form {
    uint32_t threads, abilities;
    const char *segment, *bus; /* of the coordinator's own host */
    int nrange, nslot;
    const struct range *range;
    const struct slot *slot;
    const uint64_t *bytes; /* by memory */
};
void coordinator_form(struct coordinator *c, const struct form *f);
enum { MAKE_MEMORY = 1, MAKE_PORT = 2, MAKE_FRESH = 4 };
enum { MADE_MPI = 1 };
enum { HOLD_GIVE = 1 };

/* In IDLE: ships the program to members that lack it, then runs it. Ends with NOTICE_ENDED (or LOST); what it points to
 * stays until then. */
struct start {
    uint64_t program; /* its name, which follows from its bytes: program_name() */
    const void *bytes;
    size_t nbyte;
    unsigned char digest[CLUSTER_ID], outline[CLUSTER_ID]; /* of the part that the controller made, and its outline */
    int memory;                                            /* whose part that is; -1: nobody's, it cannot be compared */
    uint32_t run, flags;
    const struct places *places; /* by memory */
    const uint64_t *numbers;
    int nnumber;
    const struct str *rows; /* by memory (play_rows_write), for those who have none of this number; NULL: none */
    uint32_t rows_number;
};
struct places {
    const uint64_t *at;
    int n;
};
enum { START_TIMED = 1, START_SHIPS = 2 /* ends when everybody has the program; nothing runs */ };
enum { STOP_ASKED, STOP_FAILED, STOP_LOST };
void coordinator_start(struct coordinator *c, const struct start *s);
void coordinator_stop(struct coordinator *c);
/* Asks a member to write or read a file (SAVE, LOAD), whatever else it does: NOTICE_FILED, or NOTICE_LOST of somebody,
 * follows; CANCEL makes it follow soon. False: the epoch does not stand. */
bool coordinator_file(struct coordinator *c, int rank, const struct packet *p);
/* Nobody wants the program now. Members keep the last COORDINATOR_IDLE of such, so that one that is found again is
 * named alone. */
void coordinator_forget(struct coordinator *c, uint64_t program);

/* In BROKEN: gathers the next epoch, with `workers` members: wants lost ranks again, and those that the one that broke
 * still waited for, lowest first (but one of each memory before a second), and retires those beyond. E_ARG when more
 * are alive than that, or nobody of a memory would be. */
int coordinator_recover(struct coordinator *c, int workers);
/* Ends the job with this exit status: BYE to everybody. */
void coordinator_bye(struct coordinator *c, int status);

enum coordinator_phase coordinator_phase(const struct coordinator *c);
/* How many times as long its acts took as those of others who do the same, when they were compared last; 0: not. */
double coordinator_slow(const struct coordinator *c, int rank);
const struct member_info *coordinator_member(const struct coordinator *c, int rank);
/* Which rank runs each slot in this epoch. */
uint32_t coordinator_slot(const struct coordinator *c, int slot);
/* The first full world settles their numbers. */
struct memory_info {
    char *machine;
    bool own;            /* of the coordinator's host */
    int keeper;          /* the rank that made it ready for this epoch; -1 where it is the coordinator's own */
    uint32_t made_epoch; /* in which it was fresh */
};
int coordinator_memories(const struct coordinator *c);
/* Returns the first of a memory's workers that has it mapped now; -1: nobody has. */
int coordinator_keeper(const struct coordinator *c, int memory);
const struct memory_info *coordinator_memory(const struct coordinator *c, int memory);
/* Bytes that it keeps for each member: what a large cluster costs its controller. */
size_t coordinator_bytes(const struct coordinator *c);

#endif
