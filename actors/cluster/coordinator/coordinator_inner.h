/* coordinator_inner.h - state of the coordinator, and functions that the coordinator's files share. The thread
 * rules of coordinator.h apply. */
#ifndef RILLE_CLUSTER_COORDINATOR_INNER_H
#define RILLE_CLUSTER_COORDINATOR_INNER_H

#include "actors/cluster/coordinator/coordinator_epoch.h"
#include "actors/cluster/wire/peers.h"
#include "actors/cluster/wire/window.h"

/* The work of a worker since the speeds of workers were last compared (coordinator_run.c). */
struct pace {
    uint64_t acts, busy_ns;
    /* ratio of the worker's busy time to that of other workers, at the last comparison; 0: the worker was not slow */
    double times;
    int32_t rank;
    bool told;
};

struct member {
    struct member_info info;
    struct pace pace;
    /* seen: number of the last packet received from the member; said: number of the last packet that the member has
     * sent, according to its last heartbeat */
    uint32_t seen, said;
    struct window window; /* packets sent to the worker that it has not acknowledged */
    /* from the worker's last HELLO: number of its membership, and number of its connection */
    unsigned char link[CLUSTER_ID];
    uint64_t connection;
    uint64_t pulses;
    int gap;      /* average gap between two heartbeats, in 1/8 ticks */
    bool ended;   /* true: the member has ended the current run, and other members may still work */
    bool retries; /* true: a packet is missing, and the member was already asked for a new connection */
    int files;    /* number of file requests that the member has not answered */
    struct {      /* the member's answer to the last ASK */
        bool came, works;
        int32_t rank; /* rank for which the member waits; -1: none */
    } report;
    bool holds;    /* true: the member has mapped its host's memory */
    char *machine; /* identity of the worker's host; NULL after the member was assigned to a memory */
    char *port;    /* address of the worker for workers of other hosts */
    bool mpi;      /* the worker can use MPI */
    int next;      /* next higher rank of the same memory in this epoch; -1: none */
};

/* A link, recorded when its first packet arrives. The table of links is indexed by the slots of their numbers
 * (peers.h). */
struct peer {
    int32_t number; /* -1: the slot has had no link */
    int32_t rank;   /* rank of the member on the link; -1: no member was admitted on it yet */
    int32_t key;    /* rank to which the key of the link belongs; -1: any rank */
    bool out;       /* true: the link's worker was rejected or lost, so packets of the link are ignored */
};

/* A worker that waits for a rank. */
struct waiting {
    int peer;
    uint32_t said;    /* number of the last packet sent to the worker */
    int missed;       /* ticks since the worker's last packet */
    uint64_t beats;   /* heartbeats that the member with the requested rank had sent when the worker arrived */
    struct str hello; /* the worker's HELLO packet */
};

/* A program, and the members that have it. */
struct shipped {
    uint64_t id;
    bool idle;    /* true: the session does not use the program at present */
    bool agreed;  /* true: it was checked that the partitions agree on their collectives */
    uint8_t *has; /* by rank: true if the member's present process has the program */
    /* by rank: version of the schedule rows (planned order of acts) that the member has; 0: none */
    uint32_t *rows;
    struct part *memory; /* by memory: plan partition of that memory */
    int nmemory;
};
/* The plan partition of a memory, as reported by the memory's workers. (A memory is shared by the workers of a host,
 * struct memory.) */
struct part {
    unsigned char digest[CLUSTER_ID];
    bool known;
    struct str arenas, replaces;
    struct str comm_ranks; /* collectives of the partition, from the last report */
};

/* A host's memory in the current epoch, and what the memory's workers need from other hosts. */
struct memory {
    struct memory_info info;
    /* (other hosts) pids of processes lost since an epoch was last formed; workers of the host kill these processes */
    uint32_t *lost;
    int nlost, lost_capacity;
    char *segment, *bus;
    /* other memories (hosts) whose workers' addresses were requested by workers of this one. Neighbours are not
     * listed, because FORM contains their addresses */
    uint32_t *meets;
    int nmeet, meet_capacity;
    int first; /* lowest rank of the memory in this epoch (the speaker); -1: none */
    int ngpu;  /* number of cuda devices of the memory, set when an epoch is formed */
};

struct coordinator {
    struct coordinator_options options;
    struct coordinator_env env;
    enum coordinator_phase phase;
    uint64_t signals; /* signals that the program handles, bits 1 << number */
    uint32_t epoch;
    struct member *member; /* state of each rank */
    int awaited;           /* number of answers that are missing until phase MAKE, FORM, SHIP or RUN ends */
    int first_out;         /* rank below which no rank is absent: every lower rank is a member or retired */
    struct memory *memory;
    int nmemory;
    /* argument of coordinator_form() for the last epoch; its pointers are valid until NOTICE_FORMED */
    struct form form;
    bool isa_is_set; /* true: `isa` is fixed, because an epoch was formed with it */
    uint32_t isa;    /* instruction sets that matrix products may use in all workers */
    /* true: in this epoch, one worker of each host (its speaker) relays the heartbeats of the others */
    bool speaks;
    uint32_t every, ticks;
    int asked;         /* ticks since members without progress were asked for reports; 0: no reports were requested */
    struct str others; /* buffer for relayed heartbeats, on their way to a speaker */
    struct peer *peer;
    int npeer, peer_capacity;
    struct waiting *waiting; /* workers that wait for a rank, in order of arrival */
    int nwaiting, waiting_capacity;
    bool grows;  /* true: the next epoch is gathered to admit waiting workers, not because of a loss */
    int started; /* number of ranks, from 0, whose workers an elastic job waits for */
    struct shipped *shipped;
    int nshipped, shipped_capacity;
    struct slot slot[CLUSTER_SLOTS];
    int nslot;
    uint32_t npaced;         /* number of successful runs; every WINDOW runs, workers' speeds are compared */
    struct start start;      /* argument of coordinator_start(), valid in phases SHIP and RUN */
    int status, blame, node; /* first failure of the run: its status, the rank that failed, and the program node */
    /* number of the last run that failed, after which communicators must be created again; 0: no run failed */
    uint32_t anew;
    char text[WIRE_TEXT];
};

static inline bool
is_in(const struct member *m)
{
    return m->info.state >= MEMBER_PRESENT && m->info.state <= MEMBER_BUSY;
}

static inline bool
is_wanted(const struct member *m)
{
    return m->info.state != MEMBER_RETIRED;
}

/* Functions of coordinator.c, which send packets and declare members lost. */
void coordinate_send(struct coordinator *c, int rank, struct packet p);
void coordinate_tell(struct coordinator *c, struct notice n);
/* Sends STOP to members that have not ended the run. If `why` is STOP_LOST, sends STOP to all members, because
 * STOP_LOST also ends the epoch. */
void coordinate_stop(struct coordinator *c, uint32_t why);
void coordinate_lose(struct coordinator *c, int rank, const char *how);
/* Ends the epoch: stops the members' work, and enters phase BROKEN. */
void coordinate_break(struct coordinator *c);
/* Checks that an answer of a member fits the present phase and state. If it does not, declares the member lost; in
 * phase BROKEN, only drops the answer. Returns `makes_sense`. */
bool coordinate_accepts(struct coordinator *c, int rank, bool makes_sense);
void coordinate_lose_for(struct coordinator *c, int rank, struct span why);
void coordinate_know(struct coordinator *c, int peer);               /* registers a link, unless it is known */
struct peer *coordinate_peer(const struct coordinator *c, int peer); /* returns a link that is known */
void coordinate_cut(struct coordinator *c, int peer);
/* returns a copy of the text, with unprintable bytes written as \x1b; the caller frees the copy */
char *coordinate_text(struct span s);
void member_forget(struct member *m);

/* Counts an answer of a member. Returns true if this was the last missing answer. */
static inline bool
coordinate_last(struct coordinator *c)
{
    assert(c->awaited > 0);
    return --c->awaited == 0;
}

#endif
