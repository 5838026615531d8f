/* coordinate.h - inside the coordinator: its state, and what its files call of each other. Owner and thread:
 * coordinator.h. */
#ifndef RILLE_CLUSTER_COORDINATE_H
#define RILLE_CLUSTER_COORDINATE_H

#include "actors/cluster/coordinator.h"

/* What a worker did since they were compared last. */
struct pace {
    uint64_t acts, busy_ns;
    double times; /* how much longer than others it took before that; 0: not */
    int32_t rank;
    bool told;
};

struct member {
    struct member_info info;
    struct pace pace;
    uint32_t sent, seen, said; /* numbers of packets of its link; said: by its heartbeat */
    uint64_t pulses;
    bool ended;    /* in this run */
    bool holds;    /* it has its host's memory mapped */
    char *machine; /* until memories have numbers */
    char *port;    /* where workers of other hosts reach it */
    bool mpi;      /* it has MPI */
    int next;      /* of its memory in this epoch: the next rank; -1: none */
};

/* A link: what a stranger has until it is a member. */
struct peer {
    int32_t rank; /* -1: none */
    int32_t key;  /* the rank whose key it has; -1: it may be any */
    bool out;     /* refused or lost: nobody reads what still comes */
};

/* Who has a program. */
struct shipped {
    uint64_t id;
    bool idle;           /* nobody wants it now */
    bool agreed;         /* its parts say the same of their collectives */
    uint8_t *has;        /* by rank: in this epoch's process */
    uint32_t *rows;      /* by rank: the number of those that it has; 0: none */
    struct part *memory; /* by memory */
};
/* What a memory's workers made of it. */
struct part {
    unsigned char digest[CLUSTER_ID];
    bool known;
    struct str arenas, replaces;
    struct str seats; /* what the last one said of its collectives */
};

/* What a host's first worker made for the epoch. */
struct memory {
    struct memory_info info;
    uint32_t
        *lost; /* processes of another host that were lost since the last epoch stood; those that are left end them */
    int nlost, lost_capacity;
    char *segment, *bus;
    uint32_t *meets; /* memories whose workers its own have asked for; its neighbours they know anyway */
    int nmeet, meet_capacity;
    int first; /* rank of its first member in this epoch, which speaks for the others; -1: it has none */
    int ngpu;  /* devices of kind cuda, since an epoch was formed */
};

struct coordinator {
    struct coordinator_options options;
    struct coordinator_env env;
    enum coordinator_phase phase;
    uint32_t epoch;
    struct member *member; /* by rank */
    int awaited;           /* answers that are still to come before the phase ends: MAKE, FORM, SHIP, RUN */
    int first_out;         /* all ranks below are in, or wanted no more */
    struct memory *memory;
    int nmemory;
    struct form form; /* in MAKE */
    bool speaks;      /* members of this epoch have speakers */
    uint32_t every, ticks;
    struct str others; /* of the last heartbeat */
    struct peer *peer;
    int npeer, peer_capacity;
    struct shipped *shipped;
    int nshipped, shipped_capacity;
    struct slot slot[CLUSTER_SLOTS];
    int nslot;
    uint32_t npaced;         /* runs that members' paces count */
    struct start start;      /* in SHIP and RUN */
    int status, blame, node; /* the first failure of the run */
    uint32_t anew;           /* the last run that failed; 0: none has */
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

/* coordinator.c: speaking, and losing a member. */
void coordinate_send(struct coordinator *c, int rank, struct packet p);
void coordinate_tell(struct coordinator *c, struct notice n);
/* Tells those that have ended of a loss alone, which ends what they still have of the epoch. */
void coordinate_stop(struct coordinator *c, uint32_t why);
void coordinate_lose_for(struct coordinator *c, int rank, struct span why);
void coordinate_know(struct coordinator *c, int peer); /* a link that may be new */
void coordinate_cut(struct coordinator *c, int peer);
char *coordinate_text(struct span s); /* malloc; what does not print as \x1b */
void member_forget(struct member *m);

/* coordinator_admit.c */
void coordinate_hello(struct coordinator *c, int peer, const struct packet *p);
bool coordinate_all_in(struct coordinator *c);
void coordinate_full(struct coordinator *c, int rank); /* every rank is there */
bool coordinate_zero(const unsigned char id[CLUSTER_ID]);
/* Compares in the same time whatever the bytes are. */
bool coordinate_same(struct span said, const unsigned char want[CLUSTER_ID]);

/* coordinator_epoch.c */
/* Do workers speak for others of their hosts now? Does one for this rank? */
bool coordinate_speaks(const struct coordinator *c);
bool coordinate_is_spoken(const struct coordinator *c, int rank);
int coordinate_keeper(const struct coordinator *c, int memory);
/* An answer came: was it the last? */
static inline bool
coordinate_last(struct coordinator *c)
{
    assert(c->awaited > 0);
    return --c->awaited == 0;
}
void coordinate_made(struct coordinator *c, int rank, const struct packet *p);
void coordinate_ready(struct coordinator *c, int rank, const struct packet *p);
void coordinate_meet(struct coordinator *c, int rank, const struct packet *p);

/* coordinator_pace.c: an END came; all of a run that did not fail have come. */
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
