/* coordinator_inner.h - internal to the coordinator: state, and functions that several files share. Owner and thread:
 * see coordinator.h. */
#ifndef RILLE_CLUSTER_COORDINATOR_INNER_H
#define RILLE_CLUSTER_COORDINATOR_INNER_H

#include "actors/cluster/coordinator/coordinator.h"

/* A worker's work since the last comparison of paces. */
struct pace {
    uint64_t acts, busy_ns;
    double times; /* slowdown against its peers at the last comparison; 0: not slow */
    int32_t rank;
    bool told;
};

struct member {
    struct member_info info;
    struct pace pace;
    uint32_t sent, seen, said; /* packet numbers: last sent, last received, last reported by a heartbeat */
    uint64_t pulses;
    bool ended;    /* ended the current run */
    bool holds;    /* has the memory of the host mapped */
    char *machine; /* host identity; NULL once its memory has a number */
    char *port;    /* address for workers of other hosts */
    bool mpi;      /* the worker has MPI */
    int next;      /* next rank of the same memory in this epoch; -1: none */
};

/* A link, from its first packet on. */
struct peer {
    int32_t rank; /* member on the link; -1: none yet */
    int32_t key;  /* rank that its key belongs to; -1: any */
    bool out;     /* refused or lost; its packets are ignored */
};

/* A program, and which members have it. */
struct shipped {
    uint64_t id;
    bool idle;           /* unused at present */
    bool agreed;         /* the partitions agree on their collectives */
    uint8_t *has;        /* by rank: the member's current process has the program */
    uint32_t *rows;      /* by rank: number of the member's schedule rows; 0: none */
    struct part *memory; /* by memory */
};
/* A plan partition, as reported by the workers of its memory. */
struct part {
    unsigned char digest[CLUSTER_ID];
    bool known;
    struct str arenas, replaces;
    struct str comm_ranks; /* collectives, by the last report */
};

/* A host's memory, as its first worker made it for the epoch. */
struct memory {
    struct memory_info info;
    uint32_t *lost; /* pids lost on another host since the last formed epoch; remaining workers there kill them */
    int nlost, lost_capacity;
    char *segment, *bus;
    uint32_t *meets; /* memories whose ports its workers asked for; ports of neighbours are known anyway */
    int nmeet, meet_capacity;
    int first; /* lowest rank of the memory in this epoch, its speaker; -1: none */
    int ngpu;  /* number of cuda devices, set when an epoch is formed */
};

struct coordinator {
    struct coordinator_options options;
    struct coordinator_env env;
    enum coordinator_phase phase;
    uint32_t epoch;
    struct member *member; /* by rank */
    int awaited;           /* answers missing until the phase ends: MAKE, FORM, SHIP, RUN */
    int first_out;         /* every rank below is a member or retired */
    struct memory *memory;
    int nmemory;
    struct form form; /* of the last epoch; its pointers are valid until NOTICE_FORMED */
    bool speaks;      /* members of this epoch have speakers */
    uint32_t every, ticks;
    struct str others; /* buffer for relayed heartbeats */
    struct peer *peer;
    int npeer, peer_capacity;
    struct shipped *shipped;
    int nshipped, shipped_capacity;
    struct slot slot[CLUSTER_SLOTS];
    int nslot;
    uint32_t npaced;         /* successful runs, for the comparison of paces */
    struct start start;      /* valid in SHIP and RUN */
    int status, blame, node; /* first failure of the run */
    uint32_t anew;           /* number of the last failed run; 0: none */
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

/* coordinator.c: sending, and losing a member. */
void coordinate_send(struct coordinator *c, int rank, struct packet p);
void coordinate_tell(struct coordinator *c, struct notice n);
/* Sends STOP to members that have not ended the run. STOP_LOST goes to all, because it also ends the epoch. */
void coordinate_stop(struct coordinator *c, uint32_t why);
void coordinate_lose_for(struct coordinator *c, int rank, struct span why);
void coordinate_know(struct coordinator *c, int peer); /* registers a link if it is new */
void coordinate_cut(struct coordinator *c, int peer);
char *coordinate_text(struct span s); /* malloc'd; unprintable bytes as \x1b */
void member_forget(struct member *m);

/* coordinator_admit.c */
void coordinate_hello(struct coordinator *c, int peer, const struct packet *p);
bool coordinate_all_in(struct coordinator *c);
void coordinate_full(struct coordinator *c, int rank); /* every rank is present */
bool coordinate_zero(const unsigned char id[CLUSTER_ID]);
/* Compares in constant time. */
bool coordinate_same(struct span said, const unsigned char want[CLUSTER_ID]);

/* coordinator_epoch.c */
/* Return true if members have speakers now; if a speaker relays the heartbeats of this rank. */
bool coordinate_speaks(const struct coordinator *c);
bool coordinate_is_spoken(const struct coordinator *c, int rank);
int coordinate_keeper(const struct coordinator *c, int memory);
/* Counts an answer; returns true if no more answers are awaited. */
static inline bool
coordinate_last(struct coordinator *c)
{
    assert(c->awaited > 0);
    return --c->awaited == 0;
}
void coordinate_made(struct coordinator *c, int rank, const struct packet *p);
void coordinate_ready(struct coordinator *c, int rank, const struct packet *p);
void coordinate_meet(struct coordinator *c, int rank, const struct packet *p);

/* coordinator_pace.c: coordinate_worked records an END; coordinate_pace follows the last END of a successful run. */
void coordinate_worked(struct coordinator *c, int rank, const struct packet *p);
void coordinate_pace(struct coordinator *c);

/* coordinator_run.c */
void coordinate_have(struct coordinator *c, int rank, const struct packet *p);
void coordinate_end(struct coordinator *c, int rank, const struct packet *p);
void coordinate_acts(struct coordinator *c, int rank, const struct packet *p);
void coordinate_filed(struct coordinator *c, int rank, const struct packet *p);
void coordinate_unite(struct coordinator *c, int rank, const struct packet *p);
void shipped_free(struct coordinator *c, struct shipped *s);

#endif
