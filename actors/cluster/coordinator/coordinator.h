/* coordinator.h - state machine: the members of a cluster, the current phase, and the losses.
 *
 *   GATHER   workers send HELLO; each worker is admitted (WELCOME) or rejected (REFUSE)
 *   MAKE     every rank is present: the first worker of each other host makes the host's memory; if there are several
 *            hosts, every worker opens a port (MAKE -> MADE)
 *   FORM     FORM says which memory and slots each worker has; the worker maps its memory and answers READY
 *   IDLE     all workers are ready: runs may begin
 *   SHIP     a program is sent to workers that lack it and compile it (PROGRAM -> HAVE)
 *   RUN      START is sent to all workers, and every worker answers with END; after the first failure STOP is sent to
 *            all; ids of communicators are forwarded from worker to worker (UNITE)
 *   BROKEN   a member is lost: the epoch is over, and nothing runs until coordinator_recover() begins the next epoch
 *
 * The coordinator uses no clock, socket or thread. The owner passes in packets and ticks; the coordinator sends
 * packets and notices through callbacks. So the same code runs with ZeroMQ (controller.c) and with the simulator
 * (t/cluster/sim.c). A connection must deliver the packets of one direction in order or not at all. A gap in packet
 * numbers means that the member is lost; duplicates and packets of other epochs are dropped.
 *
 * A link outlives its connection. After a new connection the worker repeats its HELLO, which names the link and
 * acknowledges the last packet received. Both ends then send the packets again that the other end has not
 * acknowledged (window.h). If the coordinator counts the worker as lost, it answers REFUSE_LOST, and the worker ends.
 *
 * A connection can carry nothing although neither end has noticed its end. Heartbeats use another connection and say
 * how many packets were sent, so the receiver knows that packets are missing. A worker then replaces the connection
 * after link / 2 ticks. The coordinator asks the worker to do so after link / 4 ticks (CONNECT). Over the new
 * connection the packet may take another `link` ticks.
 *
 * A member is lost when its process ends (coordinator_gone), when it sends malformed packets (coordinator_cut), when a
 * packet that a heartbeat reported is missing for `link` ticks, or after `silence` ticks without a heartbeat. Silence
 * is counted in ticks, not in time, because a suspended controller counts no ticks, and a controller that is late
 * counts fewer. If a loaded host delays heartbeats, the limit grows with the average gap between a member's
 * heartbeats, up to SILENCE_GROWTH times.
 *
 * A member that cannot reach another one reports this (UNREACHED), and one of the two is lost: the other one if it is
 * silent, else the member that reports it.
 *
 * A member hangs when its heartbeats arrive but its work does not progress (coordinator.c). If none of the
 * members that owe an answer has progressed for `hang` ticks, these members are asked what they do; then one of
 * these members is declared lost.
 *
 * A **memory** holds the values of the devices of one host. Memories are numbered in the order of their first ranks.
 * The coordinator makes the memory of its own host; the first worker of another host makes the memory of that host.
 * A memory persists as long as a worker is alive that has mapped the memory (READY). If no such worker is left, the
 * memory is made again, empty (coordinator_memory()).
 *
 * If there are more than `direct` members, each host has a **speaker**: a worker that relays the heartbeats of the
 * other workers, which leave their heartbeats in shared memory. Relaying begins when the epoch is formed, and ends
 * with the first loss; after that each member sends its own heartbeats until the next epoch. While a speaker is
 * silent, only the speaker can be lost, because nothing is known of the workers that it relays for. With thousands
 * of speakers heartbeats are less frequent, so losses are detected later.
 *
 * Workers create the communicators of a collective library. When a run fails, the workers abort their communicators.
 * START carries the number of the last failed run, so every rank knows which communicators must be created again.
 * Before the first run of a program, the collectives of all its partitions are compared.
 *
 * An **elastic** job runs with `least` to `world` workers. An epoch begins as soon as `least` workers are present, and
 * retires the ranks that nobody has. A worker that finds no free rank waits, and keeps its link: it gets a WELCOME
 * without a rank, again every WAIT_TICKS ticks. The next epoch opens all ranks, and waiting workers get them first, so
 * a spare worker replaces a lost one at once. coordinator_recover() begins the next epoch after a loss, or to admit
 * waiting workers. An elastic job can lose all workers of a host without GPUs. Then no member has the memory of that
 * host; the owner of the coordinator must move the slots to other memories, and the bytes are lost. A worker that
 * is admitted without a loss may have any retired rank, whatever its host.
 *
 * In other jobs, a worker waits in the same way if it asks for a lost rank before the owner recovers, or for the rank
 * of a member whose loss has not been noticed yet. If that member turns out to be alive, the worker is rejected.
 *
 * A **slot** is a device thread of the cluster. Plans name the slots of their memory, and a table in FORM assigns a
 * worker to each slot. If a worker is lost for good, other workers of its host take over its slots, and no plan
 * changes.
 *
 * Owner: the cluster (controller.h), under the cluster's lock. Texts that come in are copied; data that goes out is
 * valid during the call. */
#ifndef RILLE_CLUSTER_COORDINATOR_H
#define RILLE_CLUSTER_COORDINATOR_H

#include "actors/cluster/wire/wire.h"

enum {
    CLUSTER_WORLD = 1 << 17,
    CLUSTER_SLOTS = 1 << 10,
    CLUSTER_ID = 16,
    COORDINATOR_IDLE = 32,
    SILENCE_GROWTH = 4, /* largest factor by which delayed heartbeats extend `silence` */
    WAIT_TICKS = 10,    /* ticks between two packets to a worker that waits for a rank */
    LINK_TICKS = 30,    /* default of coordinator_options.link and of member_options.link */
};

/* A range of devices: devices `first` to first + n - 1 of a kind. They are assigned round-robin to `nslot` device
 * threads of a memory (host), from slot `slot` on. */
struct range {
    uint32_t kind, first, n, slot, nslot, memory;
};
/* A device thread of the cluster. The slots of a memory (host) are numbered in the order of the table. owner: rank
 * that runs the slot, if its worker is present. */
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
    MEMBER_ABSENT,  /* the rank's worker has not joined */
    MEMBER_PRESENT, /* the worker was admitted */
    MEMBER_READY,   /* the worker has mapped the epoch's memory */
    MEMBER_BUSY,    /* the worker makes its memory or port, compiles a program, or runs */
    MEMBER_LOST,
    MEMBER_RETIRED, /* the rank has no worker; its slots are run by other workers */
};
const char *member_state_text(enum member_state state);

struct member_info {
    enum member_state state;
    int peer; /* number of the worker's link; -1: none */
    /* number of the memory (one per host) of the worker; -1 until every rank was present once */
    int memory;
    int missed;                          /* ticks since the worker's last packet or heartbeat */
    char *host, *devices, *gpus;         /* gpus: description of the GPUs of the worker (gpus.h) */
    uint32_t pid, cores, abilities, isa; /* isa: instruction sets that the worker's matrix products may use */
    uint32_t link_ms, orphan_ms;         /* time limits of the worker (HELLO), ms */
    /* bytes: physical memory of the worker's host; beats: count in the worker's last heartbeat */
    uint64_t bytes, beats;
    uint64_t acts, busy_ns; /* acts and busy time, ns, of all devices of the worker, over all runs */
    uint64_t progress;      /* the worker's progress (PROGRESS), from its last heartbeat */
    /* number of ticks without progress, while the worker owed an answer and sent heartbeats */
    int still;
    /* number of ticks for which a packet that a heartbeat reported has not arrived; 0: none is missing */
    int lag;
    bool stayed;   /* true if the worker joined before the current epoch */
    uint8_t hello; /* flags of HELLO */
};

enum notice_kind {
    NOTICE_FULL,    /* every rank has a worker; the owner must call coordinator_form() */
    NOTICE_FORMED,  /* the epoch is formed, and runs may begin */
    NOTICE_REFUSED, /* a worker was not admitted; text: the reason */
    NOTICE_LOST,    /* the member `rank` was lost; text: the reason */
    NOTICE_ACTS,    /* packet: an ACTS or END packet of `rank` */
    NOTICE_SLOW,    /* `rank` is slower than workers with equal work; text: by how much. Reported once per rank */
    NOTICE_FILED,   /* packet: a FILED packet of `rank`, the outcome of a SAVE or LOAD */
    NOTICE_HAVE,    /* packet: the HAVE packet of `rank`, the result of compiling a program */
    /* Members that owe answers make no progress. rank -1: the coordinator asks them for reports (NOTICE_REPORT), and
     * the owner must discard earlier reports. rank >= 0: this member is the cause and is declared lost next; status:
     * not 0 if it has not reported. */
    NOTICE_HANG,
    NOTICE_REPORT, /* packet: the REPORT packet of `rank` */
    NOTICE_SIGNAL, /* `rank` has received a signal that the program handles; status: the signal's number */
    /* the run has ended, or the sending of its program; status, text, rank and node describe a failure */
    NOTICE_ENDED,
};
struct notice {
    enum notice_kind kind;
    int rank, status, node;
    uint32_t run;
    const char *text;
    const struct packet *packet; /* ACTS, FILED, HAVE: the packet; ENDED: the last END packet, NULL if nothing ran */
};

struct coordinator_env {
    void *arg;
    void (*send)(void *arg, int peer, const struct packet *p);
    /* called when the coordinator has no further use for a link that it used (coordinator_uses) or refused */
    void (*cut)(void *arg, int peer);
    void (*tell)(void *arg, const struct notice *n);
};

struct coordinator_options {
    int world;   /* number of workers; of an elastic job, the largest */
    int least;   /* number of workers with which an elastic job can run; 0: the job is not elastic */
    int started; /* number of ranks, from 0, whose workers the owner starts; an elastic job waits for these workers */
    /* ticks without a heartbeat after which a member is lost; extended if heartbeats are delayed (SILENCE_GROWTH) */
    int silence;
    int link; /* ticks after which a packet that a heartbeat reported counts as lost; 0: LINK_TICKS */
    /* if no member that owes an answer progresses for this number of ticks, one of them is lost; 0: no limit */
    int hang;
    /* largest number of members that all send heartbeats themselves. With more members, one worker of each host (the
     * speaker) relays the heartbeats of the others */
    int direct;
    const char *version; /* version of Rille; workers of another version are rejected */
    const char *machine; /* identity of the coordinator's host (machine.h) */
    const char *beat;    /* address of the link for heartbeats */
    const char *bulk;    /* address of the link for values */
    const char *name;    /* name of the job; workers of a job with another name are rejected */
    /* kernels: identity of cpu kernels (kernels/exec/identity.h); workers with other kernels are rejected. isa: the
     * only instruction sets that matrix products may use */
    const char *kernels;
    uint32_t isa;
    unsigned char job[CLUSTER_ID];
    /* By rank: the secret that the rank's worker received at its start, and repeats in HELLO. NULL, or all zero: any
     * worker may have the rank. */
    const unsigned char (*secret)[CLUSTER_ID];
};

struct coordinator;
/* Creates a coordinator. The texts and secrets in the options must outlive the coordinator. */
struct coordinator *coordinator_new(const struct coordinator_options *o, const struct coordinator_env *env);
void coordinator_free(struct coordinator **c);

/* Records that the key used on link `peer` belongs to a rank. The link's worker can then join only as that rank. */
void coordinator_vouch(struct coordinator *c, int peer, int rank);
/* Handles a packet from link `peer`. The first packet of a link registers the link. */
void coordinator_receive(struct coordinator *c, int peer, const struct packet *p);
/* Returns true if a member or a waiting worker has the link `peer`. If none has, the number may name another link
 * later. */
bool coordinator_uses(const struct coordinator *c, int peer);
/* Handles a heartbeat, which names the rank of its sender. Heartbeats arrive on a separate link, and prove only that
 * the process is alive. Returns false if the sender is no member. */
bool coordinator_beat(struct coordinator *c, const struct packet *p);
/* Declares the member on link `peer` lost; how: the reason. */
void coordinator_cut(struct coordinator *c, int peer, const char *how);
/* Handles the end of the process of a rank, which may not have joined yet. how: the reason, such as "was killed by
 * signal 9". */
void coordinator_gone(struct coordinator *c, int rank, const char *how);
/* Sets the signals (bits 1 << number) that the program handles if a worker receives them. A worker that receives any
 * other signal is lost. */
void coordinator_hear(struct coordinator *c, uint64_t signals);
void coordinator_tick(struct coordinator *c);
/* Makes a member replace the connection of its link for values. */
void coordinator_connect_values(struct coordinator *c, int rank);
/* Fills *out with the heartbeat that must be sent to a rank now; *out is valid until the next call. Returns false if
 * no heartbeat is due: the rank is no member, a speaker relays its heartbeats, or the interval is not over. */
bool coordinator_pulse(struct coordinator *c, int rank, struct packet *out);

enum { REFUSE_LOST = 1 };
enum { CONNECT_VALUES = 1 }; /* flag of CONNECT */
enum { MAKE_MEMORY = 1, MAKE_PORT = 2, MAKE_FRESH = 4 };
enum { MADE_MPI = 1 };
enum { HELLO_KEEPS = 1, HELLO_KEPT = 2, HELLO_RETURNS = 4 };
enum { HOLD_GIVE = 1, HOLD_KEPT = 2 };
enum { FETCH_KEPT = 1, FETCH_OLDER = 2, FETCH_PATH = 4, KEPT_PATH = 96 }; /* KEPT_PATH: bytes of a path, with zeros */
enum { FILED_MORE = 1 };
enum { REPORT_WORKS = 1 };

/* Sends the program to members that lack it, then runs it. May be called only in phase IDLE. Ends with NOTICE_ENDED
 * or NOTICE_LOST; the data to which *s points must stay valid until then. */
struct start {
    uint64_t program; /* number that names the program, derived from its bytes by program_name() */
    const void *bytes;
    size_t nbyte;
    /* digest: digest of the controller's plan partition; outline: digest of the plan's outline */
    unsigned char digest[CLUSTER_ID], outline[CLUSTER_ID];
    int memory; /* memory (host) of the controller's plan partition; -1: the controller has no partition to compare */
    uint32_t run, flags;
    const struct places *places; /* by memory (host): positions of leaf shards, root shards and arenas */
    const uint64_t *numbers;
    int nnumber;
    /* by memory (host): schedule rows, the planned order of acts (plan_sim_rows_write). They are sent to members
     * that have rows of another version (rows_number). NULL: no rows */
    const struct str *rows;
    uint32_t rows_number;
};
struct places {
    const uint64_t *at;
    int n;
};

/* Ends the job by sending BYE to the members. code: exit code of the job. */
void coordinator_bye(struct coordinator *c, uint32_t code);

enum coordinator_phase coordinator_phase(const struct coordinator *c);
uint32_t coordinator_epoch(const struct coordinator *c); /* returns the number of the current epoch, from 1 */
/* Returns how many times longer a rank's acts took than equal acts of other workers, at the last comparison; 0: the
 * rank was not slow. */
double coordinator_slow(const struct coordinator *c, int rank);
const struct member_info *coordinator_member(const struct coordinator *c, int rank);
/* Returns the rank that runs a slot (device thread) in the current epoch. */
uint32_t coordinator_slot(const struct coordinator *c, int slot);
/* The memory of a host. Memories get their numbers when every rank is present for the first time. */
struct memory_info {
    char *machine;
    bool own; /* true for the memory of the coordinator's host */
    /* rank of the worker that mapped or made the memory for this epoch; -1: the coordinator made it */
    int keeper;
    uint32_t made_epoch; /* epoch in which the memory was made, or made again */
};
int coordinator_memories(const struct coordinator *c);
/* Returns the lowest rank that has the memory mapped; -1: no rank. */
int coordinator_keeper(const struct coordinator *c, int memory);
const struct memory_info *coordinator_memory(const struct coordinator *c, int memory);
/* Returns the bytes that the coordinator uses for members, links and programs, to measure the cost of a large
 * cluster (bench/scale.c). */
size_t coordinator_bytes(const struct coordinator *c);

#endif
