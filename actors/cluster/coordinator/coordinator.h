/* coordinator.h - state machine: the members of a cluster, its current phase, and its losses.
 *
 *   GATHER   workers send HELLO; each is admitted (WELCOME) or rejected (REFUSE)
 *   MAKE     every rank is present: the first worker of each other host makes the host's memory; with several hosts,
 *            every worker opens a port (MAKE -> MADE)
 *   FORM     FORM tells where devices live; each worker maps the epoch's memory and answers READY
 *   IDLE     programs are shipped (PROGRAM -> HAVE) and runs begin
 *   RUN      START to all, END from all; the first failure in between is answered by STOP to all. Before the run
 *            begins, ids of communicators pass through the coordinator from worker to worker (UNITE)
 *   BROKEN   a member is lost: the epoch is over, and nothing runs until coordinator_recover() begins the next one
 *
 * The coordinator uses no clock, socket or thread: packets and ticks come in, packets and notices go out through
 * callbacks. ZeroMQ (controller.c) and the simulator (t/cluster/sim.c) drive it alike. A link must deliver the
 * packets of one direction in order or not at all. A gap in packet numbers loses the member; duplicates and packets
 * of another epoch are dropped.
 *
 * A member is lost when its process or link ends (coordinator_gone, coordinator_cut), or after `silence` ticks
 * without a heartbeat. Silence is counted in ticks, not in time, because a suspended controller counts no ticks.
 *
 * A **memory** holds the devices of one host. Memories are numbered in the order of their first ranks. The
 * coordinator makes the memory of its own host; the first worker of another host makes that host's. A memory
 * persists while one worker is left that reported the memory mapped (READY). Otherwise the memory is made afresh
 * (coordinator_memory()); a worker whose READY came too late unmaps the old memory.
 *
 * With more than `direct` members, one worker of each host, its **speaker**, relays the heartbeats of the host's
 * other workers, which leave them in the host's memory. Relaying begins when the epoch is formed and ends with the
 * first loss; then each member sends its own heartbeats until the next epoch. While a speaker is silent, only the
 * speaker can be lost, because nothing is known of the workers behind it. With thousands of speakers heartbeats are
 * less frequent, and losses are seen later.
 *
 * Communicators of a collective library belong to the workers. START carries the number of the last failed run: all
 * ranks of older communicators make new ones, because some workers have cut theirs. Before the first run of a
 * program, the collectives of its partitions are compared.
 *
 * A **slot** is a device thread of the cluster. Plans name slots of their memory, and the table in FORM assigns a
 * worker to each slot. If workers are lost for good, others of that host take over their slots, and no plan changes.
 *
 * Owner: the cluster (controller.h), under its lock. Incoming texts are copied; outgoing data is valid during the
 * call. */
#ifndef RILLE_CLUSTER_COORDINATOR_H
#define RILLE_CLUSTER_COORDINATOR_H

#include "actors/cluster/wire/wire.h"

/* Numbers of a relayed heartbeat: rank, count of heartbeats, number of the rank's last packet. */
enum { BEAT_RANK, BEAT_COUNT, BEAT_SEQ, NBEAT };

enum {
    CLUSTER_WORLD = 1 << 17,
    CLUSTER_SLOTS = 1 << 10,
    CLUSTER_ID = 16,
    COORDINATOR_IDLE = 32,
    LAG_TICKS = 20, /* ticks until a packet reported by a heartbeat counts as lost */
};

/* Devices first to first + n - 1 of a kind, dealt in turn to the slots slot to slot + nslot - 1 of a memory. */
struct range {
    uint32_t kind, first, n, slot, nslot, memory;
};
/* A device thread. Slots of a memory are numbered in the order of the table. owner: rank that runs it while present. */
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
    MEMBER_ABSENT,  /* has not joined */
    MEMBER_PRESENT, /* admitted */
    MEMBER_READY,   /* has mapped the epoch's memory */
    MEMBER_BUSY,    /* makes its memory or port, compiles a program, or runs */
    MEMBER_LOST,
    MEMBER_RETIRED, /* lost for good; others run its slots */
};
const char *member_state_text(enum member_state state);

struct member_info {
    enum member_state state;
    int peer;                    /* its link; -1: none */
    int memory;                  /* -1 until every rank was present once */
    char *host, *devices, *gpus; /* gpus: description of its GPUs (gpus.h) */
    uint32_t pid, cores, abilities;
    uint64_t bytes, beats;  /* bytes: memory of its host; beats: count in the last heartbeat */
    int missed;             /* ticks since its last packet or heartbeat */
    uint64_t acts, busy_ns; /* of all its devices, over all runs */
    int lag;                /* ticks for which a reported packet has been missing */
    bool stayed;            /* joined before the current epoch */
};

enum notice_kind {
    NOTICE_FULL,    /* every rank is present; coordinator_form() must follow */
    NOTICE_FORMED,  /* the epoch is formed; runs may begin */
    NOTICE_REFUSED, /* a worker was not admitted: text */
    NOTICE_LOST,    /* rank, text */
    NOTICE_ACTS,    /* rank; the ACTS or END packet */
    NOTICE_SLOW,    /* rank, text: slower than workers with equal work; once */
    NOTICE_FILED,   /* rank; the FILED packet, the outcome of a file */
    NOTICE_HAVE,    /* rank; the HAVE packet, the result of compiling a program */
    NOTICE_ENDED,   /* the run, or the shipping of its program, ended: status, text, rank and node of the failure */
};
struct notice {
    enum notice_kind kind;
    int rank, status, node;
    uint32_t run;
    const char *text;
    const struct packet *packet; /* ACTS, FILED, HAVE; ENDED: the last END, NULL if nothing ran */
};

struct coordinator_env {
    void *arg;
    void (*send)(void *arg, int peer, const struct packet *p);
    void (*cut)(void *arg, int peer); /* the coordinator no longer uses the link */
    void (*tell)(void *arg, const struct notice *n);
};

struct coordinator_options {
    int world;           /* number of workers */
    int silence;         /* ticks without a heartbeat until a member is lost */
    int direct;          /* maximum number of members without speakers */
    const char *version; /* version of Rille; workers must have the same */
    const char *machine; /* identity of the coordinator's host */
    const char *beat;    /* address for heartbeats */
    const char *bulk;    /* address for values */
    unsigned char job[CLUSTER_ID];
    /* By rank: secret in the HELLO of the worker started for it. NULL, or all zero: any worker may have the rank. */
    const unsigned char (*secret)[CLUSTER_ID];
};

struct coordinator;
/* Creates a coordinator. Texts and secrets of the options must outlive it. */
struct coordinator *coordinator_new(const struct coordinator_options *o, const struct coordinator_env *env);
void coordinator_free(struct coordinator **c);

/* Records that the key of link `peer` belongs to a rank; the link can join as no other rank. */
void coordinator_vouch(struct coordinator *c, int peer, int rank);
/* Handles a packet from link `peer`; the first packet registers the link. */
void coordinator_receive(struct coordinator *c, int peer, const struct packet *p);
/* Refuses link `peer`, because packets of another protocol version arrived. */
void coordinator_foreign(struct coordinator *c, int peer, int protocol);
/* Handles a heartbeat, which names its rank. Heartbeats have a separate link and prove only that the process is
 * alive. Returns false if the sender is no member. */
bool coordinator_beat(struct coordinator *c, const struct packet *p);
/* Reports that a link ended. */
void coordinator_cut(struct coordinator *c, int peer, const char *how);
/* Reports that the process of a rank ended, even before it joined. how: "was killed by signal 9". */
void coordinator_gone(struct coordinator *c, int rank, const char *how);
void coordinator_tick(struct coordinator *c);
/* Fills *out with the heartbeat for a rank, valid until the next call. Returns false if the rank is no member, a
 * speaker relays its heartbeat, or none is due. */
bool coordinator_pulse(struct coordinator *c, int rank, struct packet *out);

/* Begins an epoch, after NOTICE_FULL. Everything that *f points to must stay valid until NOTICE_FORMED. */
struct form {
    uint32_t threads, abilities;
    const char *segment, *bus; /* paths on the coordinator's own host */
    int nrange, nslot;
    const struct range *range;
    const struct slot *slot;
    const uint64_t *bytes; /* memory size, by memory */
};
void coordinator_form(struct coordinator *c, const struct form *f);
enum { MAKE_MEMORY = 1, MAKE_PORT = 2, MAKE_FRESH = 4 };
enum { MADE_MPI = 1 };
enum { HOLD_GIVE = 1 };
enum { FILED_MORE = 1 };

/* Ships the program to members without it, then runs it; only in IDLE. Ends with NOTICE_ENDED or NOTICE_LOST;
 * everything that *s points to must stay valid until then. */
struct start {
    uint64_t program; /* name derived from the bytes: program_name() */
    const void *bytes;
    size_t nbyte;
    unsigned char digest[CLUSTER_ID], outline[CLUSTER_ID]; /* of the controller's partition; its outline */
    int memory; /* host of the controller's plan partition; -1: no partition, so digests are not compared */
    uint32_t run, flags;
    const struct places *places; /* by memory */
    const uint64_t *numbers;
    int nnumber;
    const struct str *rows; /* by memory (plan_sim_rows_write), for members with rows of another number; NULL: none */
    uint32_t rows_number;
};
struct places {
    const uint64_t *at;
    int n;
};
enum { START_TIMED = 1, START_SHIPS = 2 /* only ship: end when every member has the program */ };
enum { STOP_ASKED, STOP_FAILED, STOP_LOST };
void coordinator_start(struct coordinator *c, const struct start *s);
void coordinator_stop(struct coordinator *c);
/* Asks a member to write or read a file (SAVE, LOAD), also during a run. NOTICE_FILED follows, or NOTICE_LOST of any
 * member; CANCEL hastens it. Returns false if no epoch is formed. */
bool coordinator_file(struct coordinator *c, int rank, const struct packet *p);
/* Marks a program as unused. Members keep the last COORDINATOR_IDLE unused programs, so that reuse ships no bytes. */
void coordinator_forget(struct coordinator *c, uint64_t program);

/* Starts gathering the next epoch with `workers` members; only in BROKEN. Reopens the ranks that were lost or had
 * not joined, lowest first, at least one per memory; permanently retires the rest. E_ARG: more members are alive, a
 * memory would have none, or too few ranks are left. */
int coordinator_recover(struct coordinator *c, int workers);
/* Ends the job: sends BYE to all members. */
void coordinator_bye(struct coordinator *c);

enum coordinator_phase coordinator_phase(const struct coordinator *c);
/* Returns how many times longer a rank's acts took than those of workers with equal work, at the last comparison; 0:
 * not slow. */
double coordinator_slow(const struct coordinator *c, int rank);
const struct member_info *coordinator_member(const struct coordinator *c, int rank);
/* Returns the rank that runs a slot in this epoch. */
uint32_t coordinator_slot(const struct coordinator *c, int slot);
/* A memory; memories get their numbers when every rank is present for the first time. */
struct memory_info {
    char *machine;
    bool own;            /* on the coordinator's host */
    int keeper;          /* rank that made it ready for the epoch; -1: the coordinator did */
    uint32_t made_epoch; /* epoch in which it was made afresh */
};
int coordinator_memories(const struct coordinator *c);
/* Returns the lowest rank that has the memory mapped; -1: none. */
int coordinator_keeper(const struct coordinator *c, int memory);
const struct memory_info *coordinator_memory(const struct coordinator *c, int memory);
/* Returns the bytes kept for members, links and programs: the controller's cost of a large cluster. */
size_t coordinator_bytes(const struct coordinator *c);

#endif
