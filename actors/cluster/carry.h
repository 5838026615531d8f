/* carry.h - inside the carrier: what carrier.c, whose thread has the links, carrying.c, which device threads call, and
 * the nets share. */
#ifndef RILLE_CLUSTER_CARRY_H
#define RILLE_CLUSTER_CARRY_H

#include "actors/cluster/carrier.h"
#include "actors/cluster/mpi.h"

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

enum {
    PIECE = CARRIER_PIECE,
    CREDITS = 8,
    LIST_MOST = 1 << 26,
    SILENT_MS = 3000, /* what was sent is not acknowledged for so long, or a link is down: it is lost */
};
enum road { MESSAGES, BYTES, NROAD };
enum { CARRY_ASK = 64, CARRY_LIST, CARRY_BRING, CARRY_BROUGHT }; /* kinds of messages beside enum msg_kind */

/* What BRING asks for, its body; of BROUGHT what came, before the bytes. */
struct bring {
    uint64_t count, at, n;
};

/* What every message begins with, and those of lists and pieces have bytes behind. Hosts have one order of bytes. */
struct head {
    unsigned char job[CLUSTER_ID];
    struct msg m;
    uint64_t program; /* ASK, LIST */
    uint64_t offset;  /* a piece's, in what its act sends */
};

/* What one act of a SEND sends. */
struct parcel {
    struct parcel *next; /* in the line of its peer */
    struct carry_lane *lane;
    struct msg m; /* the FULL behind it */
    const char *bytes;
    int64_t sent;
    _Atomic int32_t left; /* pieces that ZeroMQ still has, or has yet to get */
};

/* A channel with bytes, as this end sees it: a ring of as many acts as it has registers. */
struct carry_lane {
    struct carrying *of;
    const struct channel *c;
    uint32_t far_addr;
    int32_t far_task, npiece;
    const struct view *dense; /* SEND: what it sends lies in one piece; NULL: put() gathers it */
    char *copies;             /* SEND: of what it sends, by act, as many as it has registers */
    struct parcel *parcel;    /* SEND */
    int64_t put, told;        /* SEND: acts; the device thread's */
    _Atomic int64_t gone;     /* SEND: acts whose bytes ZeroMQ has no more use for */
    zmq_msg_t *piece;         /* RECV: npiece an act */
    int64_t came, offset;     /* RECV: acts that are here, bytes of the next one; the carrier's thread's */
    _Atomic int64_t taken;    /* RECV: the device thread's */
};

struct carrying {
    struct carrier *carrier;
    const struct plan *plan;
    struct carry_lane *lane; /* by channel */
    struct carry_lane **to;  /* those that send, by address and task of the other end */
    int32_t nto;
    struct transport transport;
};

struct peer {
    char port[NROAD][CARRIER_PORT];
    void *socket[NROAD], *monitor[NROAD]; /* net_zmq's */
    struct parcel *first, **last;         /* not sent yet, in order */
    _Atomic int32_t flying;               /* pieces in ZeroMQ's hands */
    int64_t down_ns;                      /* since when a link of it is; 0 */
};

struct item { /* of the queue: a message, or a parcel */
    struct msg m;
    struct parcel *parcel;
    struct bring bring; /* of a message that asks for bytes */
};

/* What carries messages between workers, each a head and a body or none. Heads of one road and sender arrive in the
 * order sent. The carrier's thread calls, under its lock; who else, ready() says. */
struct net {
    const char *name;
    int (*connect)(struct carrier *c, int rank); /* E_BUS */
    void (*close)(struct carrier *c, int rank);  /* and it has no more use for any body */
    /* Takes the body over, and frees it when it has no more use for it. NULL: there is none. */
    void (*send)(struct carrier *c, int rank, enum road road, const struct head *h, zmq_msg_t *body);
    /* The next message of a road, whole; body: an empty one, which it fills. */
    bool (*receive)(struct carrier *c, enum road road, struct head *h, zmq_msg_t *body);
    bool (*ready)(struct carrier *c, int rank);   /* the link is there, and any thread that has the lock may send */
    bool (*is_down)(struct carrier *c, int rank); /* since it was last asked: the link has ended */
};
extern const struct net net_zmq, net_mpi;
int net_zmq_bind(struct carrier *c, enum road road, const char *host);
/* net_mpi.c: waits for all workers to do so. E_BUS: they are not those that MPI sees. */
int mpi_open(struct carrier *c);
void mpi_close(struct carrier *c);         /* waits as well, unless it is broken */
void mpi_break(struct carrier *c);         /* somebody is gone */
bool mpi_is_busy(const struct carrier *c); /* is it worth while to look often? */

struct carrier {
    struct carrier_hear hear;
    const struct net *net;  /* by which it sends in this epoch; it receives by all */
    enum carrier_mpi wants; /* as it was asked for */
    const struct mpi_plugin *plugin;
    struct mpi *mpi; /* NULL: it is not open */
    char why[256];   /* MPI is not used */
    struct key key;
    bool has_key, was_joined;
    void *context;
    struct curve *curve;
    void *in[NROAD];
    char port[NROAD][CARRIER_PORT];
    int wake_fd;
    pthread_t thread;
    bool runs;
    atomic_bool over;     /* the thread is at its end */
    pthread_mutex_t lock; /* guards what follows */
    bool quit, joined, told_lost;
    uint32_t epoch, run;
    unsigned char job[CLUSTER_ID];
    int rank, world, serial; /* serial: of names of monitors */
    struct peer *peer;       /* by rank */
    struct bus *bus;
    struct carrying *carrying; /* of the run in progress; NULL */
    bool held[NROAD];          /* a message that is not for now, and all behind it */
    bool look[NROAD];          /* something may have come: a look that finds nothing is a system call */
    struct head head[NROAD];
    zmq_msg_t body[NROAD];
    int64_t tick_ns;
    pthread_mutex_t queue_lock;
    struct item *queue, *draining;
    int32_t nqueue, queue_capacity, draining_capacity;
    atomic_bool asleep, cut, lost, opens; /* lost: somebody is; opens: MPI is to be opened */
    _Atomic int64_t flying;               /* pieces in ZeroMQ's hands, to all */
    atomic_bool dropping;                 /* the run has ended early: nothing more leaves */
};

/* What comes of a message: taken or dropped; it has to wait, and all behind it; it is nobody's who belongs here. Takes
 * the body over where it keeps it. */
enum fate { FATE_DONE, FATE_LATER, FATE_STRANGE };
enum fate carrier_take(struct carrier *c, enum road road, const struct head *h, zmq_msg_t *body);
/* bring.c: sends, and takes, what asks for bytes of memories and what brings them. */
void carrier_send_bring(struct carrier *c, const struct item *i);
enum fate carrier_take_bring(struct carrier *c, const struct head *h, zmq_msg_t *body);
enum fate carrier_take_brought(struct carrier *c, const struct head *h, zmq_msg_t *body);
/* carrier.c: the head of a message of this epoch; is its receiver one that a link goes to? Puts an item into the queue.
 */
struct head carrier_head(const struct carrier *c, const struct msg *m);
bool carrier_knows(struct carrier *c, int rank);
void carrier_post(struct carrier *c, const struct item *i);
/* A message of the carrier's own to another worker's. */
struct msg carrier_speech(const struct carrier *c, int kind, int rank);
/* Finds the lane of a FULL; NULL: its channel has no bytes. */
struct carry_lane *carrying_find(const struct carrying *k, const struct msg *m);
/* Makes the carrier's thread look around. Any thread. */
void carrier_wake(struct carrier *c);
/* Waits until ZeroMQ has nothing in its hands any more. */
void carrier_await(struct carrier *c);

#endif
